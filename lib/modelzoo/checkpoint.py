"""Weights out of published checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelzoo.program import ProgramError


def pytorch_weights(path: Path) -> dict[str, Any]:
    """The tensors of a file that PyTorch has saved, by name; ProgramError for another file.

    Only numbers are read, no code in the file is run. Newer files are mapped into memory.
    """
    import torch

    failure: Exception | None = None
    for mapped in (True, False):
        try:
            found = torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
            break
        except Exception as error:  # whatever unpickling meets
            failure = error
    else:
        reason = (str(failure).strip().splitlines() or ["no reason given"])[0]
        raise ProgramError(f"{path} is not a file of PyTorch's weights: {reason}") from failure
    state = found.get("state_dict", found) if isinstance(found, dict) else {}
    return {str(n): value for n, value in state.items() if isinstance(value, torch.Tensor)}


def check_names(found: Collection[str], expected: Collection[str]) -> None:
    """Raise ProgramError unless the weights are those of the network, by their names."""
    lacking = [name for name in expected if name not in found]
    unknown = sorted(set(found) - set(expected))
    if lacking:
        raise ProgramError(f"no {lacking[0]} in it ({len(lacking)} weights are missing)")
    if unknown:
        raise ProgramError(f"the network has no {unknown[0]} ({len(unknown)} are unknown)")


def check_shape(name: str, found: Sequence[int], expected: Sequence[int]) -> None:
    """Raise ProgramError unless the weight ``name`` has the shape that the network needs."""
    if tuple(found) != tuple(expected):
        raise ProgramError(f"{name} is {list(found)}, expected {list(expected)}")


def check_shapes(found: Mapping[str, Sequence[int]], expected: Mapping[str, Sequence[int]]) -> None:
    """Raise ProgramError unless the weights are those of the network, each in its shape."""
    check_names(found, expected)
    for name, shape in expected.items():
        check_shape(name, found[name], shape)
