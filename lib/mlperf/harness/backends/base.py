"""What a backend is: it opens a model file and answers batches, and knows no benchmark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import OTHER_MODEL, HarnessError
from ..jobs import DeviceTime
from ..settings import GraphSpec, ModelSpec, Setup, TensorSpec

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]
# Workers, and threads of each.
Layout = tuple[int, int]


class Predictor(ABC):
    """One worker's way to the model: one request in flight, used by one thread at a time.

    Samples of different lengths, such as texts, are best filled up to a multiple of
    ``length_step``: fewer shapes are met, and wide registers are full.
    """

    length_step: int = 8
    # Whether each thread that calls it costs more: a runtime may keep threads for every caller.
    few_callers: bool = False

    @abstractmethod
    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """Return the requested outputs of a batch, valid until the next call.

        ``feeds`` holds each input as [batch, *shape]. An input may lie in memory that ``buffer``
        gave, or anywhere else: then a backend that needs its own memory copies it.
        """

    def buffer(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """Memory of ``shape`` for inputs, as the backend wants it (page-locked, shared).

        It is written only while no ``predict`` is going on.
        """
        return np.empty(tuple(shape), dtype)

    def device_time(self) -> DeviceTime | None:
        """Return how long the device copied and computed in timed calls; None where not known."""
        return None


class Backend(ABC):
    """A runtime on a device. All but ``open`` and ``versions`` have defaults for a processor.

    ``largest_batch`` is the most samples of a batch that are worth trying. ``library_bytes`` is
    what a process takes besides weights and samples: Python, the libraries, LoadGen and buffers
    (measured on Linux, as the most that a process had, with models of 0.1 and 1.3 GB).
    """

    largest_batch = 64
    # Whether predictors prepare for the shapes of inputs, see ``preparing``.
    prepares = False
    # Whether queries of the Server scenario may go through the model together here.
    joins_queries = True
    library_bytes = 300_000_000

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @abstractmethod
    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """One predictor for each of ``workers`` workers, with ``threads`` threads each.

        Raises HarnessError when the model cannot be opened, has another signature than its
        specification says, or would not run on the requested device.
        """

    def open_fixed(
        self,
        graph: GraphSpec,
        outputs: Sequence[str],
        workers: int,
        threads: int,
        batch: int,
    ) -> Sequence[Predictor]:
        """Like ``open``, for batches of ``batch`` samples and now and then a shorter one.

        For a runtime that computes faster when it knows the shape beforehand.
        """
        return self.open(graph, outputs, workers, threads)

    def has_room(self) -> bool:
        """Return whether a batch twice as large as any since ``open`` fits into the device."""
        return True

    def preparing(self) -> AbstractContextManager[None]:
        """Let predictors prepare for the shapes with which the calling thread calls them.

        It is the thread that calls them later; others that prepare wait.
        """
        return nullcontext()

    def place_of(self, worker: int) -> str:
        """Return the accelerator of a worker by its number; empty where all have the same."""
        return ""

    def computed_by(self) -> dict[str, str]:
        """Return how the models that are open are computed, for the result; empty as a rule."""
        return {}

    def weight_bytes(self, model: ModelSpec) -> int:
        """Return the bytes of a model's weights once they are open, on whichever device."""
        return model.stored_bytes()

    def work_bytes(self, own: int) -> int:
        """Return the bytes that a sample in work takes, where its benchmark says ``own``."""
        return own

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the libraries, drivers and servers that do the work, by name."""

    def device_facts(self) -> dict[str, str]:
        """Return facts that identify the device: name, driver, abilities; nothing that changes.

        Facts of the host stand in every result anyway: the CPU backends add none.
        """
        return {}

    def build(self, graph: GraphSpec, folder: Path) -> GraphSpec:
        """Make in ``folder`` what ``open`` takes for ``graph``: an engine, a compiled model.

        Called once, before anything is measured, where the specification says ``builds``.
        Raises HarnessError when the model cannot be built.
        """
        return graph

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """Return the layouts to try on ``cores``; ``workers`` and ``threads`` may be fixed."""
        if workers and threads:
            return [(workers, threads)]
        if threads:
            return [(max(1, cores // threads), threads)]
        if workers:
            return [(workers, max(1, cores // workers))]
        counts = [1, cores] if cores < 8 else [1, 2, 4, cores]
        return [(max(1, cores // count), count) for count in dict.fromkeys(counts)]

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """Return the numbers of threads to try for one query at a time, the largest first."""
        return (cores, 1) if cores > 1 else (1,)

    def copies(self, workers: int, threads: int) -> int:
        """How often the weights lie in host memory: workers of one thread share them."""
        return workers if threads > 1 else 1


def check_signature(
    kind: str, expected: Sequence[TensorSpec], actual: Sequence[TensorSpec]
) -> None:
    """Compare tensors by name; a size of -1 in either fits every size.

    Raises HarnessError where they differ.
    """
    by_name = {tensor.name: tensor for tensor in actual}
    for tensor in expected:
        real = by_name.get(tensor.name)
        if real is None:
            names = ", ".join(by_name) or "none"
            text = f"the model has no {kind} {tensor.name}; its {kind}s are: {names}"
            raise HarnessError(text, OTHER_MODEL)
        if real.dtype != tensor.dtype or not fits(tensor.shape, real.shape):
            raise HarnessError(
                f"{kind} {tensor.name} of the model is {describe(real)}, "
                f"but {describe(tensor)} is needed",
                OTHER_MODEL,
            )


def fits(expected: tuple[int, ...], actual: tuple[int, ...]) -> bool:
    """Return whether two shapes are alike, where a size of -1 in either is any size."""
    return len(expected) == len(actual) and all(
        -1 in (need, size) or size == need for need, size in zip(expected, actual, strict=True)
    )


def describe(tensor: TensorSpec) -> str:
    """Return a tensor for a message, such as ``float32 [N, 3, 28, 28]``."""
    sizes = ", ".join(["N", *("?" if size == -1 else str(size) for size in tensor.shape)])
    return f"{tensor.dtype} [{sizes}]"


def empty_batch(tensors: Sequence[TensorSpec], count: int) -> dict[str, Array]:
    """Zeros [count, *shape of a sample] for every tensor; a size that is not fixed is 1."""
    return {
        t.name: np.zeros((count, *(max(1, size) for size in t.shape)), dtype=t.dtype)
        for t in tensors
    }
