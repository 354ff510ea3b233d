"""The checks before the flow for AWS Inferentia: each fault of a machine, its id and its remedy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cmbench.doctor.finding import INFO, LOOK, OK, STOP, Finding, MachineProbe
from cmbench.doctor.vendors import examine_for
from cmbench.lib import neuron
from cmbench.lib.probe import ProbeResult

DEVICES = [{"neuron_device": number, "nc_count": 4, "bdf": "00:1f.0"} for number in range(4)]
OURS = ("neuron.", "sdk.", "triton.", "client.")


class Instance:
    """An inf1.6xlarge in a folder: device nodes, firmware, ``neuron-ls``, a Python of AWS's."""

    def __init__(self, folder: Path, kind: str = "inf1.6xlarge") -> None:
        self.root = folder / "root"
        self.programs: dict[str, tuple[int, str]] = {"neuron-ls": (0, json.dumps(DEVICES))}
        self.tools: dict[str, Path] = {}
        for number in range(4):
            self.write(f"dev/neuron{number}")
        self.write("sys/devices/virtual/dmi/id/sys_vendor", "Amazon EC2\n")
        self.write("sys/devices/virtual/dmi/id/product_name", f"{kind}\n")
        self.write("sys/module/neuron/version", "2.24.13.0\n")
        self.package("torch_neuron-1.13.1.2.11.7")

    def write(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def package(self, name: str, env: str = "opt/aws_neuron_venv_pytorch_1.13") -> None:
        self.write(f"{env}/lib/python3.10/site-packages/{name}.dist-info/METADATA")

    def find(self, name: str) -> Path | None:
        return self.tools.get(name, Path("/usr/bin") / name if name in self.programs else None)

    def ask(self, command: Sequence[Any], timeout: float) -> ProbeResult:
        assert timeout <= 10
        status, text = self.programs[Path(command[0]).name]
        return ProbeResult(tuple(map(str, command)), status, text, "", 0.1)

    def finds(self, **environ: str) -> dict[str, Finding]:
        """The last finding of each check that is not ok, or the last one."""
        given = {neuron.SWITCH: "true", "HOME": str(self.root / "home/me"), **environ}
        machine = MachineProbe(
            store=str(self.root), root=self.root, environ=given, ask=self.ask, find=self.find
        )
        found: dict[str, Finding] = {}
        for one in examine_for("inferentia", machine):
            if one.id.startswith(OURS) and (one.id not in found or one.state != OK):
                found[one.id] = one
        return found


def test_a_machine_that_is_as_it_should_be(tmp_path: Path) -> None:
    found = Instance(tmp_path).finds()
    assert {name for name, one in found.items() if one.state in (LOOK, STOP)} <= {"client.room"}
    assert found["neuron.works"].text == "4 devices, 16 NeuronCores, detected with neuron-ls"
    assert found["neuron.instance"].text.startswith("inf1.6xlarge")
    assert found["neuron.support"].state == INFO
    assert "2.26.1" in found["neuron.support"].text
    assert "2.24" in found["neuron.support"].text


def test_cores_that_another_process_holds(tmp_path: Path) -> None:
    made = Instance(tmp_path)
    process = {"pid": 4711, "command": "python serve.py", "neuroncore_ids": [0]}
    devices = [{**DEVICES[0], "neuron_processes": [process]}]
    made.programs["neuron-ls"] = (0, f"WARNING: an old driver\n{json.dumps(devices)}")
    found = made.finds()["neuron.held"]
    assert found.state == LOOK
    assert "process 4711 (python serve.py) holds NeuronCore 0 of /dev/neuron0" in found.text
    assert "NEURON_RT_VISIBLE_CORES" in found.remedy


def test_without_a_device_nothing_is_wrong(tmp_path: Path) -> None:
    machine = MachineProbe(
        store=str(tmp_path),
        root=tmp_path,
        environ={},
        ask=Instance(tmp_path).ask,
        find=lambda _: None,
    )
    found = [one for one in examine_for("inferentia", machine) if one.id.startswith(OURS)]
    assert {one.state for one in found if one.id != "client.room"} == {INFO}


FAULTS: dict[str, tuple[Any, dict[str, str], str, str, str]] = {
    "a driver that does not answer": (
        lambda box: box.programs.update({"neuron-ls": (1, "NRT: no driver\n")}),
        {},
        "neuron.works",
        STOP,
        "the Neuron driver does not work",
    ),
    "a driver that left inf1 out": (
        lambda box: box.write("sys/module/neuron/version", "2.25.1.0\n"),
        {},
        "neuron.driver",
        STOP,
        "driver 2.25.1.0 does not know inf1",
    ),
    "a runtime of an old SDK": (
        lambda box: box.write("lib/systemd/system/neuron-rtd.service"),
        {},
        "neuron.daemon",
        LOOK,
        "SDKs before 1.16",
    ),
    "no type of the instance": (
        lambda box: box.write("sys/devices/virtual/dmi/id/product_name", "\n"),
        {},
        "neuron.instance",
        LOOK,
        "no answer from IMDSv2",
    ),
    "more cores than there are": (
        lambda box: None,
        {"NEURON_RT_VISIBLE_CORES": "0-3,16"},
        "neuron.cores",
        STOP,
        "there are 16 NeuronCores",
    ),
    "cores that are none": (
        lambda box: None,
        {"NEURON_RT_VISIBLE_CORES": "all"},
        "neuron.cores",
        STOP,
        "is not a list of cores",
    ),
    "a number of cores that is none": (
        lambda box: None,
        {"NEURON_RT_NUM_CORES": "0"},
        "neuron.cores",
        STOP,
        "is not a list of cores",
    ),
    "a placeholder": (
        lambda box: box.package("torch_neuronx-1.0"),
        {},
        "sdk.package",
        LOOK,
        "torch_neuronx 1.0: a placeholder",
    ),
    "two SDKs in one Python": (
        lambda box: box.package("torch_neuronx-2.1.2.2.3.0"),
        {},
        "sdk.both",
        LOOK,
        "torch_neuron and torch_neuronx",
    ),
    "pip asks AWS for all": (
        lambda box: box.write("etc/pip.conf", "[global]\nextra-index-url = https://neuron.test/\n"),
        {},
        "sdk.pip",
        LOOK,
        "/etc/pip.conf uses AWS's index",
    ),
    "a user's pip does": (
        lambda box: box.write("home/me/.config/pip/pip.conf", "extra-index-url=https://x.neuron.y"),
        {},
        "sdk.pip",
        LOOK,
        "pip.conf uses AWS's index",
    ),
    "perf_analyzer for a newer system": (
        lambda box: box.programs.update({"perf_analyzer": (1, "GLIBC_2.38 not found\n")}),
        {},
        "client.analyzer",
        LOOK,
        "does not start: GLIBC_2.38",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_what_to_do(tmp_path: Path, name: str) -> None:
    spoil, environ, check, state, text = FAULTS[name]
    box = Instance(tmp_path)
    spoil(box)
    finding = box.finds(**environ)[check]
    assert (finding.state, finding.id) == (state, check)
    assert text in finding.text
    assert finding.remedy


def test_the_sdk_is_that_of_the_devices(tmp_path: Path) -> None:
    box = Instance(tmp_path, "inf2.xlarge")
    finding = box.finds()["sdk.package"]
    assert finding.state == LOOK
    assert "torch_neuronx" in finding.text
    assert finding.remedy.startswith("cm run script --tags=get,neuron-sdk,_neuronx")
    assert box.finds()["neuron.driver"].state == OK


@pytest.mark.parametrize(("minor", "state"), [("8", STOP), ("10", OK)])
def test_tritons_python_must_have_the_sdk(tmp_path: Path, minor: str, state: str) -> None:
    box = Instance(tmp_path)
    box.tools["tritonserver"] = box.write("opt/tritonserver/bin/tritonserver")
    box.write(
        "opt/tritonserver/backends/python/triton_python_backend_stub",
        f"\x7fELF\x00libpython3.{minor}.so.1.0\x00",
    )
    finding = box.finds()["triton.stub"]
    assert finding.state == state
    assert f"3.{minor}" in finding.text
