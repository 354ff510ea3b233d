"""The description of a system: detected, merged with what people say, every origin known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf.harness import host
from mlperf.harness.reporting.results import NETWORK, Results

from . import machine
from .errors import SubmissionError
from .fields import POWER_CAPACITY, UNKNOWN, Field, of_division

RESULTS, MACHINE, DEFAULT, OPEN = "results", "this machine", "default", "not known"
# The fields about an accelerator that do not apply to a system without one.
ACCELERATOR = (
    *("model_name", "host_interconnect", "interconnect"),
    *("memory_capacity", "memory_configuration"),
)
Asker = Callable[[Field], str]
Gpus = Callable[[], Sequence[Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Value:
    """The text of a field and where it comes from."""

    text: str
    origin: str


USUAL = {
    "number_of_nodes": Value("1", DEFAULT),
    "status": Value("available", DEFAULT),
    "host_networking_topology": Value(UNKNOWN, DEFAULT),
}


@dataclass(frozen=True, slots=True)
class Description:
    """All fields of a system, and those that nobody could tell."""

    values: Mapping[str, Value]
    questions: tuple[Field, ...]

    def document(self) -> dict[str, str]:
        """What the system's JSON file holds."""
        return {name: value.text for name, value in self.values.items()}


def describe(
    known: Mapping[str, Value],
    given: Mapping[str, str],
    told: Mapping[str, str],
    told_by: str,
    ask: Asker | None = None,
) -> Description:
    """Join options ``given``, then the file ``told``, then what is ``known`` of the runs.

    ``ask`` gets a field that is still open and returns its value, or nothing.
    Raises SubmissionError for an unknown field in the file.
    """
    found = {**USUAL, **known, "is_network": Value("true", DEFAULT)}
    division = given.get("division") or (found["division"].text if "division" in found else "")
    fields = _fields(division, told, told_by)
    values: dict[str, Value] = {}
    questions = []
    for field in fields:
        value = (
            _value(given, field, "option")
            or _value(told, field, told_by)
            or found.get(field.name)
            or _asked(ask, field)
        )
        if value is None and field.needed:
            questions.append(field)
            value = Value(UNKNOWN, OPEN)
        values[field.name] = value or Value("", OPEN)
    return Description(values, tuple(questions))


def _fields(division: str, told: Mapping[str, str], told_by: str) -> tuple[Field, ...]:
    """The fields of the division; raises SubmissionError where ``told`` holds others."""
    fields = of_division(division)
    if POWER_CAPACITY.name in told:
        fields = (*fields, POWER_CAPACITY)
    unknown = sorted(set(told) - {field.name for field in fields})
    if unknown:
        raise SubmissionError(
            f"{told_by}: no system description has the field {unknown[0]!r}",
            "the fields are listed by: cm run script --tags=get,mlperf,sut,description",
        )
    return fields


def _value(source: Mapping[str, str], field: Field, origin: str) -> Value | None:
    text = str(source.get(field.name, "")).strip()
    return Value(text, origin) if text else None


def _asked(ask: Asker | None, field: Field) -> Value | None:
    if ask is None or not field.needed:
        return None
    answer = ask(field).strip()
    return Value(answer, "answer") if answer else None


def of_results(results: Results, gpus: Gpus = tuple) -> dict[str, Value]:
    """What our harness recorded, and what this machine tells if it is the one that ran.

    ``gpus`` tells what GPUs this machine has, as ``machine.facts`` takes them.
    """
    if results.backend == NETWORK:
        return {**_from_results(results), **_of_nodes(results)}
    recorded, detected = _from_results(results), _detected(results, gpus)
    first = {name: recorded[name] for name in _OF_THE_RUN if name in recorded}
    return {**recorded, **detected, **first}


_OF_THE_RUN = ("host_processor_model_name", "host_memory_capacity")
"""What the runs themselves have recorded comes before what the machine says now."""


def _of_nodes(results: Results) -> dict[str, Value]:
    """The system under test of a network run, as its nodes told it: this machine is none of it."""
    told = results.device_facts
    workers = results.calibration.get("offline", {}).get("shape", {}).get("workers", "")
    stack = f"{results.host.system} TCP sockets, Python {results.host.python}"
    texts = {
        "number_of_nodes": told.get("nodes", ""),
        "host_processor_model_name": told.get("cpu", ""),
        "host_memory_capacity": told.get("memory", ""),
        "operating_system": told.get("system", ""),
        "network_protocol": f"cmbench frames {results.versions.get(NETWORK, '')} over TCP",
        "number_connections": str(workers),
        "net_software_stack_loadgen": stack,
        "net_software_stack_sut": f"{told.get('system', '')} TCP sockets, Python",
        "hw_notes": f"LoadGen node: {results.host.cpu_model}, "
        f"{results.host.cores_usable} cores; nodes: {told.get('names', '')}",
    }
    return {name: Value(text.strip(), RESULTS) for name, text in texts.items() if text.strip()}


def _from_results(results: Results) -> dict[str, Value]:
    told = results.host
    stack = [f"Python {told.python}"]
    stack += [f"{name} {version}" for name, version in sorted(results.versions.items())]
    texts = {
        "division": results.division,
        "system_type": results.category,
        "system_name": results.sut,
        "host_processor_model_name": told.cpu_model,
        "host_memory_capacity": machine.memory_text(told.memory_bytes),
        "framework": f"{results.runtime} ({sign})"
        if (sign := results.stand_in)
        else results.runtime,
        "operating_system": told.system,
        "other_software_stack": ", ".join(stack),
        "sw_notes": _note(results),
    }
    found = {name: Value(text, RESULTS) for name, text in texts.items() if text}
    return found | (without_accelerator() if results.device == "cpu" else {})


def without_accelerator() -> dict[str, Value]:
    """The fields about accelerators of a run on a CPU."""
    found = {f"accelerator_{name}": Value(UNKNOWN, RESULTS) for name in ACCELERATOR}
    return {**found, "accelerators_per_node": Value("0", RESULTS)}


def _note(results: Results) -> str:
    form = (
        f"{results.form} form of the benchmark: a stand-in for the real model, which says nothing "
        "about its speed or accuracy"
    )
    return "; ".join(filter(None, (results.stand_in, form if results.form else "")))


def _detected(results: Results, gpus: Gpus) -> dict[str, Value]:
    """What this machine tells about itself, where the runs were made on it."""
    here = host.facts()
    same = here.cpu_model == results.host.cpu_model
    if not same or here.memory_bytes != results.host.memory_bytes:
        return {}
    texts = machine.facts(gpus() if results.device != "cpu" else ())
    return {name: Value(text, MACHINE) for name, text in texts.items() if text}


def read_file(path: Path) -> dict[str, str]:
    """The fields in a user's YAML or JSON file; raises SubmissionError when it is no such file."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SubmissionError(f"cannot read {path}: {error}", "check --system_file") from error
    if not isinstance(data, dict):
        raise SubmissionError(f"{path} holds no fields", "write lines such as: cooling: air")
    return {str(key): _text(value) for key, value in data.items() if value is not None}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
