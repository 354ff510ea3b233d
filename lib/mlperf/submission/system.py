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
from .fields import POWER_CAPACITY, UNKNOWN, SystemField, of_division

RESULTS, MACHINE, DEFAULT, OPEN = "results", "this machine", "default", "not known"
# The fields about an accelerator that do not apply to a system without one.
ACCELERATOR = (
    *("model_name", "host_interconnect", "interconnect"),
    *("memory_capacity", "memory_configuration"),
)
Asker = Callable[[SystemField], str]
Gpus = Callable[[], Sequence[Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class FieldValue:
    """The text of a field and where it comes from."""

    text: str
    origin: str


USUAL = {
    "number_of_nodes": FieldValue("1", DEFAULT),
    "status": FieldValue("available", DEFAULT),
    "host_networking_topology": FieldValue(UNKNOWN, DEFAULT),
}


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """All fields of a system, and those that are still unknown."""

    values: Mapping[str, FieldValue]
    questions: tuple[SystemField, ...]

    def document(self) -> dict[str, str]:
        """What the system's JSON file holds."""
        return {name: value.text for name, value in self.values.items()}


def describe(
    known: Mapping[str, FieldValue],
    options: Mapping[str, str],
    entries: Mapping[str, str],
    source: str,
    ask: Asker | None = None,
) -> SystemDescription:
    """Join ``options``, then ``entries`` of the file, then what is ``known`` of the runs.

    ``ask`` gets a field that is still open and returns its value, or nothing.
    Raises SubmissionError for an unknown field in the file.
    """
    fallbacks = {**USUAL, **known, "is_network": FieldValue("true", DEFAULT)}
    division = options.get("division") or (
        fallbacks["division"].text if "division" in fallbacks else ""
    )
    fields = _fields(division, entries, source)
    values: dict[str, FieldValue] = {}
    questions = []
    for field in fields:
        value = (
            _value(options, field, "option")
            or _value(entries, field, source)
            or fallbacks.get(field.name)
            or _answer(ask, field)
        )
        if value is None and field.needed:
            questions.append(field)
            value = FieldValue(UNKNOWN, OPEN)
        values[field.name] = value or FieldValue("", OPEN)
    return SystemDescription(values, tuple(questions))


def _fields(division: str, entries: Mapping[str, str], source: str) -> tuple[SystemField, ...]:
    """Return the fields of the division; raise SubmissionError where ``entries`` holds others."""
    fields = of_division(division)
    if POWER_CAPACITY.name in entries:
        fields = (*fields, POWER_CAPACITY)
    unknown = sorted(set(entries) - {field.name for field in fields})
    if unknown:
        raise SubmissionError(
            f"{source}: no system description has the field {unknown[0]!r}",
            "the fields are listed by: `cm run script --tags=get,mlperf,sut,description`",
        )
    return fields


def _value(source: Mapping[str, str], field: SystemField, origin: str) -> FieldValue | None:
    text = str(source.get(field.name, "")).strip()
    return FieldValue(text, origin) if text else None


def _answer(ask: Asker | None, field: SystemField) -> FieldValue | None:
    if ask is None or not field.needed:
        return None
    answer = ask(field).strip()
    return FieldValue(answer, "answer") if answer else None


def of_results(results: Results, gpus: Gpus = tuple) -> dict[str, FieldValue]:
    """Return the harness's records, and the facts of this machine if the runs were made on it.

    ``gpus`` returns the GPUs of this machine, as ``machine.facts`` takes them.
    """
    if results.backend == NETWORK:
        return {**_from_results(results), **_of_nodes(results)}
    recorded, detected = _from_results(results), _detected(results, gpus)
    first = {name: recorded[name] for name in _OF_THE_RUN if name in recorded}
    return {**recorded, **detected, **first}


_OF_THE_RUN = ("host_processor_model_name", "host_memory_capacity")
"""What the runs themselves have recorded comes before what the machine says now."""


def _of_nodes(results: Results) -> dict[str, FieldValue]:
    """Return the system under test of a network run, by its nodes: this machine is none of it."""
    facts = results.device_facts
    workers = results.calibration.get("offline", {}).get("shape", {}).get("workers", "")
    stack = f"{results.host.system} TCP sockets, Python {results.host.python}"
    texts = {
        "number_of_nodes": facts.get("nodes", ""),
        "host_processor_model_name": facts.get("cpu", ""),
        "host_memory_capacity": facts.get("memory", ""),
        "operating_system": facts.get("system", ""),
        "network_protocol": f"cmbench frames {results.versions.get(NETWORK, '')} over TCP",
        "number_connections": str(workers),
        "net_software_stack_loadgen": stack,
        "net_software_stack_sut": f"{facts.get('system', '')} TCP sockets, Python",
        "hw_notes": f"LoadGen node: {results.host.cpu_model}, "
        f"{results.host.cores_usable} cores; nodes: {facts.get('names', '')}",
    }
    return {name: FieldValue(text.strip(), RESULTS) for name, text in texts.items() if text.strip()}


def _from_results(results: Results) -> dict[str, FieldValue]:
    host = results.host
    stack = [f"Python {host.python}"]
    stack += [f"{name} {version}" for name, version in sorted(results.versions.items())]
    texts = {
        "division": results.division,
        "system_type": results.category,
        "system_name": results.sut,
        "host_processor_model_name": host.cpu_model,
        "host_memory_capacity": machine.memory_text(host.memory_bytes),
        "framework": f"{results.runtime} ({sign})"
        if (sign := results.stand_in)
        else results.runtime,
        "operating_system": host.system,
        "other_software_stack": ", ".join(stack),
        "sw_notes": _note(results),
    }
    values = {name: FieldValue(text, RESULTS) for name, text in texts.items() if text}
    return values | (without_accelerator() if results.device == "cpu" else {})


def without_accelerator() -> dict[str, FieldValue]:
    """Return the fields about accelerators of a run on a CPU."""
    values = {f"accelerator_{name}": FieldValue(UNKNOWN, RESULTS) for name in ACCELERATOR}
    return {**values, "accelerators_per_node": FieldValue("0", RESULTS)}


def _note(results: Results) -> str:
    form = (
        f"{results.form} form of the benchmark: a stand-in for the real model, which says nothing "
        "about its speed or accuracy"
    )
    return "; ".join(filter(None, (results.stand_in, form if results.form else "")))


def _detected(results: Results, gpus: Gpus) -> dict[str, FieldValue]:
    """Return the facts of this machine, where the runs were made on it."""
    here = host.facts()
    same = here.cpu_model == results.host.cpu_model
    if not same or here.memory_bytes != results.host.memory_bytes:
        return {}
    texts = machine.facts(gpus() if results.device != "cpu" else ())
    return {name: FieldValue(text, MACHINE) for name, text in texts.items() if text}


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
