"""Answering LoadGen from arrays and response objects that are allocated once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Completer:
    """Answers batches out of ``results``, an array of ``capacity`` rows.

    Response ``k`` points to row ``k`` for ever, so that answering a batch sets nothing but the
    query ids. LoadGen copies the data inside its Complete call, so the rows may be written again
    as soon as that returns. ``loadgen`` is the module, so that tests can listen in.
    """

    def __init__(
        self, loadgen: Any, capacity: int, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self._complete = loadgen.QuerySamplesComplete
        self._response = loadgen.QuerySampleResponse
        self.capacity = capacity
        self.results = np.zeros((capacity, *shape), dtype=dtype)
        base, size = self.results.ctypes.data, self.results.strides[0]
        self._responses = [self._response(0, base + k * size, size) for k in range(capacity)]

    def answer(self, ids: Sequence[int]) -> None:
        """Answer these queries with the first rows of ``results``, in order."""
        responses = self._responses[: len(ids)]
        for response, query in zip(responses, ids, strict=True):
            response.id = query
        self._complete(responses)

    def answer_empty(self, ids: Sequence[int]) -> None:
        """Answer without data: what a failed query gets, so that LoadGen does not wait for it."""
        self._complete([self._response(query, 0, 0) for query in ids])
