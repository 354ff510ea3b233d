"""Giving memory back that a runtime has taken while it opened a model, and needs no more."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..settings import GraphSpec

MAPS = Path("/proc/self/maps")
LOOK_S = 0.02

# The first address of a mapping, and that behind it.
Place = tuple[int, int]


class MappedPages:
    """The pages of a file that a runtime has mapped for ``owner`` between two looks.

    ``owner`` is held, so that nothing else can ever lie where they do.
    """

    def __init__(self, owner: object, before: set[Place], after: set[Place]) -> None:
        # The parts of two mappings of a file cannot be told apart.
        self._places = set() if before else after
        self._owner = owner if self._places else None

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """Keep none of them for long, while they are read: they come out of the page cache."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(LOOK_S):
                _let_go(self._places)

        thread = threading.Thread(target=watch, name="sparing", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            _let_go(self._places)


def settle(graphs: Sequence[GraphSpec]) -> None:
    """Give back the pages of these models' files, and what the C library keeps of freed memory.

    A runtime maps the weights and copies them into the layout that its kernels want. The pages
    that it has read stay in the process until somebody says otherwise, and the model counts twice.
    Later reads come from the page cache.

    Only to be called while no runtime works: one that lets go of a mapping at that moment could
    get its next memory at that address, and lose its content.
    """
    give_back({str(Path(graph.path).resolve()) for graph in graphs})
    trim()


def give_back(files: Iterable[str]) -> None:
    """Let go of all pages of these mapped files; see ``settle`` for when."""
    _let_go(mapped(files))


def mapped(files: Iterable[str]) -> set[Place]:
    """Where these files are mapped, as far as nothing can have been written there."""
    try:
        lines = MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()  # not Linux
    wanted, regions = set(files), set()
    for line in lines:
        place, rights, *_, path = line.split(maxsplit=5)
        if path in wanted and "w" not in rights:
            start, _, end = place.partition("-")
            regions.add((int(start, 16), int(end, 16)))
    return regions


def _let_go(places: Iterable[Place]) -> None:
    library = ctypes.CDLL(None)
    for start, end in places:
        library.madvise(
            ctypes.c_void_p(start), ctypes.c_size_t(end - start), ctypes.c_int(mmap.MADV_DONTNEED)
        )


def trim() -> None:
    """Give freed memory back to the system, where the C library can do that."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)
