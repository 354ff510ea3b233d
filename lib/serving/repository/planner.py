"""A plan from a request: the facts of a model, or the flags of the known generator."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from aws_neuron import artifact
from common.problems import Problem

from .plan import TYPES, Batching, Cores, ModelArtefact, ModelTensor, RepositoryPlan, helpers_of

T = TypeVar("T")
MODEL_FACTS = "model.json"
USUAL_TARGET = "inf1"
# Its types of models, where they run on NeuronCores.
ON_NEURON = {"pytorch": "neuron", "tensorflow": "tensorflow"}


def plan(request: Mapping[str, Any]) -> tuple[RepositoryPlan, Path]:
    """Return the plan and its repository; raise Problem."""
    facts = _compiled(request) or _facts(request.get("facts") or "")
    place = Path(request["triton_model_dir"])
    cores = _cores(request)
    runtime = request["runtime"]
    repository = RepositoryPlan(
        name=place.name,
        runtime=ON_NEURON.get(runtime, runtime) if cores else runtime,
        inputs=_tensors(request.get("triton_input"), facts.get("inputs")),
        outputs=_tensors(request.get("triton_output"), facts.get("outputs")),
        artefact=_artefact("" if facts else request.get("compiled_model"), facts),
        version=_number(request, "model_version"),
        max_batch=_number(request, "max_batch_size"),
        instances=_number(request, "triton_model_instance_count"),
        device=request["device"] if not cores else _target(request, facts),
        batching=_batching(request),
        cores=cores,
        fixed_batch=_fixed_batch(facts),
        join_requests=not request["disable_batch_requests_to_neuron"],
        parameters={k: str(v) for k, v in request["parameters"].items() if v},
        helpers=helpers_of(runtime),
    )
    return repository, place.parent


def _compiled(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sidecar of a model compiled for Neuron; empty without one.

    Raises ArtefactError for one that is damaged, or was made for another device than asked for.
    """
    path = Path(request.get("compiled_model") or request.get("facts") or "")
    if not path.name:
        return {}
    beside = path if path.suffix == ".json" else artifact.sidecar_of(path)
    if beside.name == MODEL_FACTS or not beside.is_file():
        return {}
    artefact = artifact.read(beside)
    artefact.require(request["target"] or artefact.neuron.target)
    if request["runtime"] == "pytorch" and not request.get("neuron_core_range"):
        # Triton alone has no Neuron device: a model without cores is TorchScript.
        artefact.require("cpu")
    return {**artefact.facts(), "folder": str(beside.parent)}


def _target(request: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the model's target: of its sidecar, or of the request; inf1 without either."""
    known = facts.get("neuron", {}).get("target", "")
    return str(known or request["target"] or USUAL_TARGET)


def _fixed_batch(facts: Mapping[str, Any]) -> int:
    """Return the only batch of a compiled model; 0 for any or an unknown one."""
    known = facts.get("neuron", {})
    return 0 if known.get("dynamic_batch", True) else int(known["batch_size"])


def _facts(path: str) -> Mapping[str, Any]:
    """Return the facts of a model; its file with the whole path."""
    if not path:
        return {}
    try:
        facts: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Problem("model-facts", f"{path}: {error}", "get the model again") from error
    if facts.get("parts"):
        text = f"{facts['name']} consists of several graphs, and a model of Triton is one"
        raise Problem("not-available", text, "choose a benchmark of one graph")
    return {**facts, "folder": str(Path(path).parent)}


def _artefact(path: str | None, facts: Mapping[str, Any]) -> ModelArtefact | None:
    if path:
        return ModelArtefact(path)
    if not facts:
        return None
    return ModelArtefact(str(Path(facts["folder"]) / facts["file"]), facts["sha256"])


def _tensors(text: str | None, known: Any) -> tuple[ModelTensor, ...]:
    """Parse ``NAME,DTYPE,AxB``, separated by semicolons; fall back to those of the facts."""
    if text:
        return tuple(_tensor(word) for word in text.split(";") if word.strip())
    return tuple(ModelTensor(t["name"], t["dtype"], tuple(t["shape"])) for t in known or ())


def _tensor(word: str) -> ModelTensor:
    parts = [part.strip() for part in word.split(",")]
    sizes = parts[2].split("x") if len(parts) == 3 and parts[2] else []
    kind = parts[1].upper().removeprefix("TYPE_") if len(parts) > 1 else ""
    if len(parts) != 3 or kind not in TYPES or not all(re.fullmatch(r"-?\d+", s) for s in sizes):
        raise Problem(
            "bad-value",
            f'"{word.strip()}" is not a tensor: NAME,DTYPE,AxB is needed, the batch left out',
            f"as in INPUT__0,FP32,3x224x224; types are {', '.join(TYPES)}",
        )
    return ModelTensor(parts[0], TYPES[kind], tuple(map(int, sizes)))


def _number(request: Mapping[str, Any], name: str) -> int:
    return _read(request[name], name, int, "a whole number is needed")


def _read(value: Any, name: str, kind: Callable[[str], T], what: str) -> T:
    try:
        return kind(str(value))
    except ValueError as error:
        raise Problem("bad-value", f"--{name}={value}: {what}") from error


def _batching(request: Mapping[str, Any]) -> Batching | None:
    sizes = str(request.get("preferred_batch_size") or "")
    what = "whole numbers with commas between them are needed"
    preferred = _read(
        sizes, "preferred_batch_size", lambda t: tuple(int(s) for s in t.split(",") if s), what
    )
    batching = Batching(preferred, _number(request, "max_queue_delay_microseconds"))
    if request["enable_dynamic_batching"]:
        return batching
    if batching != Batching():
        name = "preferred_batch_size" if preferred else "max_queue_delay_microseconds"
        text = f"--{name} says nothing without --enable_dynamic_batching"
        raise Problem("bad-value", text, f"add it, or leave out --{name}")
    return None


def _cores(request: Mapping[str, Any]) -> Cores | None:
    text = request.get("neuron_core_range")
    if not text:
        return None
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        raise Problem(
            "bad-value",
            f"--neuron_core_range={text}: FIRST:LAST is needed, both counted",
            "the 16 cores of an inf1.6xlarge are 0:15",
        )
    return Cores(int(match[1]), int(match[2]), _number(request, "threads_per_core"))
