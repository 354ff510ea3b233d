"""The doctor: what it finds on made-up machines, and how it tells it."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cmbench.api import readiness
from cmbench.doctor import checks as doctor
from cmbench.doctor.finding import INFO, LOOK, OK, STOP, Finding, MachineProbe
from cmbench.lib.probe import ProbeResult
from cmbench.render.doctor import doctor_text
from cmbench.session.call import Call
from cmbench.session.workspace import Workspace
from doctor_lab import MadeUp
from lab import Lab


class World(MadeUp):
    """Programs that are there, with what they answer (status, output)."""

    def __init__(self, tmp_path: Path, **programs: tuple[int, str]) -> None:
        super().__init__(tmp_path)
        self.programs = {name.replace("_", "-"): answer for name, answer in programs.items()}

    def find(self, name: str) -> Path | None:
        return Path("/usr/bin") / name if name in self.programs else None

    def answer(self, name: str, words: Sequence[str]) -> tuple[int, str]:
        return self.programs.get(name, (1, "libnvidia-ml.so.1: cannot open"))


def findings(machine: MachineProbe, area: str) -> list[Finding]:
    return [finding for finding in doctor.examine(machine) if finding.area == area]


def only(machine: MachineProbe, area: str) -> Finding:
    (finding,) = findings(machine, area)
    return finding


def test_compilers_and_the_one_command_for_what_is_missing(tmp_path: Path) -> None:
    world = World(tmp_path, gcc=(0, "gcc (Debian 12.2.0-14) 12.2.0"), git=(0, "git version 2.39.5"))
    found, missing = findings(world.machine(), "compilers")
    assert (found.state, found.text) == (OK, "gcc 12.2.0")
    assert missing.state == LOOK
    assert missing.text == "missing: g++ (for C++), make (for builds), cmake (for builds)"
    assert missing.remedy.endswith("sudo apt-get install -y g++ make cmake")
    assert "sudo" not in findings(replace(world.machine(), uid=0), "compilers")[1].remedy


def test_where_loadgen_has_no_wheel_what_compiles_it_is_wanted(tmp_path: Path) -> None:
    world = World(tmp_path, gcc=(0, "gcc 12.2.0"), make=(0, ""), cmake=(0, ""))
    arm = replace(world.machine(), architecture="aarch64")
    finding = findings(arm, "compilers")[-1]
    assert finding.state == LOOK
    assert finding.text == (
        "LoadGen has no wheel for aarch64, and to compile it a C++ compiler and the Python headers"
        " is missing"
    )
    assert finding.remedy.endswith("sudo apt-get install -y g++ python3-dev")
    world.programs["g++"] = (0, "g++ 12.2.0")
    world.write(os.path.join(sysconfig.get_path("include"), "Python.h").lstrip("/"))
    assert findings(arm, "compilers")[-1].state == INFO


def test_docker_in_its_three_states(tmp_path: Path) -> None:
    world = World(tmp_path, docker=(0, "24.0.7 [name=seccomp name=rootless]"))
    assert only(world.machine(), "containers").text == "docker 24.0.7, rootless"
    world.programs["docker"] = (
        1,
        "permission denied while trying to connect to the Docker daemon socket",
    )
    refused = only(world.machine(USER="ann"), "containers")
    assert refused.remedy == "ask the machine's owner to run: usermod -aG docker ann"
    world.programs["docker"] = (1, "Cannot connect to the Docker daemon at unix:///var/run")
    assert "does not answer" in only(world.machine(), "containers").text
    world.programs = {"podman": (0, "podman version 4.3.1")}
    assert only(world.machine(), "containers").text == "podman 4.3.1"
    world.programs = {}
    assert only(world.machine(), "containers").state == INFO


def test_nvidia_devices(tmp_path: Path) -> None:
    head = "uuid, name, driver_version, memory.total [MiB], mig.mode.current\n"
    card = "GPU-1, NVIDIA H100 80GB HBM3, 535.104.05, 81559, Disabled\n"
    world = World(tmp_path, nvidia_smi=(0, head + card * 2))
    device = only(world.machine(), "devices")
    assert device.text == "2 x NVIDIA H100 80GB HBM3, 81559 MiB, driver 535.104.05"
    world.programs["nvidia-smi"] = (0, head + card.replace("Disabled", "Enabled"))
    assert "MIG is on" in findings(world.machine(), "devices")[1].text
    world.programs["nvidia-smi"] = (9, "Failed to initialize NVML: Driver/library version mismatch")
    device = only(world.machine(), "devices")
    assert "version mismatch" in device.text
    assert "restart the machine" in device.remedy
    world.programs = {}
    world.write("dev/nvidia0")
    assert "not nvidia-smi" in only(world.machine(), "devices").text


def test_other_devices_and_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert "run on the CPU" in only(world.machine(), "devices").text
    world.write("dev/neuron0")
    world.write("dev/neuron1")
    neuron = only(world.machine(), "devices")
    assert neuron.text == "2 x AWS Neuron device, and its tool neuron-ls is not on PATH"
    world.programs["neuron-ls"] = (0, "")
    assert only(world.machine(), "devices").state == OK


def test_a_toolkit_without_a_driver_and_a_stub_in_front(tmp_path: Path) -> None:
    world = World(tmp_path, nvcc=(0, "Cuda compilation tools, release 13.0, V13.0.88"))
    assert "toolkit 13.0, no driver" in only(world.machine(), "CUDA").text
    stub, _ = findings(world.machine(LD_LIBRARY_PATH="/cuda/lib64:/cuda/lib64/stubs"), "CUDA")
    assert "/cuda/lib64/stubs" in stub.text


@pytest.mark.parametrize(
    ("environ", "state", "text"),
    [
        ({"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}, LOOK, "differ"),
        ({"https_proxy": "http://p:1"}, LOOK, "only one of"),
        ({"https_proxy": "http://p:1"}, LOOK, "requests to this machine itself"),
        ({"REQUESTS_CA_BUNDLE": "/no/ca.pem"}, STOP, "/no/ca.pem, which does not exist"),
        ({"PIP_NO_INDEX": "1"}, LOOK, "PIP_NO_INDEX"),
        ({}, INFO, "no proxy is set"),
    ],
)
def test_the_network_variables(
    tmp_path: Path, environ: Mapping[str, str], state: str, text: str
) -> None:
    found = findings(World(tmp_path).machine(**environ), "network")
    assert [f for f in found if f.state == state and text in f.text], found


def test_proxy_passwords_are_not_shown(tmp_path: Path) -> None:
    machine = World(tmp_path).machine(https_proxy="http://ann:secret@p:1")
    assert "secret" not in repr(doctor.examine(machine))


@pytest.mark.parametrize(
    ("environ", "area", "text"),
    [
        ({"CONDA_PREFIX": "/opt/conda"}, "Python", "conda is active (/opt/conda)"),
        ({"PYTHONPATH": "/x"}, "Python", "PYTHONPATH is set"),
        ({"PATH": ".:/usr/bin"}, "traps", 'PATH holds "."'),
        ({"LC_ALL": "de_DE.ISO-8859-1"}, "traps", "is not UTF-8"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "traps", "CUDA_VISIBLE_DEVICES=1"),
    ],
)
def test_traps(tmp_path: Path, environ: Mapping[str, str], area: str, text: str) -> None:
    found = findings(World(tmp_path).machine(**environ), area)
    assert [f for f in found if text in f.text], found


def test_a_network_file_system_under_the_cache(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("proc/mounts", f"/dev/sda1 / ext4 rw 0 0\nsrv:/home {world.root} nfs4 rw 0 0\n")
    assert [f for f in findings(world.machine(), "disk") if "nfs4" in f.text]
    world.write("proc/mounts", f"srv:/x /mnt nfs4 rw 0 0\n/dev/sda1 {world.root} ext4 rw 0 0\n")
    assert not [f for f in findings(world.machine(), "disk") if "nfs4" in f.text]


def test_a_governor_and_musl(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    world.write("lib/ld-musl-x86_64.so.1")
    assert [f for f in findings(world.machine(), "cores") if '"powersave"' in f.text]
    assert [f for f in findings(world.machine(), "system") if "musl" in f.text]


def test_a_load_is_not_a_number_of_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More processes than cores may want to run."""
    monkeypatch.setattr(os, "getloadavg", lambda: (5000.0, 0.0, 0.0))
    (busy,) = (f for f in findings(World(tmp_path).machine(), "cores") if f.state == LOOK)
    assert "load average 5000.0 on " in busy.text
    assert "cores busy" not in busy.text


def test_a_check_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    def broken(command: list[str], timeout: float) -> ProbeResult:
        raise OSError("no more processes")

    machine = replace(World(tmp_path, gcc=(0, ""), podman=(0, "")).machine(), ask=broken)
    found = doctor.examine(machine)
    assert [f for f in found if "could not be checked: no more processes" in f.text]
    assert [f for f in found if f.area == "disk"]


def test_every_finding_fits_the_terminal_and_says_what_to_do(tmp_path: Path) -> None:
    found = [
        Finding("disk", STOP, "0.2 GB free " + "here " * 30, "make room"),
        Finding("cores", OK, "2 of 2 usable"),
        Finding("system", INFO, "inside of a container"),
        Finding("traps", LOOK, "PIP_USER is set", "unset PIP_USER"),
    ]
    text = doctor_text(found)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.endswith("1 to fix before a run, 1 to check")
    assert "                  next: unset PIP_USER" in text
    assert doctor_text([Finding("cores", OK, "2")]).endswith("nothing to fix")


def test_the_verb_on_this_machine(lab: Lab) -> None:
    result = lab.call("doctor")
    assert result.answer["findings"]
    assert "system" in result.out
    data: list[dict[str, Any]] = json.loads(lab.call("doctor", json=True).out)
    assert {"area", "state", "text", "remedy", "id"} == set(data[0])
    assert not list(lab.home.iterdir()), "it writes nothing"


def test_what_keeps_everything_from_running_is_a_failure(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/ca.pem")
    result = lab.call("doctor")
    assert result.answer["return"] == 1
    assert "/no/ca.pem" in result.answer["error"]
    refused = lab.call("doctor", jsn=True)
    assert refused.answer["code"] == "unknown-flag"
    assert "json" in refused.err


def test_what_one_script_needs(lab: Lab, tmp_path: Path) -> None:
    world = World(tmp_path, git=(0, "git 2"))
    lab.script("get-cmake", run="cmake --version\n", new_env_keys=["CMAKE"])
    lab.script("get-generic-sys-util", variations={"rsync": {}, "zip": {}})
    lab.script("build-x", run="# make it\ngit clone x\ncd x && make -j4 | tee log; cmake ..\n")
    deps = [{"tags": "get,cmake"}, {"tags": "get,generic,sys,util,_rsync"}, {"tags": "build,x"}]
    lab.script("get-y", run="rclone copy a b\n")
    deps.append({"tags": "get,y", "enable_if_env": {"MADE_BY_A_RUN": ["yes"]}})
    lab.script("look-x", run="true\n", new_env_keys=["MADE_BY_A_RUN"])
    deps.insert(0, {"tags": "look,x"})
    lab.script("run-x", deps=deps, customize="CMD = 'numactl --all ./x'\n")
    request = requested(lab, "run,x")
    found = readiness.needs_of(request, world.machine())
    texts = {f.text: f for f in found}
    assert "missing: make (called by build-x)" in texts
    assert "apt-get install" in texts["missing: make (called by build-x)"].remedy
    assert "missing: numactl (called by run-x)" in texts
    assert any(f.area == "perhaps" and "rclone" in f.text for f in found), texts
    assert "git" in texts
    assert not any("cmake" in text for text in texts), "a step finds it"
    assert any(f.area == "libraries" and "rsync" in f.text and f.state == LOOK for f in found)
    assert [f.state for f in found if f.area == "disk"] == [OK]
    assert "GPU" not in doctor_text(found)


def test_a_word_that_is_compared_or_chosen_is_no_program(lab: Lab, tmp_path: Path) -> None:
    hook = (
        "NAME = 'node' if NET else 'session'\nif NAME == 'go' or NAME != 'java': CMD = 'wget x'\n"
    )
    lab.script("run-x", customize=f"NET = 1\n{hook}")
    found = readiness.needs_of(requested(lab, "run,x"), World(tmp_path).machine())
    text = doctor_text(found)
    assert "wget" in text
    assert not {"node", "go", "java"} & set(text.split())


def test_only_what_is_still_to_be_done_is_needed(lab: Lab, tmp_path: Path) -> None:
    lab.script("get-x", cache=True, run="true || numactl x\n")
    world = World(tmp_path)
    before = readiness.needs_of(requested(lab, "get,x"), world.machine())
    assert any("numactl" in finding.text for finding in before)
    lab.run("get,x")
    after = readiness.needs_of(requested(lab, "get,x"), world.machine())
    assert not any("numactl" in finding.text for finding in after)


def test_the_doctor_of_a_script_on_the_command_line(lab: Lab) -> None:
    lab.script("get-x", run="numactl x\n")
    told = lab.call("doctor", tags="get,x")
    assert "1 step, 0 of them" in told.out
    assert "disk" in told.out
    assert lab.call("doctor", tags="get,nothing").answer["code"] == "script-not-found"


def requested(lab: Lab, tags: str) -> Any:
    return Call(Workspace.of_cmind(lab.cmind(), True), {"tags": tags}).request()
