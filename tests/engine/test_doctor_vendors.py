"""The registry of checks before a vendor's flow: each fault of a machine, its id and its remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.doctor import vendors
from cmbench.doctor.finding import INFO, LOOK, OK, STOP, Finding
from cmbench.doctor.vendors import BenchmarkNeeds, FlowSubject, FlowView, examine_for, subject_of
from cmbench.errors import Error
from cmbench.lib.probe import ProbeResult
from doctor_lab import MadeUp
from lab import Lab
from support import ROOT

T4 = {
    "name": "Tesla T4",
    "driver_version": "515.65.01",
    "memory.total": "15360",
    "compute_cap": "7.5",
    "persistence_mode": "Enabled",
    "mig.mode.current": "[N/A]",
    "temperature.gpu": "40",
    "power.limit": "70.00",
    "power.default_limit": "70.00",
    "clocks_throttle_reasons.hw_slowdown": "Not Active",
}
A100 = {**T4, "name": "NVIDIA A100-SXM4-40GB", "memory.total": "40960", "power.limit": "400.00"}
A100 |= {"power.default_limit": "400.00", "mig.mode.current": "Enabled"}
PART = "  MIG {0}     Device  {1}: (UUID: MIG-0000000{1}-5555-5555-5555-555555555555)\n"


class Box(MadeUp):
    """A machine with these GPUs, whose ``nvidia-smi`` answers as the real one does."""

    def __init__(self, folder: Path, *gpus: Mapping[str, str], parts: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self.gpus, self.parts = gpus, parts
        self.programs: dict[str, tuple[int, str]] = {}
        self.computing = ""
        for number in range(len(gpus)):
            self.write(f"dev/nvidia{number}")

    def find(self, name: str) -> Path | None:
        there = name in self.programs or (name == "nvidia-smi" and bool(self.gpus))
        return Path("/usr/bin") / name if there else None

    def answer(self, name: str, words: Sequence[str]) -> tuple[int, str]:
        return self.programs.get(name) or (0, self._smi(list(words)))

    def _smi(self, words: list[str]) -> str:
        if not words:
            return ""
        if words[0].startswith("--query-compute-apps"):
            return self.computing
        if words[0] == "-L":
            parts = "".join(PART.format(name, n) for n, name in enumerate(self.parts))
            rows = (f"GPU {n}: {g['name']} (UUID: GPU-{n}a)\n" for n, g in enumerate(self.gpus))
            return "".join(row + (parts if n == 0 else "") for n, row in enumerate(rows))
        if not words[0].startswith("--query-gpu="):
            return "CUDA Version : 11.7\n"
        fields = words[0].partition("=")[2].split(",")
        own = [{**g, "index": str(n), "uuid": f"GPU-{n}a"} for n, g in enumerate(self.gpus)]
        rows = [", ".join(gpu.get(field, "[N/A]") for field in fields) for gpu in own]
        return "\n".join([", ".join(fields), *rows]) + "\n"

    def finds(self, subject: FlowSubject | None = None, **environ: str) -> dict[str, Finding]:
        """The worst finding of each check."""
        order = (OK, INFO, LOOK, STOP)
        found: dict[str, Finding] = {}
        for one in examine_for("nvidia", self.machine(**environ), subject):
            before = found.get(one.id)
            if before is None or order.index(one.state) > order.index(before.state):
                found[one.id] = one
        return found


def states(found: Mapping[str, Finding]) -> dict[str, str]:
    return {name: one.state for name, one in found.items() if one.state in (LOOK, STOP)}


def test_ids_are_unique_and_every_fault_has_its_remedy(tmp_path: Path) -> None:
    for vendor in vendors.FOR:
        ids = [check.id for check in vendors.checks_of(vendor)]
        assert len(set(ids)) == len(ids)
        assert all(name.count(".") == 1 and len(name) <= 17 for name in ids), ids
        found = examine_for(vendor, Box(tmp_path).machine())
        assert all(one.remedy for one in found if one.state in (LOOK, STOP))
        assert {one.id for one in found} <= set(ids)


def test_a_vendor_that_is_not_known() -> None:
    with pytest.raises(Error, match="--for=nvida is not known") as caught:
        vendors.checks_of("nvida")
    assert caught.value.hint == 'did you mean "nvidia"?'


def test_a_machine_without_a_gpu_stops_nothing(tmp_path: Path) -> None:
    found = Box(tmp_path).finds()
    assert found["driver.works"].state == INFO
    assert STOP not in {one.state for one in found.values()}


def test_a_machine_that_is_as_it_must_be(tmp_path: Path) -> None:
    found = Box(tmp_path, T4).finds(FlowSubject("v3.1"), CUDA_VISIBLE_DEVICES="0")
    assert states(found) == {}
    assert found["driver.works"].text == "driver 515.65.01, CUDA up to 11.7, 1 GPUs"


# ---- the driver


def test_the_driver_of_a_round(tmp_path: Path) -> None:
    box = Box(tmp_path, {**T4, "driver_version": "470.57.02"})
    assert box.finds(FlowSubject("v0.7"))["driver.round"].state == OK
    old = box.finds(FlowSubject("v3.1"))["driver.round"]
    assert (old.state, old.area) == (STOP, "driver")
    assert old.text == "driver 470.57.02 is too old: v3.1 needs 515 or newer"
    skipped = box.finds(FlowSubject("v3.1", skip_driver=True))["driver.round"]
    assert skipped.state == LOOK
    assert "ignored because of SKIP_DRIVER_CHECK" in skipped.text
    every = box.finds()["driver.round"]
    assert every.text.endswith("v2.0 needs 510, v3.1 needs 515 or newer")


def test_a_driver_that_does_not_fit_its_library(tmp_path: Path) -> None:
    box = Box(tmp_path, T4)
    said = "Failed to initialize NVML: Driver/library version mismatch"
    box.programs["nvidia-smi"] = (18, said)
    found = box.finds()["driver.works"]
    assert found.state == STOP
    assert said in found.text
    assert "restart" in found.remedy


@pytest.mark.parametrize(
    ("release", "state", "text"),
    [
        ("11.4", OK, "runs on driver"),
        ("11.8", LOOK, "newer than what the driver was made for, 11.7"),
        ("12.2", LOOK, "CUDA 12.2 needs driver 525.60.13, and 515.65.01 is loaded"),
    ],
)
def test_a_container_whose_cuda_the_driver_does_not_run(
    release: str, state: str, text: str, tmp_path: Path
) -> None:
    box = Box(tmp_path, T4)
    box.programs["nvcc"] = (0, f"Cuda compilation tools, release {release}, V{release}.1")
    found = box.finds()["driver.cuda"]
    assert found.state == state
    assert text in found.text


def test_the_container_toolkit_and_its_list_of_devices(tmp_path: Path) -> None:
    box = Box(tmp_path, T4)
    assert "container.gpus" not in box.finds(), "no engine, no question"
    box.programs["podman"] = (0, "podman version 4.3.1")
    box.programs["nvidia-container-cli"] = (0, "cli-version: 1.3.1\nlib-version: 1.3.1\n")
    old = box.finds()["container.gpus"]
    assert old.text == "libnvidia-container 1.4.0 or newer is needed to pass on GPUs; this is 1.3.1"
    box.programs["nvidia-container-cli"] = (0, "cli-version: 1.14.6\nlib-version: 1.14.6\n")
    assert box.finds()["container.gpus"].state == OK
    line = "- containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{}\n"
    box.write("etc/cdi/nvidia.yaml", line.format("510.47.03"))
    stale = box.finds()["container.gpus"]
    assert stale.state == STOP
    assert "is for driver 510.47.03, loaded is 515.65.01" in stale.text
    assert stale.remedy == "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    box.write("etc/cdi/nvidia.yaml", line.format("515.65.01"))
    assert box.finds()["container.gpus"].state == OK


# ---- the GPUs

NAMED = {
    "0": OK,
    "0,1": OK,
    " 1 ": OK,
    "GPU-1a": OK,
    "GPU-1": OK,
    "2": STOP,
    "0,7": STOP,
    "-1": STOP,
    "": STOP,
    "all": STOP,
    "GPU-9": STOP,
    "MIG-00000000-5555-5555-5555-555555555555": STOP,
}


@pytest.mark.parametrize("told", NAMED)
def test_what_cuda_visible_devices_names(told: str, tmp_path: Path) -> None:
    found = Box(tmp_path, T4, T4).finds(CUDA_VISIBLE_DEVICES=told)["gpu.visible"]
    assert found.state == NAMED[told], found.text


def test_instances_are_named_too(tmp_path: Path) -> None:
    box = Box(tmp_path, A100, parts=["1g.5gb"] * 7)
    part = "MIG-00000003-5555-5555-5555-555555555555"
    for variable in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        assert states(box.finds(**{variable: part})).get("gpu.visible") is None
        assert states(box.finds(**{variable: part.replace("3-", "9-")}))["gpu.visible"] == STOP
    assert states(box.finds(NVIDIA_VISIBLE_DEVICES="0:6")).get("gpu.visible") is None
    assert states(box.finds(NVIDIA_VISIBLE_DEVICES="0:7"))["gpu.visible"] == STOP
    assert "gpu.visible" not in box.finds(NVIDIA_VISIBLE_DEVICES="ALL")


def test_mig_without_instances_with_several_and_mixed(tmp_path: Path) -> None:
    none = Box(tmp_path, A100).finds()["gpu.mig"]
    assert none.state == STOP
    assert none.text == "GPU 0: MIG is on, but there is no instance: nothing can use it"
    assert "NVIDIA_VISIBLE_DEVICES=0 make teardown_mig" in none.remedy
    seven = Box(tmp_path, A100, parts=["1g.5gb"] * 7)
    assert seven.finds()["gpu.mig"].text.endswith("a program takes the first")
    chosen = seven.finds(CUDA_VISIBLE_DEVICES="MIG-00000001-5555-5555-5555-555555555555")
    assert chosen["gpu.mig"].state == OK
    two = Box(tmp_path, A100, parts=["3g.20gb", "2g.10gb"]).finds()["gpu.mig"]
    assert "instances of one size are measured" in two.text
    whole = {**A100, "mig.mode.current": "Disabled"}
    half = Box(tmp_path, A100, whole, parts=["7g.40gb"]).finds()["gpu.mig"]
    assert half.text == "MIG is on at 1 of 2 GPUs"


def test_gpus_that_differ_or_are_in_use_or_too_small(tmp_path: Path) -> None:
    whole = {**A100, "mig.mode.current": "Disabled"}
    box = Box(tmp_path, T4, whole)
    assert box.finds()["gpu.alike"].text == "the GPUs differ: NVIDIA A100-SXM4-40GB, Tesla T4"
    assert "gpu.alike" not in box.finds(CUDA_VISIBLE_DEVICES="1")
    box.computing = "GPU-0a, 4711, python3\n"
    assert box.finds()["gpu.busy"].text == "1 processes compute on the GPUs: python3 (4711)"
    large = FlowSubject(needs=(BenchmarkNeeds("gptj", gpu_memory=20 * 10**9),))
    small = box.finds(large)["gpu.memory"]
    told = "GPU 0 has 15360 MiB, too little for the weights of gptj (19073 MiB)"
    assert (small.state, small.text) == (STOP, told)
    # The one that is chosen is large enough.
    assert "gpu.memory" not in box.finds(large, CUDA_VISIBLE_DEVICES="1")


def test_a_part_of_a_gpu_has_its_own_memory(tmp_path: Path) -> None:
    large = FlowSubject(needs=(BenchmarkNeeds("gptj", gpu_memory=6 * 10**9),))
    seven = Box(tmp_path, A100, parts=["1g.5gb"] * 7)
    told = "GPU 0 has parts of 5120 MiB, too little for the weights of gptj (5722 MiB)"
    assert seven.finds(large)["gpu.memory"].text == told
    assert "gpu.memory" not in Box(tmp_path, A100, parts=["2g.10gb"]).finds(large)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("temperature.gpu", "71", "71 °C: a T4 slows down above 65 °C"),
        ("power.limit", "60.00", "its power is limited to 60 W of 70 W"),
        (
            "clocks_throttle_reasons.hw_slowdown",
            "Active",
            "slowed down now (hw_slowdown)",
        ),
    ],
)
def test_a_gpu_that_is_slower_than_it_could_be(
    field: str, value: str, text: str, tmp_path: Path
) -> None:
    found = Box(tmp_path, {**T4, field: value}).finds()["gpu.state"]
    assert (found.state, found.text) == (LOOK, f"GPU 0: {text}")


# ---- what every flow wants


def test_a_left_over_audit_config(tmp_path: Path) -> None:
    (tmp_path / "audit.config").write_text("")
    found = Box(tmp_path).finds(FlowSubject(folder=tmp_path))["audit.left-over"]
    assert (found.state, found.remedy) == (STOP, f"rm {tmp_path / 'audit.config'}")


def test_the_scratch_space_and_its_links(tmp_path: Path) -> None:
    box, subject = Box(tmp_path), FlowSubject(folder=tmp_path)
    gone = tmp_path / "gone"
    new = box.finds(MLPERF_SCRATCH_PATH=str(gone))["scratch.space"]
    assert (new.state, new.text) == (INFO, f"{gone} is not there yet")
    assert box.finds(MLPERF_SCRATCH_PATH=str(gone / "below"))["scratch.space"].state == STOP
    (tmp_path / "build").mkdir()
    (tmp_path / "build/data").symlink_to(gone / "data")
    assert box.finds(subject)["scratch.link"].state == STOP
    (gone / "data").mkdir(parents=True)
    assert "scratch.link" not in box.finds(subject)
    assert box.finds(MLPERF_SCRATCH_PATH=str(gone))["scratch.space"].state == OK


def test_data_that_are_half_there(tmp_path: Path) -> None:
    need = BenchmarkNeeds("dlrm", data=(("data/criteo", "", 24), ("data/imagenet", ".JPEG", 3)))
    subject = FlowSubject(folder=tmp_path, scratch=tmp_path, needs=(need,))
    box = Box(tmp_path)
    assert "data.whole" not in box.finds(subject), "nothing is there yet"
    (tmp_path / "data/criteo").mkdir(parents=True)
    assert "data.whole" not in box.finds(subject), "an empty folder is no half one"
    for day in range(23):
        (tmp_path / f"data/criteo/day_{day}").write_text("")
    found = box.finds(subject)["data.whole"]
    assert found.state == STOP
    assert "holds 23 of 24 files" in found.text
    (tmp_path / "data/criteo/day_23").write_text("")
    assert "data.whole" not in box.finds(subject)


def test_room_and_memory_for_what_is_going_to_run(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.write("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 15000000 kB\n")
    large = BenchmarkNeeds("dlrm", disk=10**18, memory=40 * 10**9)
    found = box.finds(FlowSubject(folder=tmp_path, needs=(large,)))
    assert found["disk.room"].state == LOOK
    assert "dlrm takes 40 GB, and ends with std::bad_alloc" in found["memory.room"].text
    small = BenchmarkNeeds("bert", disk=1, memory=1)
    found = box.finds(FlowSubject(folder=tmp_path, needs=(small,)))
    assert found["memory.room"].state == found["disk.room"].state == OK


def test_huge_pages_count_for_server_alone(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    assert box.finds()["memory.thp"].state == LOOK
    assert "memory.thp" not in box.finds(FlowSubject(scenarios=("Offline",)))
    assert box.finds(FlowSubject(scenarios=("Server",)))["memory.thp"].state == LOOK


def test_root_is_told_so(tmp_path: Path) -> None:
    from dataclasses import replace

    machine = replace(Box(tmp_path).machine(), uid=0)
    told = [one for one in examine_for("nvidia", machine) if one.id == "user.root"]
    assert [one.state for one in told] == [LOOK]
    (flow,) = (
        one
        for one in examine_for("nvidia", machine, FlowSubject(folder=tmp_path))
        if one.id == "user.root"
    )
    assert flow.remedy.endswith(f"set allow_root: true in {tmp_path / 'flow.yaml'}")
    allowed = examine_for("nvidia", machine, FlowSubject(allow_root=True))
    assert [one.state for one in allowed if one.id == "user.root"] == [OK]


def test_a_flow_that_is_not_there_is_not_one_that_cannot_be_written(tmp_path: Path) -> None:
    found = Box(tmp_path).finds(FlowSubject(folder=tmp_path / "flow"))["folder.writable"]
    assert (found.state, found.text) == (STOP, f"{tmp_path}/flow is not there")
    assert "chown" not in found.remedy


# ---- the registry itself


def test_a_check_that_fails_is_a_finding(tmp_path: Path) -> None:
    def broken(view: FlowView) -> Any:
        raise OSError("no")

    (found,) = vendors.FlowCheck("a.b", broken).findings(FlowView(Box(tmp_path).machine()))
    assert (found.id, found.area, found.state) == ("a.b", "a", LOOK)
    assert "could not be checked" in found.text


def test_a_subject_of_plain_values() -> None:
    told = {
        "vendor_round": "v0.7",
        "folder": ".",
        "scenarios": ["Server"],
        "needs": [{"name": "x"}],
    }
    subject = subject_of(told)
    assert subject == FlowSubject(
        "v0.7", Path.cwd(), scenarios=("Server",), needs=(BenchmarkNeeds("x"),)
    )
    with pytest.raises(Error, match="there is no check named round"):
        subject_of({"round": "v0.7"})


def test_the_verb(lab: Lab, tmp_path: Path) -> None:
    flags: dict[str, Any] = {"for": "nvidia", "path": str(tmp_path)}
    found = json.loads(lab.call("doctor", **flags, json=True).out)
    assert {"driver.works", "audit.left-over"} <= {one["id"] for one in found}
    (tmp_path / "audit.config").write_text("")
    stopped = lab.call("doctor", **flags)
    assert stopped.answer["return"] == 1
    assert "stop  audit.left-over" in stopped.out
    alone = lab.call("doctor", path=str(tmp_path)).answer
    assert alone["code"] == "needs-input"
    wrong = lab.call("doctor", **flags, colour="red").answer["error"]
    assert "the doctor of a flow knows no flag --colour" in wrong


# ---- machines as public pages show them


def recorded() -> dict[str, dict[str, Any]]:
    """The cases of the driver's script that have an ``nvidia-smi``, by their names."""
    path = ROOT / "script/get-nvidia-driver/detection_test.yaml"
    cases = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {case["name"]: case for case in cases if "nvidia-smi" in case.get("tools", {})}


RECORDED = recorded()


def answering(case: Mapping[str, Any]) -> Any:
    """What ``nvidia-smi`` of the case says; what nobody recorded is answered with nothing."""

    def ask(command: Sequence[Any], timeout: float) -> ProbeResult:
        words = " ".join(map(str, command[1:]))
        answers = case["tools"]["nvidia-smi"] if Path(command[0]).name == "nvidia-smi" else {}
        told = next((t for pattern, t in answers.items() if fnmatch(words, pattern)), "")
        told = told if isinstance(told, dict) else {"out": told}
        status, out = told.get("status", 0), told.get("out", "")
        return ProbeResult(tuple(map(str, command)), status, out, told.get("err", ""), 0.1)

    return ask


@pytest.mark.parametrize("name", RECORDED)
def test_machines_of_public_pages(name: str, tmp_path: Path) -> None:
    case = RECORDED[name]
    for path, text in case.get("files", {}).items():
        place = tmp_path / path.replace("machine/", "root/", 1)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    box = Box(tmp_path, T4)
    box.ask = answering(case)  # type: ignore[method-assign]
    vendor_round = str(case.get("flags", {}).get("vendor_round", ""))
    found = box.finds(FlowSubject(vendor_round))
    stops = {one.id for one in found.values() if one.state == STOP}
    refused = {one for one in stops if one.startswith("driver.")}
    # What the script refuses stops the flow, and nothing else of the driver does.
    assert bool(refused) == (case.get("error") == "no-driver"), found
    assert stops - refused <= {"gpu.mig"}
    assert all(found[each].remedy for each in stops)
    assert ("gpu.mig" in stops) == (name == "A100 with MIG on and no instance")


def test_the_machines_that_were_asked_for_are_recorded() -> None:
    text = " ".join(RECORDED)
    for machine in ("T4 x1", "T4 x8", "A100 PCIe", "A100 SXM x8", "seven MIG", "H100", "L4"):
        assert machine in text
    for machine in ("RTX 4090", "Jetson", "WSL"):
        assert machine in text
    drivers = set(re.findall(r"\b[345]\d\d\.\d+(?:\.\d+)?\b", yaml.safe_dump(RECORDED)))
    assert len(drivers) >= 10
