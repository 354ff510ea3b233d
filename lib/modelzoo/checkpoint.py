"""Weights out of published checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelzoo.program import ProgramError


def pytorch_weights(path: Path) -> dict[str, Any]:
    """Return the tensors of a file of PyTorch by name; raise ProgramError for another file.

    Only numbers are read, no code in the file is run. Newer files are mapped into memory.
    """
    import torch

    failure: Exception | None = None
    for mapped in (True, False):
        try:
            loaded = torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
            break
        except Exception as error:  # whatever unpickling meets
            failure = error
    else:
        reason = (str(failure).strip().splitlines() or ["no reason given"])[0]
        raise ProgramError(f"{path} is not a file of PyTorch's weights: {reason}") from failure
    state = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else {}
    return {str(n): value for n, value in state.items() if isinstance(value, torch.Tensor)}


def check_names(names: Collection[str], expected: Collection[str]) -> None:
    """Raise ProgramError unless the weights are those of the network, by their names."""
    lacking = [name for name in expected if name not in names]
    unknown = sorted(set(names) - set(expected))
    if lacking:
        raise ProgramError(f"no {lacking[0]} in it ({len(lacking)} weights are missing)")
    if unknown:
        raise ProgramError(f"the network has no {unknown[0]} ({len(unknown)} are unknown)")


def check_shape(name: str, shape: Sequence[int], expected: Sequence[int]) -> None:
    """Raise ProgramError unless the weight ``name`` has the shape that the network needs."""
    if tuple(shape) != tuple(expected):
        raise ProgramError(f"{name} is {list(shape)}, expected {list(expected)}")


def check_shapes(
    shapes: Mapping[str, Sequence[int]], expected: Mapping[str, Sequence[int]]
) -> None:
    """Raise ProgramError unless names and shapes of the weights are those of the network."""
    check_names(shapes, expected)
    for name, shape in expected.items():
        check_shape(name, shapes[name], shape)
