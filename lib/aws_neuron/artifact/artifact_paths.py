"""Paths of artefacts: the names of the guide "Triton on AWS Inferentia", from guide.json."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from .artefact import ArtefactError


@cache
def _guide() -> dict[str, Any]:
    path = Path(__file__).with_name("guide.json")
    guide: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return guide


def usual_folder() -> Path:
    """Return the default folder of all artefacts."""
    return Path(_guide()["folder"])


def usual_scratch() -> Path:
    """Return the guide's default scratch space."""
    return Path(_guide()["scratch"])


def benchmarks() -> tuple[str, ...]:
    """Return the benchmarks that models are compiled for."""
    return tuple(_guide()["files"])


def file_of(benchmark: str, batch_size: int, folder: Path | None = None) -> Path:
    """Return the artefact of a benchmark (``bert-99`` and ``bert-99.9`` share one) in ``folder``.

    Raises ArtefactError for a benchmark without any.
    """
    name = benchmark.removesuffix(".9").removesuffix("-99")
    pattern = _guide()["files"].get(name)
    if pattern is None:
        known = ", ".join(benchmarks())
        raise ArtefactError(f"no model of {benchmark} is compiled for Neuron", known)
    return (folder or usual_folder()) / str(pattern).format(batch=batch_size)
