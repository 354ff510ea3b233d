"""Show the GPUs as a program of the CUDA runtime sees them, or as the driver does.

The lines and their labels are those that scripts of CM read.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cmbench.errors import Error
from cmbench.lib import nvidia
from cmbench.lib.probe import ProbeResult, probe

LABELS = {
    "GPU Name": "name",
    "GPU compute capability": "compute_cap",
    "Global memory": "",
    "Max clock rate": "clocks.max.sm",
    "GPU UUID": "",
    "PCI bus ID": "",
    "ECC": "ecc.mode.current",
}
"""What a driver knows too, by the labels of the program and nvidia-smi's names."""
NO_DRIVER, NO_DEVICE = 35, 100
WORDS = {
    3: "the driver could not be initialised",
    46: "all GPUs are taken by other processes, or may be used by one process only",
    100: "the driver works, and shows no GPU to this process",
    101: "CUDA_VISIBLE_DEVICES names a GPU that is not there",
    802: "the GPUs are not ready: on machines with NVSwitch, nvidia-fabricmanager has to run",
    803: "the driver's library does not fit the driver that is loaded: restart the machine",
    804: "this GPU cannot run a newer CUDA than its driver's (forward compatibility)",
    999: "the driver failed; after a suspend, its module nvidia_uvm has to be loaded anew",
}
"""What the codes of the CUDA runtime mean here; the others' own words will do."""


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say what compiles; the program is made by the step that comes next."""
    env = i["env"]
    # All hooks of a step share this dictionary.
    i["run_script_input"]["started"] = time.monotonic()
    nvcc = env.get("CM_NVCC_BIN_WITH_PATH")
    if env.get("CM_TMP_CUDA_DEVICES_BY") or not nvcc:
        return {"return": 0}
    print("Checking compiler version ...\n")
    print(probe([nvcc, "-V"]).output)
    print("Compiling program ...\n")
    env["CM_TMP_CUDA_COMPILE"] = "yes"
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Query, print and export the devices; raise Error where no GPU can be used."""
    env = i["env"]
    method = env.get("CM_TMP_CUDA_DEVICES_BY") or ""
    if method == "signs":
        return {"return": 0}
    program = env.get("CM_CUDA_DEVICE_QUERY")
    if method == "pycuda":
        devices = by_program([env["CM_PYTHON_BIN_WITH_PATH"], beside("with_pycuda.py")], env)
    elif program and not method:
        devices = by_program([program], env)
    else:
        devices = by_driver(env, method)
    print("  - Running postprocess ...")
    for device in devices:
        print("\n".join(f"{label}: {value}" for label, value in device.items()) + "\n")
    seconds = time.monotonic() - i["run_script_input"]["started"]
    print(f'  - running time of script "get,cuda-devices": {seconds:.2f} sec.')
    give_back(i, devices)
    return {"return": 0}


def beside(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


# ---- by a program of the CUDA runtime


def by_program(command: Sequence[str], env: Mapping[str, Any]) -> list[dict[str, str]]:
    """The devices as the runtime shows them; raises Error with what its code means."""
    print("Running program ...\n")
    libraries = ":".join(env.get("+LD_LIBRARY_PATH") or [])
    answer = probe(command, timeout=120, env={"LD_LIBRARY_PATH": libraries} if libraries else None)
    if not answer.ok:
        raise refused(answer, env)
    devices = parsed(answer.stdout)
    if not devices:
        raise failed(NO_DEVICE, WORDS[NO_DEVICE], ())
    parts = {gpu.uuid: gpu for gpu in nvidia.read().gpus}
    for device in devices:
        gpu = parts.get(device.get("GPU UUID", ""))
        device["MIG instances"] = mig_text(gpu) if gpu else "not known"
    return devices


def parsed(text: str) -> list[dict[str, str]]:
    """Return the blocks of the output, which begin with the number of the device."""
    devices: list[dict[str, str]] = []
    for line in text.splitlines():
        label, colon, value = line.partition(":")
        if label == "GPU Device ID":
            devices.append({})
        if colon and devices:
            # The label with two blanks after its colon keeps them, for who compares lines.
            devices[-1][label] = value[1:] if value.startswith("  ") else value.strip()
    return devices


def refused(answer: ProbeResult, env: Mapping[str, Any]) -> Error:
    """The failure that the program's own words stand for."""
    match = re.search(r"^error: (\d+) (.*)", answer.output, re.MULTILINE)
    if match is None:
        return Error(
            "no-driver",
            f"the program that asks CUDA for its devices failed: {answer.problem}",
            hint="see what the driver itself says: `cm run script --tags=get,nvidia-driver`",
            context=answer.tail(5),
        )
    code, said = int(match[1]), f"CUDA says: error {match[1]}, {match[2]}"
    if code != NO_DRIVER:
        return failed(code, WORDS.get(code, match[2]), (said,))
    versions = re.search(r"driver ([\d.]+) runtime ([\d.]+)", answer.output)
    runtime = versions[2] if versions else str(env.get("CM_CUDA_VERSION") or "")
    driver = nvidia.read()
    if not driver.problem:
        too_old = f"the driver {driver.version} is older than CUDA {runtime}"
        knows = f"it runs programs up to CUDA {versions[1]}" if versions else ""
        driver = nvidia.Driver(driver.version, problem=too_old, says=(knows,) if knows else ())
    return nvidia.no_driver(driver, cuda=runtime, context=(said,))


def failed(code: int, words: str, said: Sequence[str]) -> Error:
    """A driver that is there, and a GPU that cannot be used."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    context = [*said, *([f"CUDA_VISIBLE_DEVICES={visible}"] if visible is not None else [])]
    driver = nvidia.read()
    context += [driver.problem] if driver.problem else []
    hint = "compare with: `nvidia-smi -L`"
    if code in (NO_DEVICE, 101) and visible is not None:
        hint = "`unset CUDA_VISIBLE_DEVICES`, or name a GPU that `nvidia-smi -L` shows"
    name = "no-device" if code in (NO_DEVICE, 101) else "no-driver"
    return Error(name, words, hint=driver.remedy or hint, context=context)


# ---- by the driver


def by_driver(env: Mapping[str, Any], method: str) -> list[dict[str, str]]:
    """Return the devices as the driver shows them: by its library, then by nvidia-smi."""
    if not method:
        why = "its program could not be made" if env.get("CM_NVCC_BIN_WITH_PATH") else "no nvcc"
        print(f"{why}: the driver is asked, which does not know all values")
    driver = nvidia.read(library_first=True)
    if driver.problem:
        raise nvidia.no_driver(driver, cuda=str(env.get("CM_CUDA_VERSION") or ""))
    print(f"asked: {driver.source}, driver {driver.version}\n")
    return [shown(gpu, driver) for gpu in driver.gpus]


def shown(gpu: nvidia.NvidiaGpu, driver: nvidia.Driver) -> dict[str, str]:
    """Return a GPU under the labels of the program, without values that only CUDA has."""
    values = {label: gpu.kind.get(field, "") for label, field in LABELS.items()}
    values["Global memory"] = str(gpu.memory << 20) if gpu.memory else ""
    values["GPU UUID"], values["PCI bus ID"] = gpu.uuid, gpu.bus_id
    if values["Max clock rate"].isdigit():
        values["Max clock rate"] = f"{float(values['Max clock rate']):f} MHz"
    values["ECC"] = {"Enabled": "on", "Disabled": "off"}.get(values["ECC"], values["ECC"])
    known = {label: value for label, value in values.items() if value and value != "[N/A]"}
    cuda = {"CUDA driver version": driver.cuda} if driver.cuda else {}
    return {"GPU Device ID": str(gpu.index), **known, **cuda, "MIG instances": mig_text(gpu)}


def mig_text(gpu: nvidia.NvidiaGpu) -> str:
    """How many instances, their profiles and UUIDs."""
    if not gpu.mig_is_on:
        return "0"
    parts = ", ".join(f"{part.profile} {part.uuid}" for part in gpu.mig)
    return f"{len(gpu.mig)}: {parts}" if parts else "0 (MIG is on: make some)"


# ---- exports


def give_back(i: dict[str, Any], devices: Sequence[Mapping[str, str]]) -> None:
    """Env and state as the scripts of CM have them; the last device gives the env's values."""
    env, state = i["env"], i["state"]
    merged: dict[str, str] = {}
    for device in devices:
        merged.update({label: value.strip() for label, value in device.items()})
    for label, value in merged.items():
        env["CM_CUDA_DEVICE_PROP_" + re.sub(r"\W", "_", label.upper())] = value
    env["CM_CUDA_NUM_DEVICES"] = str(len(devices))
    state["cm_cuda_num_devices"] = len(devices)
    state["cm_cuda_device_prop"] = merged
    state["cm_cuda_devices_prop"] = {
        number: {label: value.strip() for label, value in device.items()}
        for number, device in enumerate(devices)
    }
