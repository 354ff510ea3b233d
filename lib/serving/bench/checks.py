"""Whether answers are right: names, types, shapes, finite values, and those of a golden file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from serving.kserve import FLOATS, TensorInfo, WireTensor

Signature = tuple[tuple[str, str, tuple[int, ...]], ...]


def signature(outputs: Mapping[str, WireTensor]) -> Signature:
    """Names, types and shapes: what every answer to the same request has in common."""
    return tuple((name, each.datatype, each.shape) for name, each in outputs.items())


def describe_problems(
    outputs: Mapping[str, WireTensor], infos: Sequence[TensorInfo], batch: int | None
) -> list[str]:
    """Return where an answer differs from what the model promises; ``batch`` where it has one."""
    problems = [text for info in infos for text in _problem(outputs.get(info.name), info, batch)]
    known = {info.name for info in infos}
    return problems + [
        f"{name} is not an output of the model" for name in outputs if name not in known
    ]


def _problem(tensor: WireTensor | None, info: TensorInfo, batch: int | None) -> Iterator[str]:
    wanted = list(info.shape)
    if batch is not None and wanted:
        wanted[0] = batch
    if tensor is None:
        yield f"the output {info.name} is missing"
    elif tensor.datatype != info.datatype:
        yield f"{info.name} is {tensor.datatype}, not {info.datatype}"
    elif not fits(wanted, tensor.shape):
        yield f"{info.name} has the shape {list(tensor.shape)}, not {wanted}"
    elif not finite(tensor):
        yield f"{info.name} has values that are no finite numbers"


def fits(wanted: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether a shape is the wanted one; -1 there is any length."""
    return len(wanted) == len(shape) and all(
        a in (-1, b) for a, b in zip(wanted, shape, strict=True)
    )


def finite(tensor: WireTensor) -> bool:
    """Return whether no value is NaN or infinite."""
    if tensor.datatype not in FLOATS:
        return True
    try:
        import numpy as np
    except ImportError:
        return all(map(math.isfinite, tensor.values()))
    return bool(np.isfinite(tensor.array()).all())


def differences(
    outputs: Mapping[str, WireTensor], golden: Mapping[str, WireTensor], tolerance: float
) -> list[str]:
    """Where outputs are not the golden ones: further than ``tolerance``, absolute and relative."""
    problems = []
    for name, right in golden.items():
        tensor = outputs.get(name)
        if tensor is None:
            problems.append(f"the golden output {name} is missing")
        elif tensor.shape != right.shape:
            problems.append(
                f"{name} has the shape {list(tensor.shape)}, golden {list(right.shape)}"
            )
        else:
            problems += _furthest(name, tensor.values(), right.values(), tolerance)
    return problems


def _furthest(name: str, are: Sequence[Any], right: Sequence[Any], tolerance: float) -> list[str]:
    worst, place = -1.0, 0
    for index, (one, other) in enumerate(zip(are, right, strict=True)):
        if one == other:
            continue
        if isinstance(one, bytes) or not math.isfinite(one):
            return [f"{name} is {one!r} at {index}, golden {other!r}"]
        excess = abs(one - other) / max(1.0, abs(other))
        if excess > worst or math.isnan(excess):
            worst, place = excess, index
    if worst <= tolerance:
        return []
    return [
        f"{name} is {are[place]!r} at {place}, golden {right[place]!r}: further than {tolerance:g}"
    ]
