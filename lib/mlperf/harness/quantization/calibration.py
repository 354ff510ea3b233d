"""What a model is fed while the ranges of its values are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ..backends import registry as backends
from ..backends.base import Array, Feeds, Predictor, empty_batch
from ..benchmarks.base import Benchmark
from ..host import usable_cores
from ..progress import ProgressWriter
from ..settings import FLOAT32, MAIN, GraphSpec, ModelSpec
from . import ranges

# Of a sample that takes many calls, which feed each other's answers on.
CALLS, CALLS_BYTES = 8, 1 << 30


class CalibrationFeeds:
    """The calls of the model that its ranges are taken from, and how many there were.

    ``samples`` gives per calibration sample what the model is fed in its calls.
    """

    def __init__(self, samples: Iterable[Sequence[dict[str, Array]]]) -> None:
        self._feeds = self._counted(samples)
        self._samples = self._calls = 0

    def _counted(self, samples: Iterable[Sequence[dict[str, Array]]]) -> Iterator[dict[str, Array]]:
        for calls in samples:
            self._samples += 1
            self._calls += len(calls)
            yield from calls

    def get_next(self) -> dict[str, Array] | None:
        """Return the inputs of the next call by name, each with its batch first; None at the end.

        The interface of ONNX Runtime's calibration.
        """
        return next(self._feeds, None)

    def describe(self) -> str:
        """Return the numbers in words; those of the calls where they are others."""
        samples = f"{self._samples} calibration samples"
        return samples if self._calls == self._samples else f"{self._calls} calls for {samples}"


def calls_of(
    benchmark: Benchmark, model: ModelSpec, samples: int, part: str = MAIN
) -> Iterator[Sequence[dict[str, Array]]]:
    """Inputs [1, ...] that the benchmark feeds a graph for each of the first samples, by call.

    A sample may take hundreds of calls, such as windows of a large volume: there are no more calls
    in all than samples are requested, evenly spread over the samples and the calls of each. Where
    what a graph answers is fed to it again, there are at most ``CALLS`` of every sample.
    """
    ranges.check_room(int(getattr(benchmark, "work_bytes", 0)))
    count = min(samples, benchmark.sample_count)
    graphs = {graph.name: graph for graph in model.graphs()}
    # Such a call is a whole prompt where those after it are a letter each.
    first = bool(getattr(benchmark, "feeds_back", False))
    answering: Callable[[GraphSpec, Sequence[str]], Predictor] = _opened if first else Zeros
    predictors = {name: answering(graph, benchmark.outputs[name]) for name, graph in graphs.items()}
    listener = Listener(predictors[part], CALLS if first else samples // count, first)
    solver = benchmark.solver({**predictors, part: listener}, 1)
    results, sizes = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    progress = ProgressWriter()
    for index in range(count):
        # One at a time: a hundred large images are gigabytes.
        benchmark.load([index])
        solver.solve([index], results, sizes)
        benchmark.unload()
        progress.report("calibration", index, count, "samples")
        yield listener.taken()


def _opened(graph: GraphSpec, outputs: Sequence[str]) -> Predictor:
    """Return the float graph itself, for answers that decide what is fed next."""
    runtime = backends.create("onnxruntime", "cpu", FLOAT32)
    (predictor,) = runtime.open(graph, outputs, 1, usable_cores())
    return predictor


class Zeros(Predictor):
    """Answers zeros, where no answer decides what is fed next."""

    def __init__(self, graph: GraphSpec, outputs: Sequence[str]) -> None:
        self._outputs = [t for name in outputs for t in graph.outputs if t.name == name]

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``backends.base.Predictor``."""
        count = len(next(iter(feeds.values())))
        return list(empty_batch(self._outputs, count).values())


class Listener(Predictor):
    """Keeps calls that are evenly spread over those of a sample, and answers what another does.

    ``most`` calls are returned, including the first with ``first``. Never more than
    twice as many are in memory, nor more than ``CALLS_BYTES`` of them but the first: when there
    are, every second one is forgotten, and from then on only every second one of before is kept.
    """

    def __init__(self, answers: Predictor, most: int, first: bool) -> None:
        self._answers = answers
        self._most = most
        self._first = first
        self._kept: list[dict[str, Array]] = []
        self._heard, self._step = 0, 1

    def taken(self) -> list[dict[str, Array]]:
        """Calls of the sample that has ended: inputs [1, ...] by name. The next sample begins."""
        count = min(self._most, len(self._kept))
        # The middle of each of so many equal parts.
        samples = [self._kept[(2 * k + 1) * len(self._kept) // (2 * count)] for k in range(count)]
        if self._first and samples:
            samples[0] = self._kept[0]
        self._kept = []
        self._heard, self._step = 0, 1
        return samples

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``backends.base.Predictor``."""
        if self._heard % self._step == 0:
            self._kept.append({name: np.array(array) for name, array in feeds.items()})
        self._heard += 1
        while self._too_many():
            self._kept = self._kept[::2]
            self._step *= 2
        return self._answers.predict(feeds)

    def _too_many(self) -> bool:
        size = sum(array.nbytes for feeds in self._kept for array in feeds.values())
        return len(self._kept) > 2 * self._most or (len(self._kept) > 1 and size > CALLS_BYTES)
