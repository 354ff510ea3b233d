"""model.json: what a benchmark needs to know of a model, and how the model came about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.files import sha256

if TYPE_CHECKING:
    import onnx

MODEL_FACTS = "model.json"
TARGET_SHARE = 0.99
# What the options of a model say whose size is not the real one.
OTHER_SIZE = {"reduced": "another size than that of MLPerf's model"}


def tensor(name: str, *shape: int, dtype: str = "float32") -> dict[str, Any]:
    """An input or output; ``shape`` is that of one sample, -1 where it varies."""
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def tensors(names: Iterable[str], *shape: int, dtype: str = "float32") -> list[dict[str, Any]]:
    """Several inputs or outputs of one shape."""
    return [tensor(name, *shape, dtype=dtype) for name in names]


def accuracy(
    metric: str, unit: str, reference: float = 0.0, share: float = TARGET_SHARE, digits: int = 4
) -> dict[str, Any]:
    """The figure of a model and the least that runs must reach, rounded to ``digits``.

    Without a reference nothing is expected: the weights are random.
    """
    bounds = {"reference": round(reference, digits), "target": round(reference * share, digits)}
    return {"metric": metric, "unit": unit, **bounds}


def saved(path: Path, model: onnx.ModelProto, *, deterministic: bool = False) -> dict[str, Any]:
    """Write a graph; returns its file name, SHA-256 and size in bytes."""
    path.write_bytes(model.SerializeToString(deterministic=deterministic))
    return graph_facts(path)


def graph_facts(path: Path) -> dict[str, Any]:
    """File name, SHA-256 and size in bytes of a graph."""
    return {"file": path.name, "sha256": sha256(path), "bytes": path.stat().st_size}


def write_facts(out: Path, facts: Mapping[str, Any], name: str = MODEL_FACTS) -> dict[str, Any]:
    """Write model.json, or another file of facts, into ``out``; return its contents."""
    (out / name).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return dict(facts)
