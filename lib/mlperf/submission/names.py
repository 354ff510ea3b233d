"""Names of benchmarks in trees, and those that a submitter's own mapping file adds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mlperf import catalog

from .layouts import MAPPING


def official(name: str) -> str:
    """Return the name that submission trees use for a benchmark, from ours or theirs."""
    spec = catalog.benchmarks().get(name)
    return spec.checker_name if spec else name


def mapping(folder: Path) -> Mapping[str, str]:
    """Return the submitter's model_mapping.json; empty where it cannot be read."""
    try:
        document = json.loads((folder / MAPPING).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {str(key): str(value) for key, value in document.items()}
