"""True engines in the folder of a flow: their builders and sidecars.

A file named ``.plan`` has ``FILE.json`` beside it, which its builder wrote, and
``FILE.model.json``, which describes its model and says with which fields it was built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.files import replace_text
from common.problems import Problem
from nvidia_mlperf.flow.systems import GpuMachine
from nvidia_mlperf.make import files
from nvidia_mlperf.make.files import sidecar
from nvidia_mlperf.make.flow import STAND_IN, Flow
from nvidia_mlperf.make.work import PlannedRun, WorkPlan, read_registry

BUILDERS = {"tensorrt": "TensorRT", "tensorrt-rtx": "TensorRT-RTX"}
"""The builders of true engines, as their sidecars name them (generate,engine,nvidia)."""
VARIATIONS = {"tensorrt": "_tensorrt", "tensorrt-rtx": "_rtx", STAND_IN: f"_{STAND_IN}"}
PRECISIONS = {"fp32": "float32", "fp16": "float16", "int8": "int8", "fp8": "fp8"}
FACTS_SUFFIX = ".model.json"
MIB = 1 << 20


def chosen(flow: Flow, machine: GpuMachine | None) -> str:
    """Return the builder: the folder's, TensorRT where there is a GPU, or none."""
    return flow.settings.builder or (STAND_IN if machine is None else "tensorrt")


def line(flow: Flow, work: WorkPlan, item: PlannedRun, builder: str, config_ver: str) -> list[str]:
    """Return the ``cm`` line that builds the engine of an item, with all its settings."""
    form = "" if flow.settings.form == "full" else f",_{flow.settings.form}"
    flags = {
        "model": item.ours,
        "benchmark": item.config.benchmark,
        "precision": PRECISIONS[item.value("precision", "int8")],
        "batch_size": item.value("gpu_batch_size", 1),
        "scenario": item.config.scenario,
        "config_ver": config_ver,
        "streams": item.value("gpu_inference_streams", 1),
        "workspace_size": -(-item.value("workspace_size", 0) // MIB),
        "compute_capability": capability(work),
    }
    words = [f"--{name}={value}" for name, value in flags.items() if value not in ("", 0)]
    tags = f"--tags=generate,engine,nvidia,{VARIATIONS[builder]}{form}"
    return ["run", "script", tags, *words, *flow.python(), "--quiet"]


def capability(work: WorkPlan) -> str:
    """What an engine is for: the GPU that is here, or the one of the system that is named."""
    if work.machine is not None:
        return work.machine.compute_capability
    system = read_registry().systems.get(work.system)
    return system.compute_capability if system else ""


def put(env: Mapping[str, Any], place: Path, fields_sha256: str) -> None:
    """Put the engines of a model into the folder, the description last.

    ``env`` is what generate,engine,nvidia gives. Raises Problem for what no builder has made.
    """
    source = Path(env["CM_ENGINE_FILE_WITH_PATH"])
    if source.suffix != place.suffix or sidecar(source).get("builder") not in BUILDERS:
        raise Problem("engine-missing", f"{source} is not an engine of TensorRT")
    facts = json.loads(source.with_name("model.json").read_text(encoding="utf-8"))
    described = place.with_name(f"{place.name}{FACTS_SUFFIX}")
    place.parent.mkdir(parents=True, exist_ok=True)
    described.unlink(missing_ok=True)
    parts = [part["file"] for part in facts.get("parts", ())]
    for name, target in ((source.name, place), *((p, place.with_name(p)) for p in parts)):
        for ending in ("", ".json"):
            files.put(
                source.with_name(f"{name}{ending}"), target.with_name(f"{target.name}{ending}")
            )
    record = {**facts, "file": place.name, "fields_sha256": fields_sha256}
    replace_text(described, json.dumps(record, indent=2) + "\n")


def model_of(plan: Path) -> dict[str, Any]:
    """Return the description of an engine's model; empty where there is none."""
    try:
        model = json.loads(plan.with_name(f"{plan.name}{FACTS_SUFFIX}").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return model if isinstance(model, dict) else {}


def run_words(plan: Path, facts: Mapping[str, Any]) -> list[str]:
    """Return the flags of a run that opens an engine with these ``facts``."""
    return [
        "--backend=tensorrt",
        f"--precision={facts['precision']}",
        f"--tensorrt_product={facts['builder']}",
        "--device=cuda",
        f"--engine_path={plan}",
    ]


def memory(item: PlannedRun, parameters: int) -> int:
    """Return the bytes of a GPU's memory that an item's weights take; it needs more than that."""
    return parameters * {"fp32": 4, "fp16": 2}.get(item.value("precision", "int8"), 1)
