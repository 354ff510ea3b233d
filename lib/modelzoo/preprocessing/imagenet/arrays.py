"""One large array that several processes fill, and that an interrupted run is gone on with."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.files import replace_text
from modelzoo.files import check_disk
from modelzoo.program import ProgramError
from modelzoo.progress import Progress

SAMPLES = "samples.npy"
STATE = "unfinished.json"
# Samples of one chunk; the most that an interruption costs per process.
CHUNK = 32
# Bytes kept free on the disk in addition to the array.
MARGIN = 1 << 28

Sample = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SampleChunk:
    """Fill the rows of the array from ``begin`` on with ``make(item)`` of all ``items``."""

    path: Path
    begin: int
    items: tuple[Any, ...]
    make: Callable[[Any], Sample]

    def fill(self) -> int:
        """Do it; returns ``begin``."""
        rows = np.lib.format.open_memmap(self.path, mode="r+")
        for row, item in enumerate(self.items, start=self.begin):
            rows[row] = self.make(item)
        rows.flush()
        return self.begin


def fill(
    folder: Path,
    shape: tuple[int, ...],
    items: Sequence[Any],
    make: Callable[[Any], Sample],
    recipe: str,
    processes: int,
) -> int:
    """Write samples.npy float32 [len(items), *shape] into ``folder``; returns how many were there.

    Samples of an earlier run of the same ``recipe`` that was interrupted are kept. ``make`` and
    ``items`` go to other processes where there are several. Raises ProgramError,
    OSError, and what ``make`` raises.
    """
    path = folder / SAMPLES
    done = _begun(folder, recipe, (len(items), *shape))
    if done is None:
        _room(folder, 4 * len(items) * int(np.prod(shape)))
        _remember(folder, recipe, done := set())
        _reserve(path, (len(items), *shape))
    pieces = [
        SampleChunk(path, begin, tuple(items[begin : begin + CHUNK]), make)
        for begin in range(0, len(items), CHUNK)
        if begin not in done
    ]
    kept = len(items) - sum(len(piece.items) for piece in pieces)
    progress = Progress("images", len(items), "images", kept)
    with _pool(processes, len(pieces)) as pool:
        for begin in _finished(pieces, pool):
            done.add(begin)
            _remember(folder, recipe, done)
            progress.more(min(CHUNK, len(items) - begin))
    return kept


def complete(folder: Path) -> None:
    """Nothing of the array in ``folder`` is unfinished any more."""
    (folder / STATE).unlink(missing_ok=True)


def _begun(folder: Path, recipe: str, shape: tuple[int, ...]) -> set[int] | None:
    """Return the finished chunks of an interrupted run; None when it cannot be resumed."""
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        samples = np.lib.format.open_memmap(folder / SAMPLES, mode="r")
        same = state["recipe"] == recipe and state["chunk"] == CHUNK and samples.shape == shape
        return set(state["done"]) if same and samples.dtype == np.float32 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(folder: Path, recipe: str, done: set[int]) -> None:
    state = {"recipe": recipe, "chunk": CHUNK, "done": sorted(done)}
    replace_text(folder / STATE, json.dumps(state))


def _room(folder: Path, needed: int) -> None:
    # What an earlier array of another recipe takes up is given back by writing over it.
    array = folder / SAMPLES
    old = array.stat().st_size if array.is_file() else 0
    advice = "ask for fewer images (_size.500), or name a folder of a larger disk: --store=FOLDER"
    check_disk(folder, needed, margin=MARGIN, advice=advice, old=old)


def _reserve(path: Path, shape: tuple[int, ...]) -> None:
    """Write an array of zeros to ``path``, and reserve its space on the disk.

    Without the reservation, a full disk ends a process that writes to the array with no message.
    """
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape).flush()
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


@contextmanager
def _pool(processes: int, pieces: int) -> Iterator[Executor | None]:
    """As many processes as are of use; None where this one does the work."""
    count = min(processes, pieces)
    if count < 2:
        yield None
        return
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_serve)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise ProgramError(
            "a process that preprocesses images has ended without a word: the memory may have "
            "run out; what is done so far is kept"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _serve() -> None:
    """Live as long as the process that one works for, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    # A killed process cannot stop the others: they would wait for work forever.
    connection.wait([sentinel])
    os._exit(1)


def _finished(pieces: Sequence[SampleChunk], pool: Executor | None) -> Iterator[int]:
    if pool is None:
        yield from (piece.fill() for piece in pieces)
        return
    jobs: list[Future[int]] = [pool.submit(piece.fill) for piece in pieces]
    for job in as_completed(jobs):
        yield job.result()
