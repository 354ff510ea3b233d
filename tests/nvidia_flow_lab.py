"""Makes NVIDIA's configurations and words importable, and flows that run nothing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aws_neuron import artifact
from cmbench.lib.named_paths import is_cached
from common.files import sha256
from common.problems import Problem
from nvidia_mlperf.flow import registry
from nvidia_mlperf.flow.systems import GpuMachine, NeuronDevices
from nvidia_mlperf.make import compiled_models, flow, run_arguments, targets, work
from support import ROOT

KNOWN = registry.load()

SMI = """#!{python} -IS
import json, sys
from pathlib import Path
here = Path({folder!r})
words = sys.argv[1:]
state = json.loads((here / "state.json").read_text())
with open(here / "calls", "a") as stream:
    stream.write(" ".join(words) + "\\n")
fails = state["fails"] and " ".join(words).startswith(state["fails"])
if fails:
    print("Unable to do that: Insufficient Permissions")
    sys.exit(4)
parts = ["MIG-%d5555555-5555-5555-5555-555555555555" % n for n in range(state["parts"])]
if words[0].startswith("--query-gpu="):
    fields = words[0].partition("=")[2].split(",")
    told = dict(state["gpu"], **{{"mig.mode.current": state["mig"]}})
    print(", ".join(fields))
    for number in range(state["count"]):
        own = dict(told, index=str(number), uuid="GPU-%da" % number)
        print(", ".join(own.get(field, "[N/A]") for field in fields))
elif words[0].startswith("--query-compute-apps"):
    print("\\n".join(state["processes"]))
elif words[0] == "-L":
    print("GPU 0: x (UUID: GPU-0a)")
    for number, uuid in enumerate(parts):
        print("  MIG 1g.5gb     Device  %d: (UUID: %s)" % (number, uuid))
elif words[0] == "-mig":
    state["mig"] = {{"1": "Enabled", "0": "Disabled"}}[words[1]]
elif "-cgi" in words:
    state["parts"] = len(words[words.index("-cgi") + 1].split(","))
elif "-dgi" in words:
    state["parts"] = 0
elif "-lgip" in words:
    print("|   0  MIG 1g.10gb      19     7/7        9.62       No     16     1     0   |")
    print("|   0  MIG 1g.10gb+me   20     1/1        9.62       No     16     1     0   |")
    print("|   0  MIG 1g.20gb      15     4/4        19.50      No     26     1     0   |")
(here / "state.json").write_text(json.dumps(state))
"""


@dataclass
class Hands:
    """Keeps what a word would have called; ``gpus`` and ``there`` are the devices that it finds."""

    gpus: GpuMachine | None = None
    there: NeuronDevices = field(default_factory=NeuronDevices)
    lines: list[list[str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    found: list[dict[str, str]] = field(default_factory=list)
    made: list[tuple[str, dict[str, Any], list[str]]] = field(default_factory=list)

    def findings(self, vendor: str, subject: Mapping[str, Any]) -> list[Mapping[str, str]]:
        return [*self.found]

    def cards(self) -> list[dict[str, Any]]:
        return []

    def capture_output(self, command: Sequence[str]) -> tuple[int, str]:
        raise AssertionError(f"nothing is asked of {command}")

    def container_engine(self, asked: str) -> str:
        return asked

    def container(
        self, what: str, told: Mapping[str, Any], command: Sequence[str], only_print: bool
    ) -> int:
        self.made.append((what, dict(told), list(command)))
        return 0

    def cm(self, line: Sequence[str]) -> int:
        self.lines.append(list(line))
        return 0

    def failure(self) -> Problem | None:
        return None

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        raise AssertionError(f"nothing is asked of {line}")

    def machine(self) -> GpuMachine | None:
        return self.gpus

    def neuron(self) -> NeuronDevices:
        return self.there

    def python(self, base: str) -> list[str]:
        return [f"--env.CM_PYTHON_BIN_WITH_PATH={base or '/mlperf'}/bin/python3"]

    def in_cache(self, path: Path) -> bool:
        return is_cached(str(path))

    def report_line(self, line: str) -> None:
        self.told.append(line)

    def show(self, line: str) -> None:
        self.shown.append(line)


def a_flow(
    folder: Path, run_args: str = "", vendor: str = targets.NVIDIA, **given: Any
) -> flow.Flow:
    hands = given.pop("hands", None) or Hands()
    settings = replace(flow.FlowSettings("Me", form="tiny", execution_mode="test"), **given)
    settings = targets.settings(settings, vendor)
    return flow.Flow(folder, settings, {"RUN_ARGS": run_args}, vendor, hands)


def compiled(flow_: flow.Flow, item: work.PlannedRun, target: str) -> Path:
    """A file in the place of the item's compiled model, with what lies beside one."""
    path = artifact.file_of(
        item.config.benchmark, compiled_models.batch_of(item), compiled_models.models(flow_)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"compiled")
    tensor = (artifact.ArtefactTensor("INPUT__0", "float32", (3, 28, 28)),)
    artefact = artifact.NeuronArtefact(
        name="m",
        file=path.name,
        sha256=sha256(path),
        bytes=8,
        precision="float32",
        inputs=tensor,
        outputs=tensor,
        neuron=artifact.NeuronCompilation(
            benchmark=item.config.benchmark,
            target=target,
            batch_size=compiled_models.batch_of(item),
            dynamic_batch=True,
            sdk="torch",
            versions={},
            model=artifact.SourceModel("m", "m.pt", "0" * 64),
        ),
    )
    artifact.write(path, artefact)
    return path


def read(text: str, vendor_round: str = "v0.7", benchmarks: str = "") -> run_arguments.RunArguments:
    return run_arguments.read(text, KNOWN.fields, vendor_round, benchmarks)


def script_of_the_words() -> Any:
    """The script's own module, whose ``Engine`` asks the driver and runs programs."""
    path = ROOT / "script/run-harness/customize.py"
    spec = importlib.util.spec_from_file_location("run_harness_customize", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def recording_smi(folder: Path) -> Path:
    """A folder for PATH with an ``nvidia-smi`` that keeps its state in ``folder/state.json``.

    It writes what it is told to ``folder/calls``.
    """
    tool = folder / "bin/nvidia-smi"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(SMI.format(python=sys.executable, folder=str(folder)))
    tool.chmod(0o755)
    return tool.parent
