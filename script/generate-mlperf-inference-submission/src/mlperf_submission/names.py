"""Names of benchmarks: ours, those of submission trees, and those that a mapping file invents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mlperf_harness import rules

from .layouts import MAPPING


def by_checker_name() -> Mapping[str, rules.BenchmarkRules]:
    """The rules of every benchmark under the name that submission trees use."""
    found = (rules.benchmark(name) for name in rules.names())
    return {each.checker_name: each for each in found}


def official(name: str) -> str:
    """The name that submission trees use for a benchmark, given ours or theirs."""
    return rules.benchmark(name).checker_name if name in rules.names() else name


def mapping(folder: Path) -> Mapping[str, str]:
    """What the submitter's model_mapping.json says; empty where there is none that can be read."""
    try:
        found = json.loads((folder / MAPPING).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): str(value) for key, value in found.items()}


def rules_for(folder_name: str, mapped: Mapping[str, str]) -> rules.BenchmarkRules | None:
    """The rules of the benchmark that a folder of results stands for, or None."""
    known = by_checker_name()
    name = mapped.get(folder_name, folder_name)
    return known.get(official(name)) or known.get(name)
