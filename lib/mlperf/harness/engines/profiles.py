"""Which shapes an engine is built for: the least, the usual and the greatest of every input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import HarnessError

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Span:
    """The least, the usual and the greatest size of one dimension."""

    least: int
    usual: int
    greatest: int

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.usual <= self.greatest or not self.greatest:
            raise HarnessError(
                f"{self.least}:{self.usual}:{self.greatest} is not a range of sizes",
                "give LEAST:USUAL:GREATEST, each no less than the one before, or one number",
            )


@dataclass(frozen=True, slots=True)
class OpenInput:
    """An input of a graph: -1 where a size is open, and the names of its dimensions."""

    name: str
    shape: tuple[int, ...]
    dimensions: tuple[str, ...]


def span(text: str) -> Span:
    """Return a range from ``1:8:16``, or one size; raises HarnessError for anything else."""
    words = text.split(":")
    if len(words) not in (1, 3) or not all(word.isdigit() for word in words):
        advice = "give LEAST:USUAL:GREATEST or one number, as 1:8:16"
        raise HarnessError(f"{text} is not a range of sizes", advice)
    numbers = [int(word) for word in words]
    return Span(*numbers) if len(numbers) == 3 else Span(numbers[0], numbers[0], numbers[0])


def lengths(text: str) -> dict[str, Span]:
    """Ranges by name from ``1:128:384`` (the name "": all others) or ``past=0:64:128,total=...``.

    Raises HarnessError for anything else.
    """
    pairs = [word.rpartition("=") for word in text.split(",") if word]
    return {name.strip(): span(size) for name, _, size in pairs}


def of_graph(
    inputs: Sequence[OpenInput], batch: Span, others: Mapping[str, Span]
) -> dict[str, Shapes]:
    """For every input with open sizes its least, usual and greatest shape.

    Sizes of one name are one size. The batch is what the first dimension of the first input is
    called. ``others`` has ranges by the name of a dimension, or of an input; "" is for the rest.
    Raises HarnessError where an open size has no range.
    """
    first = next((tensor for tensor in inputs if tensor.shape), None)
    named = first.dimensions[0] if first and first.shape[0] == -1 else ""
    return {
        tensor.name: _shapes(
            [_of(tensor, n, named, batch, others) for n in range(len(tensor.shape))]
        )
        for tensor in inputs
        if -1 in tensor.shape
    }


def _shapes(spans: Sequence[Span]) -> Shapes:
    return (
        tuple(s.least for s in spans),
        tuple(s.usual for s in spans),
        tuple(s.greatest for s in spans),
    )


def _of(tensor: OpenInput, axis: int, named: str, batch: Span, others: Mapping[str, Span]) -> Span:
    size, dimension = tensor.shape[axis], tensor.dimensions[axis]
    if size != -1:
        return Span(size, size, size)
    span = (others.get(dimension) if dimension else None) or others.get(tensor.name)
    if span is not None:
        return span
    if (dimension == named) if named and dimension else axis == 0:
        return batch
    if "" in others:
        return others[""]
    raise HarnessError(
        f"dimension {axis} ({dimension or 'without a name'}) of the input {tensor.name} is open",
        f"say what it may be: --lengths={dimension or tensor.name}=1:128:384",
    )
