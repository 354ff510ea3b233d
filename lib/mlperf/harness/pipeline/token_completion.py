"""Answering LoadGen with tokens: the first of each sample once, then all of them with their number.

Without the first one LoadGen 6.0 ends SingleStream with SIGSEGV, and calls Server VALID with a
time to the first token of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.generation import LEAST_TOKENS, TOKEN, AnswerStream
from ..benchmarks.base import Result, StreamingSolver
from ..errors import HarnessError
from .batcher import SampleBatch
from .completion import Completer
from .failures import Failures
from .time_spent import WorkerClock
from .workers import BatchWorker


class TokenCompleter(Completer):
    """Answers the samples of one batch after the other, each when it is complete.

    It is the ``AnswerListener`` of its batch. ``loadgen`` is the module, as in ``Completer``.
    """

    def __init__(self, loadgen: Any, capacity: int, result: Result) -> None:
        super().__init__(loadgen, capacity, result)
        self._begin = loadgen.FirstTokenComplete
        base, step = self.results.ctypes.data, result.row_bytes
        rows = range(capacity)
        self._first = [self._response(0, base + k * step, TOKEN.itemsize) for k in rows]
        self._whole = [self._response(0, base + k * step, step, LEAST_TOKENS) for k in rows]
        self._ids: Sequence[int] = ()
        self._begun: set[int] = set()
        self._ended: set[int] = set()

    def take(self, ids: Sequence[int]) -> None:
        """Listen to the answers of these queries from now on."""
        self._ids = ids
        self._begun = set()
        self._ended = set()

    def begin(self, rows: Sequence[int]) -> None:
        """Report first tokens; raises HarnessError for a row that had one."""
        _add(self._begun, rows, "the first token of an answer came twice")
        responses = [self._first[row] for row in rows]
        for response, row in zip(responses, rows, strict=True):
            response.id = self._ids[row]
        self._begin(responses)

    def end(self, rows: Sequence[int]) -> None:
        """Answer these rows; raises HarnessError for one without a first token, or answered."""
        if not self._begun.issuperset(rows):
            raise HarnessError("an answer ended before its first token came")
        _add(self._ended, rows, "an answer ended twice")
        responses = [self._whole[row] for row in rows]
        for response, row in zip(responses, rows, strict=True):
            size = int(self.sizes[row])
            response.id, response.size = self._ids[row], size
            response.n_tokens = size // TOKEN.itemsize
        self._complete(responses)

    def require_all(self) -> None:
        """Raise HarnessError where an answer of the batch has not ended."""
        if missing := len(self._ids) - len(self._ended):
            raise HarnessError(f"{missing} of {len(self._ids)} answers did not come to their end")

    def answer_empty(self, ids: Sequence[int]) -> None:
        """Answer what is left of a batch without data; LoadGen needs first tokens there too."""
        if ids is not self._ids:
            self.take(ids)
        unbegun = [row for row in range(len(ids)) if row not in self._begun]
        left = [row for row in range(len(ids)) if row not in self._ended]
        self._begin([self._response(ids[row], 0, 0) for row in unbegun])
        self._complete([self._response(ids[row], 0, 0, LEAST_TOKENS) for row in left])
        self._begun.update(unbegun)
        self._ended.update(left)


def _add(rows: set[int], more: Sequence[int], text: str) -> None:
    before = len(rows)
    rows.update(more)
    if len(rows) != before + len(more):
        raise HarnessError(text)


class TokenWorker(BatchWorker):
    """Answers every sample of a batch by itself, when its last token is there."""

    def __init__(
        self,
        solver: StreamingSolver,
        completer: TokenCompleter,
        failures: Failures,
        first_is_timed: bool,
        clock: WorkerClock | None = None,
    ) -> None:
        super().__init__(solver, completer, failures, clock)
        self._streaming, self._listener = solver, completer
        self._first_is_timed = first_is_timed

    def answer(self, batch: SampleBatch) -> None:
        """See ``BatchWorker``."""
        listener, count = self._listener, len(batch.ids)
        listener.take(batch.ids)
        rows, sizes = listener.results[:count], listener.sizes[:count]
        stream = AnswerStream(batch.indices, rows, sizes, listener, self._first_is_timed)
        self._streaming.stream(batch.indices, stream)
        listener.require_all()
