"""Engines: their names, their sidecars, and whether they fit an item.

A file named ``.plan`` comes out of a TensorRT builder and out of nothing else. Where there is none,
an ``.onnx`` file lies in its place, with a sidecar that says ``stand-in``.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.files import replace_text, sha256
from common.problems import Problem
from nvidia_mlperf.make import builders, files, neuron
from nvidia_mlperf.make.builders import BUILDERS
from nvidia_mlperf.make.files import sidecar
from nvidia_mlperf.make.flow import STAND_IN, Flow
from nvidia_mlperf.make.work import PlannedRun

_CUSTOM = ("bert", "dlrm", "rnnt", "3d-unet", "gptj")
_LWIS = "lwis"
BUILT_WITH = (
    "precision",
    "gpu_batch_size",
    "workspace_size",
    "gpu_inference_streams",
    "max_seq_length",
    "bert_opt_seqlen",
    "enable_interleaved",
    "use_graphs",
    "tensor_parallelism",
    "use_fp8",
)
"""The fields that make another engine."""


def name(item: PlannedRun) -> str:
    """Return an engine's name without its ending, in the words of the round."""
    config = item.config
    head = f"{config.benchmark}-{config.scenario}-gpu"
    batch, precision = item.value("gpu_batch_size", 1), item.value("precision", "int8")
    if config.benchmark == "bert":
        streams = item.value("gpu_inference_streams", 1)
        vary = "_vs_il" if item.value("enable_interleaved") else "_vs"
        body = f"{precision}_S_384_B_{batch}_P_{streams}{vary}"
    else:
        body = f"b{batch}-{precision}"
    return f"{head}-{body}.{version(item)}"


def version(item: PlannedRun) -> str:
    """Return the version in the file's name: v2.0 has harness, accuracy and power in it."""
    ver = item.config.ver
    if item.config.round == "v0.7":
        return ver
    harness = "custom" if item.config.benchmark in _CUSTOM else _LWIS
    share = "99_9" if "high_accuracy" in ver else "99"
    return f"{'triton' if 'triton' in ver else harness}_k_{share}_MaxP"


def path(flow: Flow, item: PlannedRun, ending: str = ".onnx") -> Path:
    """Return where the engine of an item lies."""
    config = item.config
    folder = flow.build / "engines" / config.system / config.benchmark / config.scenario
    return folder / f"{name(item)}{ending}"


def find_engine(flow: Flow, item: PlannedRun) -> Path | None:
    """Return the engine that is there: a plan before a stand-in."""
    places = (path(flow, item, ending) for ending in (".plan", ".onnx"))
    return next((place for place in places if place.is_file()), None)


def plan_of(flow: Flow, item: PlannedRun) -> Path | None:
    """Return the TensorRT engine of a run; None where another backend computes."""
    if flow.vendor == neuron.ACCELERATOR or "triton" in item.config.ver:
        return None
    engine = find_engine(flow, item)
    return engine if engine is not None and is_plan(engine) else None


def fields_of(item: PlannedRun) -> dict[str, Any]:
    """Return the values that an engine is built with."""
    return {key: item.value(key) for key in BUILT_WITH if item.value(key) is not None}


def digest(fields: Mapping[str, Any]) -> str:
    """Return the hash of fields, the same on every machine."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).hexdigest()


# ---- installing one


def put(flow: Flow, item: PlannedRun, source: Path) -> Path:
    """Install the stand-in as the engine, with a sidecar; leave nothing half-made."""
    place = path(flow, item)
    fields = fields_of(item)
    record = {
        "kind": STAND_IN,
        "what": "ONNX Runtime computes this model on the processor: no TensorRT engine",
        "benchmark": item.config.benchmark,
        "scenario": item.config.scenario,
        "config_ver": item.config.ver,
        "system": item.config.system,
        "here": item.ours,
        "form": flow.settings.form,
        "precision": "float32",
        "model": {"file": str(source), "sha256": sha256(source)},
        "built": sidecar(source),
        "fields": fields,
        "fields_sha256": digest(fields),
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    text = place.with_name(f"{place.name}.json")
    text.unlink(missing_ok=True)
    files.put(source, place)
    replace_text(text, json.dumps(record, indent=2) + "\n")
    return place


# ---- whether they fit


def misfit(flow: Flow, item: PlannedRun, engine: Path) -> str:
    """Return why an engine is not the one that the item needs; empty where it is."""
    facts = sidecar(engine)
    if not facts:
        return "no sidecar describes it"
    if is_plan(engine):
        return plan_misfit(flow, item, engine, facts)
    if facts.get("fields_sha256") != digest(fields_of(item)):
        return "it was made with other fields"
    if facts.get("form", flow.settings.form) != flow.settings.form:
        return f"it is of the {facts['form']} form"
    if facts.get("kind") != STAND_IN:
        return f"it does not say that it is a {STAND_IN}"
    if facts.get("model", {}).get("sha256") != sha256(engine):
        return "its checksum is not that in its sidecar"
    return ""


def is_plan(engine: Path) -> bool:
    """Return whether a file claims to be a true engine, by its name."""
    return engine.suffix == ".plan"


def plan_misfit(flow: Flow, item: PlannedRun, engine: Path, facts: Mapping[str, Any]) -> str:
    """Return why a plan cannot run here: a fault of the plan or of the machine."""
    if facts.get("builder") not in BUILDERS:
        return f"it is a plan, and its builder is not TensorRT but {facts.get('builder')}"
    if facts.get("sha256") != sha256(engine):
        return "its checksum is not that in its sidecar"
    has = ", ".join(facts.get("compute_capabilities", ())) or "the GPU that it was built on"
    built = f"it is an engine of {BUILDERS[facts['builder']]} {facts.get('version')} for {has}"
    machine = flow.runner.machine()
    if machine is None:
        return f"{built}, and this machine has no NVIDIA GPU that could run it"
    if machine.compute_capability not in facts.get("compute_capabilities", ()):
        return f"{built}, and this GPU has compute capability {machine.compute_capability}"
    return field_mismatch(item, engine)


def field_mismatch(item: PlannedRun, engine: Path) -> str:
    """Return why a plan does not match its item; empty where it does or is unknown."""
    described = builders.model_of(engine)
    if not described:
        return f"nothing describes its model: {engine.name}{builders.FACTS_SUFFIX} is not there"
    same = described.get("fields_sha256") in (None, digest(fields_of(item)))
    return "" if same else "it was made with other fields"


def require(
    flow: Flow, items: Sequence[PlannedRun], system_flags: Mapping[str, str] | None = None
) -> None:
    """Raise Problem unless every item has an engine that fits, with the line that makes them.

    ``system_flags`` are the flags of RUN_ARGS that say whose values count.
    """
    wrong, missing, plans = [], [], []
    ending = ".plan" if builders.chosen(flow, flow.runner.machine()) in BUILDERS else ".onnx"
    for item in items:
        engine = find_engine(flow, item)
        why = misfit(flow, item, engine) if engine else "it is missing"
        if why:
            wrong.append(f"{relative_path(flow, engine or path(flow, item, ending))}: {why}")
            missing.append(item)
            plans += [relative_path(flow, engine)] if engine and is_plan(engine) else []
    if wrong:
        text = f"engines do not fit: {'; '.join(wrong)}"
        hint = f"`{removal_command(plans)}{make_line(missing, system_flags)}`"
        if plans and flow.settings.builder in BUILDERS and flow.runner.machine() is None:
            hint = (
                f"take this folder to that GPU; here, with builder: {STAND_IN} in flow.yaml: {hint}"
            )
        raise Problem("engine-missing", text, hint)


def computes(flow: Flow, items: Sequence[PlannedRun]) -> str:
    """What computes all items: the builder of their plans, or the stand-in.

    Raises Problem where they differ: results stand under one name.
    """
    there = [engine for item in items if (engine := find_engine(flow, item))]
    word = {str(sidecar(e).get("builder")) if is_plan(e) else STAND_IN for e in there}
    if len(word) > 1:
        text = f"these engines are for {' and '.join(sorted(word))}, and results have one name"
        raise Problem("bad-value", text, "run them one after the other: --benchmarks=ONE")
    return word.pop() if word else STAND_IN


def removal_command(plans: Sequence[str]) -> str:
    """Return the start of a command line that removes plans; empty without any."""
    files = [word for plan in plans for word in (plan, f"{plan}.json")]
    return f"rm -f {shlex.join(files)} && " if files else ""


def make_line(items: Sequence[PlannedRun], system_flags: Mapping[str, str] | None = None) -> str:
    """Return the line of make that builds these engines; ``system_flags`` as in ``require``."""
    overrides = {name: value for item in items for name, value in item.overrides.items()}
    flags = {
        "benchmarks": _once(item.config.benchmark for item in items),
        "scenarios": _once(item.config.scenario for item in items),
        "config_ver": _once(item.config.ver for item in items),
        **(system_flags or {}),
        **{name: str(value) for name, value in overrides.items() if name in BUILT_WITH},
    }
    run_args = " ".join(f"--{key}={value}" for key, value in flags.items())
    return f"make generate_engines RUN_ARGS={shlex.quote(run_args)}"


def _once(words: Iterator[str]) -> str:
    return ",".join(dict.fromkeys(words))


def relative_path(flow: Flow, engine: Path) -> str:
    """Return an engine's path relative to the folder of the flow."""
    return engine.relative_to(flow.folder).as_posix()
