"""What a benchmark is: samples, the way into the model, the way out, and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..outcome import AccuracyFigure

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a benchmark's rules fix, as far as the harness must know it beforehand.

    ``loadgen_key`` is its name in LoadGen's mlperf.conf, ``server_limit_s`` the Server latency
    limit there, ``loaded_samples`` how many samples a performance run keeps in memory.
    """

    loadgen_key: str
    server_limit_s: float
    loaded_samples: int


class Inputs(Protocol):
    """Takes samples out of the loaded ones; one per caller, because it owns buffers."""

    def feeds(self, indices: Sequence[int] | Array) -> Mapping[str, Array]:
        """The model's inputs for these samples, valid until the next call."""


class Benchmark(Protocol):
    """One task on one data set with one model."""

    rules: Rules
    sample_count: int
    output_names: tuple[str, ...]
    result_dtype: np.dtype[Any]
    result_shape: tuple[int, ...]

    def load(self, indices: Sequence[int]) -> None:
        """Bring these samples into memory; the untimed part of a run."""

    def unload(self) -> None:
        """Let go of the loaded samples."""

    def inputs(self, capacity: int) -> Inputs:
        """A taker of at most ``capacity`` samples at a time."""

    def postprocess(self, outputs: Sequence[Array], results: Array) -> None:
        """Write what LoadGen logs for each sample into ``results`` [n, *result_shape]."""

    def accuracy(self, log: Path) -> AccuracyFigure:
        """The figure of a complete mlperf_log_accuracy.json; raises HarnessError otherwise."""
