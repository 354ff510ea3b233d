"""Samples of one array, loaded as one contiguous block in LoadGen's order."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..settings import TensorSpec
from .base import Array

Samples = Sequence[Mapping[str, Array]]

# So much of a file is in memory twice while it is copied.
STEP_BYTES = 1 << 24


def copy_rows(source: Array, rows: Array) -> Array:
    """Return a copy of these rows of a (memory-mapped) array; the pages of the file are given back.

    They count as memory of the process as long as they are mapped, as the copy does.
    """
    copies = np.empty((len(rows), *source.shape[1:]), source.dtype)
    step = max(1, STEP_BYTES * len(copies) // max(1, copies.nbytes))
    for start in range(0, len(rows), step):
        copies[start : start + step] = source[rows[start : start + step]]
        _give_back(source)
    return copies


def cut_out(source: Array, start: int, end: int) -> Array:
    """Return a copy of ``source[start:end]``, as ``taken`` makes it."""
    copy = np.array(source[start:end])
    _give_back(source)
    return copy


def _give_back(source: Array) -> None:
    if isinstance(source.base, mmap.mmap):
        source.base.madvise(mmap.MADV_DONTNEED)


class LoadedSamples(Protocol):
    """Loaded samples; see the methods of ``base.Benchmark``."""

    tensors: tuple[TensorSpec, ...]

    def load(self, indices: Sequence[int]) -> None:
        """Bring these samples into memory."""

    def unload(self) -> None:
        """Forget all of them."""

    def gathered(self, indices: Sequence[int] | Array) -> Iterator[Mapping[str, Array]]:
        """Return these samples [n, *shape] in their order; raises IndexError for one not loaded."""

    def hold(self, indices: Sequence[int] | Array, samples: Samples) -> None:
        """Have these samples [n, *shape] instead of all others."""


Kind = TypeVar("Kind", bound=LoadedSamples)


class StoreBackedBenchmark(Generic[Kind]):
    """The part of a benchmark that its store does."""

    store: Kind

    @property
    def sample_tensors(self) -> tuple[TensorSpec, ...]:
        """See ``base.Benchmark``."""
        return self.store.tensors

    def load(self, indices: Sequence[int]) -> None:
        """See ``base.Benchmark``."""
        self.store.load(indices)

    def unload(self) -> None:
        """See ``base.Benchmark``."""
        self.store.unload()

    def gathered(self, indices: Sequence[int] | Array) -> Iterator[Mapping[str, Array]]:
        """See ``base.Benchmark``."""
        return self.store.gathered(indices)

    def hold(self, indices: Sequence[int] | Array, samples: Samples) -> None:
        """See ``base.Benchmark``."""
        self.store.hold(indices, samples)


class LoadedRows:
    """In which rows of a block the loaded samples lie, out of ``count`` samples."""

    def __init__(self, count: int) -> None:
        self._row_of = np.full(count, -1, dtype=np.int64)
        self._held: Array = np.zeros(0, dtype=np.int64)

    def fill(self, indices: Array) -> None:
        """Number these samples; an index that comes twice (MultiStream) keeps its first row."""
        self._row_of[indices[::-1]] = np.arange(len(indices))[::-1]

    def clear(self) -> None:
        """Forget the loaded samples."""
        self._row_of.fill(-1)

    def replace(self, indices: Sequence[int] | Array) -> None:
        """Number these samples instead of those of the last call."""
        self._row_of[self._held] = -1
        self._held = np.asarray(indices, dtype=np.int64)
        self._row_of[self._held] = np.arange(len(self._held))

    def rows(self, indices: Sequence[int] | Array) -> npt.NDArray[np.int64]:
        """Return the rows [n] in which these n samples lie; IndexError when one was not loaded."""
        rows = self._row_of[np.asarray(indices, dtype=np.int64)]
        if rows.size and rows.min() < 0:
            raise _never_loaded(np.asarray(indices)[rows < 0][0])
        return rows

    def row(self, index: int) -> int:
        """Return the row of one sample, as ``rows`` does without arrays: a microsecond less."""
        row: int = self._row_of.item(index)
        if row < 0:
            raise _never_loaded(index)
        return row


class SampleStore(LoadedRows):
    """Copies the samples of a (memory-mapped) array that a run requests.

    LoadGen issues Offline samples in the order in which it had them loaded. Kept in that order,
    most batches are plain slices, which cost nothing to make.
    """

    def __init__(self, source: Array) -> None:
        super().__init__(len(source))
        self._source = source
        shape = tuple(map(int, source.shape[1:]))
        self.tensors: tuple[TensorSpec, ...] = (TensorSpec("sample", str(source.dtype), shape),)
        self.loaded: Array = source[:0]

    def load(self, indices: Sequence[int]) -> None:
        """Load these samples."""
        wanted = np.asarray(indices, dtype=np.int64)
        self.loaded = copy_rows(self._source, wanted)
        self.fill(wanted)

    def unload(self) -> None:
        """Forget the loaded samples."""
        self.clear()
        self.loaded = self._source[:0]

    def hold(self, indices: Sequence[int] | Array, samples: Samples) -> None:
        """Have these samples [n, *shape] instead of all others; one part is not copied."""
        parts = [part["sample"] for part in samples]
        self.replace(indices)
        self.loaded = parts[0] if len(parts) == 1 else np.concatenate(parts)

    def gathered(self, indices: Sequence[int] | Array) -> Iterator[Mapping[str, Array]]:
        """These samples [n, *shape] together: a view where the rows are in order, else a copy."""
        rows = self.rows(indices)
        in_order = bool((np.diff(rows) == 1).all())
        yield {"sample": self.loaded[rows[0] : rows[-1] + 1] if in_order else self.loaded[rows]}


def _never_loaded(index: int) -> IndexError:
    return IndexError(f"sample {index} was issued but never loaded")


class SampleReader:
    """Reads batches from a store: a view where the rows are in order, else a gathered copy.

    ``buffer`` [capacity, *sample_shape] is where the copies are made.
    """

    def __init__(self, store: SampleStore, buffer: Array) -> None:
        self._store = store
        self._buffer = buffer

    def read(self, indices: Sequence[int] | Array) -> Array:
        """Return the samples as [n, *sample_shape], valid until the next call."""
        count = len(indices)
        if count == 1:
            row = self._store.row(indices[0])
            return self._store.loaded[row : row + 1]
        rows = self._store.rows(indices)
        if bool((np.diff(rows) == 1).all()):
            return self._store.loaded[rows[0] : rows[0] + count]
        target = self._buffer[:count]
        np.take(self._store.loaded, rows, axis=0, out=target, mode="clip")
        return target


class SingleSamples:
    """Samples of several sizes, by number; ``read`` copies one that is as ``tensor``."""

    def __init__(self, tensor: TensorSpec, read: Callable[[int], Array]) -> None:
        self.tensors: tuple[TensorSpec, ...] = (tensor,)
        self._read = read
        self._loaded: dict[int, Array] = {}

    def load(self, indices: Sequence[int]) -> None:
        """Bring these samples into memory."""
        for index in map(int, indices):
            self._loaded[index] = self._read(index)

    def unload(self) -> None:
        """Forget the loaded samples."""
        self._loaded.clear()

    def gathered(self, indices: Sequence[int] | Array) -> Iterator[Mapping[str, Array]]:
        """These samples one by one, each [1, *shape]; raises IndexError for one not loaded."""
        yield from ({self.tensors[0].name: self.get(index)[None]} for index in indices)

    def hold(self, indices: Sequence[int] | Array, samples: Samples) -> None:
        """Have these samples [n, *shape] instead of all others."""
        single = [sample for part in samples for sample in part[self.tensors[0].name]]
        self._loaded = dict(zip(map(int, indices), single, strict=True))

    def get(self, index: int) -> Array:
        """One loaded sample [*shape]; raises IndexError for one that is not loaded."""
        sample = self._loaded.get(int(index))
        if sample is None:
            raise _never_loaded(index)
        return sample
