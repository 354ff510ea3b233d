"""A plan from what somebody asks for: the facts of a model, or the flags of the known generator."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from aws_neuron import artifact
from aws_neuron.artifact import ArtefactError

from .errors import RepositoryError
from .plan import TYPES, Artefact, Batching, Cores, Plan, Tensor, helpers_of

T = TypeVar("T")
MODEL_FACTS = "model.json"
USUAL_TARGET = "inf1"
# Its types of models, where they run on NeuronCores.
ON_NEURON = {"pytorch": "neuron", "tensorflow": "tensorflow"}


def plan(asked: Mapping[str, Any]) -> tuple[Plan, Path]:
    """The plan, and the repository that it belongs into; raises RepositoryError."""
    facts = _compiled(asked) or _facts(asked.get("facts") or "")
    place = Path(asked["triton_model_dir"])
    cores = _cores(asked)
    runtime = asked["runtime"]
    found = Plan(
        name=place.name,
        runtime=ON_NEURON.get(runtime, runtime) if cores else runtime,
        inputs=_tensors(asked.get("triton_input"), facts.get("inputs")),
        outputs=_tensors(asked.get("triton_output"), facts.get("outputs")),
        artefact=_artefact("" if facts else asked.get("compiled_model"), facts),
        version=_number(asked, "model_version"),
        max_batch=_number(asked, "max_batch_size"),
        instances=_number(asked, "triton_model_instance_count"),
        device=asked["device"] if not cores else _target(asked, facts),
        batching=_batching(asked),
        cores=cores,
        fixed_batch=_fixed_batch(facts),
        join_requests=not asked["disable_batch_requests_to_neuron"],
        parameters={k: str(v) for k, v in asked["parameters"].items() if v},
        helpers=helpers_of(runtime),
    )
    return found, place.parent


def _compiled(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """What lies beside a model that was compiled for Neuron; empty where nothing does.

    Raises RepositoryError for one that is damaged, or was made for another device than asked for.
    """
    path = Path(asked.get("compiled_model") or asked.get("facts") or "")
    if not path.name:
        return {}
    beside = path if path.suffix == ".json" else artifact.sidecar_of(path)
    if beside.name == MODEL_FACTS or not beside.is_file():
        return {}
    try:
        found = artifact.read(beside)
        found.require(asked["target"] or found.target)
        if asked["runtime"] == "pytorch" and not asked.get("neuron_core_range"):
            # Triton alone has no Neuron device: what runs without cores is TorchScript.
            found.require("cpu")
    except ArtefactError as error:
        raise RepositoryError("bad-value", str(error), error.hint) from error
    return {**found.facts(), "folder": str(beside.parent)}


def _target(asked: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """What the model was compiled for: what its sidecar says, or somebody; inf1 without either."""
    known = facts.get("neuron", {}).get("target", "")
    return str(known or asked["target"] or USUAL_TARGET)


def _fixed_batch(facts: Mapping[str, Any]) -> int:
    """The only batch that a compiled model takes; 0 where any will do, or nobody knows."""
    known = facts.get("neuron", {})
    return 0 if known.get("dynamic_batch", True) else int(known["batch_size"])


def _facts(path: str) -> Mapping[str, Any]:
    """What lies beside a model; its file with the whole path."""
    if not path:
        return {}
    try:
        told: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RepositoryError("model-facts", f"{path}: {error}", "get the model again") from error
    if told.get("parts"):
        text = f"{told['name']} consists of several graphs, and a model of Triton is one"
        raise RepositoryError("not-available", text, "choose a benchmark of one graph")
    return {**told, "folder": str(Path(path).parent)}


def _artefact(given: str | None, facts: Mapping[str, Any]) -> Artefact | None:
    if given:
        return Artefact(given)
    if not facts:
        return None
    return Artefact(str(Path(facts["folder"]) / facts["file"]), facts["sha256"])


def _tensors(given: str | None, known: Any) -> tuple[Tensor, ...]:
    """``NAME,DTYPE,AxB`` with semicolons between several, or those of the facts."""
    if given:
        return tuple(_tensor(word) for word in given.split(";") if word.strip())
    return tuple(Tensor(t["name"], t["dtype"], tuple(t["shape"])) for t in known or ())


def _tensor(word: str) -> Tensor:
    parts = [part.strip() for part in word.split(",")]
    sizes = parts[2].split("x") if len(parts) == 3 and parts[2] else []
    kind = parts[1].upper().removeprefix("TYPE_") if len(parts) > 1 else ""
    if len(parts) != 3 or kind not in TYPES or not all(re.fullmatch(r"-?\d+", s) for s in sizes):
        raise RepositoryError(
            "bad-value",
            f'"{word.strip()}" is not a tensor: NAME,DTYPE,AxB is needed, the batch left out',
            f"as in INPUT__0,FP32,3x224x224; types are {', '.join(TYPES)}",
        )
    return Tensor(parts[0], TYPES[kind], tuple(map(int, sizes)))


def _number(asked: Mapping[str, Any], name: str) -> int:
    return _read(asked[name], name, int, "a whole number is needed")


def _read(value: Any, name: str, kind: Callable[[str], T], what: str) -> T:
    try:
        return kind(str(value))
    except ValueError as error:
        raise RepositoryError("bad-value", f"--{name}={value}: {what}") from error


def _batching(asked: Mapping[str, Any]) -> Batching | None:
    sizes = str(asked.get("preferred_batch_size") or "")
    what = "whole numbers with commas between them are needed"
    preferred = _read(
        sizes, "preferred_batch_size", lambda t: tuple(int(s) for s in t.split(",") if s), what
    )
    found = Batching(preferred, _number(asked, "max_queue_delay_microseconds"))
    if asked["enable_dynamic_batching"]:
        return found
    if found != Batching():
        name = "preferred_batch_size" if preferred else "max_queue_delay_microseconds"
        text = f"--{name} says nothing without --enable_dynamic_batching"
        raise RepositoryError("bad-value", text, f"add it, or leave out --{name}")
    return None


def _cores(asked: Mapping[str, Any]) -> Cores | None:
    given = asked.get("neuron_core_range")
    if not given:
        return None
    match = re.fullmatch(r"(\d+):(\d+)", given)
    if match is None:
        raise RepositoryError(
            "bad-value",
            f"--neuron_core_range={given}: FIRST:LAST is needed, both counted",
            "the 16 cores of an inf1.6xlarge are 0:15",
        )
    return Cores(int(match[1]), int(match[2]), _number(asked, "threads_per_core"))
