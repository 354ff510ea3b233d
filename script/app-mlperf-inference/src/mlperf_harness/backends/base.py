"""What a backend is: it opens a model file and answers batches, and knows no benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, TensorSpec

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]


class Predictor(Protocol):
    """One caller's way to the model; used by one thread at a time.

    Samples of different lengths, such as texts, are best filled up to a multiple of
    ``length_step``: fewer shapes are met, and wide registers are full.
    """

    length_step: int = 8

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """The asked outputs for a batch; the arrays belong to the caller."""


class Backend(Protocol):
    """A runtime on a device."""

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], callers: int, threads: int
    ) -> list[Predictor]:
        """One predictor for each of ``callers``, with ``threads`` threads each.

        Raises HarnessError when the model cannot be opened, has another signature than its
        specification says, or would not run on the asked device.
        """

    def versions(self) -> dict[str, str]:
        """Versions of the libraries that do the work."""


def check_signature(kind: str, wanted: Sequence[TensorSpec], found: Sequence[TensorSpec]) -> None:
    """Compare tensors by name; a size of -1 in either fits every size."""
    by_name = {tensor.name: tensor for tensor in found}
    for tensor in wanted:
        real = by_name.get(tensor.name)
        if real is None:
            names = ", ".join(by_name) or "none"
            text = f"the model has no {kind} {tensor.name}; its {kind}s are: {names}"
            raise HarnessError(text, OTHER_MODEL)
        if real.dtype != tensor.dtype or not _fits(tensor.shape, real.shape):
            raise HarnessError(
                f"{kind} {tensor.name} of the model is {describe(real)}, "
                f"but {describe(tensor)} is needed",
                OTHER_MODEL,
            )


def _fits(wanted: tuple[int, ...], found: tuple[int, ...]) -> bool:
    return len(wanted) == len(found) and all(
        -1 in (need, size) or size == need for need, size in zip(wanted, found, strict=True)
    )


def describe(tensor: TensorSpec) -> str:
    """A tensor for a message, such as ``float32 [N, 3, 28, 28]``."""
    sizes = ", ".join(["N", *("?" if size == -1 else str(size) for size in tensor.shape)])
    return f"{tensor.dtype} [{sizes}]"


def empty_batch(tensors: Sequence[TensorSpec], count: int) -> dict[str, Array]:
    """Zeros for every tensor, ``count`` samples long; a size that is not fixed is 1."""
    return {
        t.name: np.zeros((count, *(max(1, size) for size in t.shape)), dtype=t.dtype)
        for t in tensors
    }
