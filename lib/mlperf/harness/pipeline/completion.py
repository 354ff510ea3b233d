"""Answering LoadGen from arrays and response objects that are allocated once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..benchmarks.base import Result


class Completer:
    """Answers batches out of ``results``, an array of ``capacity`` rows.

    Response ``k`` points to row ``k`` for ever, so that answering a batch sets nothing but the
    query ids. LoadGen copies the data inside its Complete call, so the rows may be written again
    as soon as that returns. ``sizes`` [capacity] says how many bytes of every row are the answer,
    for results that vary in size. ``loadgen`` is the module, so that tests can listen in.
    """

    def __init__(self, loadgen: Any, capacity: int, result: Result) -> None:
        self._complete = loadgen.QuerySamplesComplete
        self._response = loadgen.QuerySampleResponse
        self.capacity = capacity
        self.results = result.rows(capacity)
        self._variable = result.variable
        self._counted = result.counted
        base, size = self.results.ctypes.data, result.row_bytes
        self.sizes = np.full(capacity, size, dtype=np.int64)
        self._responses = [self._response(0, base + k * size, size) for k in range(capacity)]

    def answer(self, ids: Sequence[int]) -> None:
        """Answer these queries with the first rows of ``results``, in order."""
        responses = self._responses[: len(ids)]
        for response, query in zip(responses, ids, strict=True):
            response.id = query
        if self._variable:
            for response, size in zip(responses, self.sizes.tolist(), strict=False):
                response.size = size
        if self._counted:
            counts = self.results[: len(ids), -1].tolist()
            for response, count in zip(responses, counts, strict=True):
                response.n_tokens = count
        self._complete(responses)

    def answer_empty(self, ids: Sequence[int]) -> None:
        """Answer without data: what a failed query gets, so that LoadGen does not wait for it."""
        self._complete([self._response(query, 0, 0) for query in ids])
