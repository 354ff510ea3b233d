"""Checks before NVIDIA's flow: driver, container toolkit, GPUs, MIG instances.

The failures that they prevent were reported by users of the published flows; the page
docs/how-to/doctor.md has the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cmbench.doctor.vendors import INFO, LOOK, OK, STOP, Finding, FlowCheck, FlowView
from cmbench.errors import Error
from cmbench.lib import nvidia
from cmbench.lib.versions import compare

OLDEST_TOOLKIT = "1.4.0"
"""Of libnvidia-container: what NVIDIA's and Azure's guides ask for."""
CDI = ("etc/cdi/nvidia.yaml", "var/run/cdi/nvidia.yaml")
MAKE_CDI = "`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
COOL_T4 = 65
"""Degrees Celsius below which a T4 should stay, by the tuning guide."""
STATE = (
    "index",
    "temperature.gpu",
    "memory.used",
    "clocks_throttle_reasons.hw_slowdown",
    "clocks_throttle_reasons.hw_thermal_slowdown",
    "clocks_throttle_reasons.sw_thermal_slowdown",
    "power.limit",
    "power.default_limit",
)
"""What is asked of each GPU as it is now, by nvidia-smi's names."""
_ALL_OR_NONE = ("all", "none", "void")


def check_driver(view: FlowView) -> Iterator[Finding]:
    """Check that the driver answers, where there is a sign of one."""
    driver, machine = view.driver, view.machine
    if not driver.problem:
        cuda = f", CUDA up to {driver.cuda}" if driver.cuda else ""
        yield view.finding(OK, f"driver {driver.version}{cuda}, {len(driver.gpus)} GPUs")
    elif nvidia.signs(machine.root, machine.find):
        says = f": {driver.says[0]}" if driver.says and driver.trouble != "other" else ""
        yield view.finding(STOP, driver.problem + says, driver.remedy)
    else:
        yield view.finding(INFO, f"{driver.problem}: the stand-in on the CPU is used")


def check_driver_of_round(view: FlowView) -> Iterator[Finding]:
    """Check that the driver is new enough for the round's submission."""
    driver, vendor_round = view.driver, view.subject.vendor_round
    if driver.problem or not driver.version:
        return
    rounds = (
        {vendor_round: nvidia.ROUND_DRIVERS.get(vendor_round, "")}
        if vendor_round
        else nvidia.ROUND_DRIVERS
    )
    old = [f"{name} needs {least}" for name, least in rounds.items() if _older(driver, least)]
    if not old:
        yield view.finding(OK, f"driver {driver.version} is new enough for {', '.join(rounds)}")
        return
    text = f"driver {driver.version} is too old: {', '.join(old)} or newer"
    if view.subject.skip_driver:
        yield view.finding(
            LOOK, f"{text}; ignored because of SKIP_DRIVER_CHECK", "update the driver"
        )
    else:
        state = STOP if vendor_round else LOOK
        yield view.finding(state, text, "update the driver; to try anyway: SKIP_DRIVER_CHECK=1")


def _older(driver: nvidia.Driver, least: str) -> bool:
    return bool(least) and compare(driver.version, least) < 0


def check_cuda(view: FlowView) -> Iterator[Finding]:
    """Check that the CUDA on PATH, of this machine or container, is not newer than the driver."""
    if view.driver.problem or not view.machine.find("nvcc"):
        return
    match = re.search(r"release (\d+\.\d+)", view.machine.say("nvcc", "--version").output)
    if not match:
        return
    least = nvidia.least_driver(match[1])
    if _older(view.driver, least):
        text = f"CUDA {match[1]} needs driver {least}, and {view.driver.version} is loaded"
        # Programs have libraries of their own; a program compiled with this toolkit fails.
        yield view.finding(LOOK, text, "update the driver, or use an image with an older CUDA")
    elif view.driver.cuda and compare(match[1], view.driver.cuda) > 0:
        text = f"CUDA {match[1]} is newer than what the driver was made for, {view.driver.cuda}"
        yield view.finding(LOOK, text, "its programs run if they need none of its new features")
    else:
        yield view.finding(OK, f"CUDA {match[1]} runs on driver {view.driver.version}")


def check_container_toolkit(view: FlowView) -> Iterator[Finding]:
    """Check that NVIDIA's container toolkit is new enough, and made for the loaded driver."""
    machine = view.machine
    engine = any(machine.find(name) for name in ("docker", "podman"))
    if view.driver.problem or not engine:
        return
    answer = machine.say("nvidia-container-cli", "--version")
    match = re.search(r"lib-version: (\d[\d.]*)", answer.output)
    if not match or compare(match[1], OLDEST_TOOLKIT) < 0:
        seen = f"this is {match[1]}" if match else "it is missing"
        text = f"libnvidia-container {OLDEST_TOOLKIT} or newer is needed to pass on GPUs; {seen}"
        yield view.finding(LOOK, text, "`cm run script --tags=get,nvidia-docker` tells how")
    else:
        yield view.finding(OK, f"libnvidia-container {match[1]}")
    yield from _device_list(view)


def _device_list(view: FlowView) -> Iterator[Finding]:
    """A list of devices (CDI) names the libraries of one driver; an update makes it wrong."""
    for path in CDI:
        named = set(re.findall(r"libcuda\.so\.(\d+\.[\d.]*\d)", view.machine.read(path)))
        if named and view.driver.version not in named:
            text = f"/{path} is for driver {', '.join(sorted(named))}, loaded is "
            text += f"{view.driver.version}: containers find no libcuda"
            yield view.finding(STOP, text, MAKE_CDI)


def check_equal_gpus(view: FlowView) -> Iterator[Finding]:
    """Check that all GPUs are of one kind, or that a variable selects some."""
    names = sorted({gpu.name for gpu in view.driver.gpus})
    if len(names) > 1 and not view.env("CUDA_VISIBLE_DEVICES"):
        text = f"the GPUs differ: {', '.join(names)}"
        yield view.finding(LOOK, text, "`export CUDA_VISIBLE_DEVICES=…` of one kind")


def check_visible_gpus(view: FlowView) -> Iterator[Finding]:
    """Check that the variables that choose GPUs name existing ones."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        value = view.machine.environ.get(name)
        if value is None or (name.startswith("NVIDIA") and value.lower() in _ALL_OR_NONE):
            continue
        unset = f"unset {name}; what there is: nvidia-smi -L"
        gone = [
            word for word in nvidia.words_of(value) if not nvidia.find_gpu(word, view.driver.gpus)
        ]
        if not view.driver.gpus:
            text = f"{name}={value}: no GPU responds"
            yield view.finding(LOOK, text, f"unset {name}")
        elif gone:
            yield view.finding(
                STOP, f"{name}={value}: {', '.join(gone)} is not a GPU of this machine", unset
            )
        elif not nvidia.words_of(value):
            yield view.finding(STOP, f"{name} is set and empty: it hides every GPU", unset)
        else:
            yield view.finding(OK, f"{name}={value}")


def check_mig(view: FlowView) -> Iterator[Finding]:
    """Check that a GPU with MIG on has an instance, and that MIG is on everywhere or nowhere."""
    cut = [gpu for gpu in view.driver.gpus if gpu.mig_is_on]
    for gpu in cut:
        if not gpu.mig:
            text = f"GPU {gpu.index}: MIG is on, but there is no instance: nothing can use it"
            one = f"NVIDIA_VISIBLE_DEVICES={gpu.index}"
            remedy = f"`{one} MIG_CONF=1 make configure_mig`, or `{one} make teardown_mig`"
            yield view.finding(STOP, text, remedy)
            continue
        profiles = sorted({part.profile for part in gpu.mig})
        text = f"GPU {gpu.index}: {len(gpu.mig)} MIG instances of {', '.join(profiles)}"
        if len(profiles) > 1:
            yield view.finding(LOOK, f"{text}: instances of one size are measured", _ONE)
        elif len(gpu.mig) > 1 and "MIG-" not in view.env("CUDA_VISIBLE_DEVICES"):
            yield view.finding(LOOK, f"{text}: a program takes the first", _ONE)
        else:
            yield view.finding(OK, text)
    if cut and len(cut) < len(view.driver.gpus):
        text = f"MIG is on at {len(cut)} of {len(view.driver.gpus)} GPUs"
        yield view.finding(LOOK, text, _ONE)


_ONE = "`export CUDA_VISIBLE_DEVICES=MIG-…` of one of them (`nvidia-smi -L`)"


def check_gpu_memory(view: FlowView) -> Iterator[Finding]:
    """Check that every used GPU, or MIG instance, has memory for the weights of the benchmarks."""
    for gpu in _used(view):
        have = gpu.usable
        needs = {n.name: n.gpu_memory >> 20 for n in view.subject.needs}
        large = [f"{name} ({need} MiB)" for name, need in needs.items() if have and need > have]
        if large:
            what = f"GPU {gpu.index}{' has parts of' if gpu.mig else ' has'} {have} MiB"
            text = f"{what}, too little for the weights of {', '.join(large)}"
            yield view.finding(STOP, text, "leave it out: --benchmarks=…, or use a larger GPU")


def _used(view: FlowView) -> tuple[nvidia.NvidiaGpu, ...]:
    """Return the GPUs that the variables select."""
    try:
        return nvidia.visible(view.driver.gpus, view.machine.environ.get("CUDA_VISIBLE_DEVICES"))
    except Error:
        return view.driver.gpus


def check_busy_gpus(view: FlowView) -> Iterator[Finding]:
    """Check that no other process computes on the GPUs."""
    machine = view.machine
    if view.driver.problem:
        return
    processes = nvidia.processes(machine.root, machine.find, lambda words: machine.say(*words))
    who = [f"{name} ({number})" for _, number, name in processes]
    if who:
        text = f"{len(who)} processes compute on the GPUs: {', '.join(who[:3])}"
        yield view.finding(LOOK, text, "end them, or choose others: CUDA_VISIBLE_DEVICES=…")


def check_gpu_state(view: FlowView) -> Iterator[Finding]:
    """Check temperature, power limit, slow-downs, ECC and persistence, as far as reported."""
    machine = view.machine
    if view.driver.problem:
        return
    ask = lambda words: machine.say(*words)  # noqa: E731
    rows = {row.get("index"): row for row in nvidia.rows_of(STATE, machine.root, machine.find, ask)}
    for gpu in view.driver.gpus:
        row = rows.get(str(gpu.index), {})
        wrong = [*_slow(row), *_warm(gpu.name, row)]
        if wrong:
            remedy = "cool it; lock its clock: `GPUCLK=… make lock_clocks`"
            yield view.finding(LOOK, f"GPU {gpu.index}: {', '.join(wrong)}", remedy)
        if gpu.kind.get("persistence_mode") == "Disabled":
            text = f"GPU {gpu.index}: persistence is off, so the first query waits for the driver"
            yield view.finding(INFO, text, "as root: `nvidia-smi -pm 1`")


def _slow(row: dict[str, str]) -> Iterator[str]:
    reasons = [name for name, value in row.items() if value == "Active"]
    if reasons:
        yield f"slowed down now ({', '.join(name.rpartition('.')[2] for name in reasons)})"
    limit, usual = (_number(row.get(name, "")) for name in ("power.limit", "power.default_limit"))
    if limit and usual and limit < 0.98 * usual:
        yield f"its power is limited to {limit:.0f} W of {usual:.0f} W"


def _warm(name: str, row: dict[str, str]) -> Iterator[str]:
    heat = _number(row.get("temperature.gpu", ""))
    if "T4" in name.split() and heat >= COOL_T4:
        yield f"{heat:.0f} °C: a T4 slows down above {COOL_T4} °C"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


CHECKS = (
    FlowCheck("driver.works", check_driver),
    FlowCheck("driver.round", check_driver_of_round),
    FlowCheck("driver.cuda", check_cuda),
    FlowCheck("container.gpus", check_container_toolkit),
    FlowCheck("gpu.alike", check_equal_gpus),
    FlowCheck("gpu.visible", check_visible_gpus),
    FlowCheck("gpu.mig", check_mig),
    FlowCheck("gpu.memory", check_gpu_memory),
    FlowCheck("gpu.busy", check_busy_gpus),
    FlowCheck("gpu.state", check_gpu_state),
)
