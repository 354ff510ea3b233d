"""The facts in which the results of one table differ."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from cmbench_results.values import USED, BenchmarkResult, configuration_of

SHOWN = ("benchmark", "scenario", "form", "system", "model", "backend", "precision", "organization")
"""Facts that a table has columns of its own for, or needs none."""
_CONSEQUENCES = ("framework", "dataset", "category", "round", "division")
_FRACTION = re.compile(r"\d{1,15}\.\d{6,}")
_NUMBERS = ("model_sha256", "data_sha256")

Configurations = Sequence[Mapping[str, str]]


def differing(
    configurations: Configurations, shown: Collection[str] = SHOWN, most: int = 6
) -> list[str]:
    """Return the names of the facts that differ, settings first, without those that are shown.

    A digest or a version that differs exactly where another fact does says nothing more and is
    left out, and so is what was requested where exactly that was used.
    """
    names = dict.fromkeys(name for entry in configurations for name in entry)
    names = {name: None for name in names if not _is_as_used(configurations, name)}
    seen = {_classes(configurations, name) for name in shown}
    chosen = []
    # Sorting keeps the order of those that are equal.
    for name in sorted(filter(lambda name: name not in shown, names), key=_follows):
        classes = _classes(configurations, name)
        if any(classes) and not (_follows(name) and classes in seen):
            seen.add(classes)
            chosen.append(name)
    return chosen[:most]


def _is_as_used(configurations: Configurations, name: str) -> bool:
    """Return whether every configuration used what was requested of it."""
    used = USED.get(name, "")
    return used != "" and all(
        name not in entry or entry[name] == entry.get(used) for entry in configurations
    )


def _follows(name: str) -> bool:
    """Return whether a fact may follow from another one: a version, a digest, a data set."""
    return name.startswith("version of ") or name in (*_CONSEQUENCES, *_NUMBERS)


def _classes(configurations: Configurations, name: str) -> tuple[int, ...]:
    """Return for every configuration the number of its value of a fact; all 0 where they agree."""
    numbers: dict[str, int] = {}
    values = (entry.get(name, "") for entry in configurations)
    return tuple(numbers.setdefault(value, len(numbers)) for value in values)


def differing_facts(results: Mapping[str, BenchmarkResult]) -> dict[str, dict[str, str]]:
    """Return the facts in which results differ, with their values, by the id of a result."""
    configurations = {uid: configuration_of(result) for uid, result in results.items()}
    names = differing(list(configurations.values()))
    return {
        uid: {name: entry.get(name, "") for name in names} for uid, entry in configurations.items()
    }


def in_words(facts: Mapping[str, str]) -> str:
    """Return facts as one line: ``batch 8, threads 2``."""
    pairs = (
        (name.removeprefix("version of "), short(value)) for name, value in facts.items() if value
    )
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in pairs)


def identity(result: BenchmarkResult) -> str:
    """Return what one's own result is recognized by: model, backend, precision and time."""
    work, software = result.workload, result.software
    model = work.model if work.model != work.benchmark else ""
    parts = (model, software.backend, software.precision, moment(result.measured_at))
    return ", ".join(filter(None, parts))


def short(value: str) -> str:
    """Return a setting with six digits where it is a fraction of more."""
    return f"{float(value):.6g}" if _FRACTION.fullmatch(value) else value


def moment(measured_at: str) -> str:
    """Return a time in ISO 8601 to the minute, as people write it."""
    return measured_at[:16].replace("T", " ")
