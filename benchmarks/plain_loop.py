"""The plain loop around a runtime: what a machine gives without LoadGen and without a harness.

It is measured in a process of its own: ``python benchmarks/plain_loop.py CONFIG.json``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

try:
    import numpy as np
except ImportError:
    sys.exit("numpy is missing here: run `make bench`, or pip install -e '.[test]' before")
from cmbench import LIBRARIES
from mlperf.harness import host, records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.base import Array, Feeds, Predictor, empty_batch
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks.base import Benchmark
from mlperf.harness.pipeline.batcher import cut
from mlperf.harness.settings import MAIN, GraphSpec, ModelSpec, Overrides, WorkerShape
from mlperf.harness.tuning.layout_probe import batch_sizes

ROOT = Path(LIBRARIES).parent


@dataclass(frozen=True, slots=True)
class Case:
    """A model, its samples, and what computes it. ``samples`` are kept loaded in both loops."""

    benchmark: str
    model: ModelSpec
    dataset: str
    backend: str
    precision: str
    samples: int


@dataclass(frozen=True, slots=True)
class Bare:
    """The plain loop: Offline samples/s in a shape, or ms of a single call (p90) in it."""

    shape: WorkerShape
    value: float


class Listener(Predictor):
    """Keeps what a benchmark would feed the model."""

    def __init__(self, graph: GraphSpec, outputs: Sequence[str]) -> None:
        self._outputs = [t for name in outputs for t in graph.outputs if t.name == name]
        self.heard: list[Feeds] = []

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """Answer zeros."""
        self.heard.append({name: np.array(array) for name, array in feeds.items()})
        count = len(next(iter(feeds.values())))
        zeros = empty_batch(self._outputs, count)
        return [
            np.zeros((count, *(_concrete(t.shape, feeds))), dtype=t.dtype) if -1 in t.shape else z
            for t, z in zip(self._outputs, zeros.values(), strict=True)
        ]


def _concrete(shape: Sequence[int], feeds: Feeds) -> tuple[int, ...]:
    length = next(iter(feeds.values())).shape[-1]
    return tuple(length if size == -1 else size for size in shape)


def batches_of(benchmark: Benchmark, model: ModelSpec, count: int, size: int) -> list[Feeds]:
    """The first ``count`` samples as batches, the longest first where samples differ."""
    listener = Listener(model.graphs()[0], benchmark.outputs[MAIN])
    solver = benchmark.solver({MAIN: listener}, size)
    order = np.arange(count)
    if benchmark.costs is not None:
        order = np.argsort(-benchmark.costs[:count], kind="stable")
    results, sizes = benchmark.result.rows(size), np.zeros(size, dtype=np.int64)
    for batch in cut(order.tolist(), order.tolist(), size):
        n = len(batch.ids)
        solver.solve(batch.indices, results[:n], sizes[:n])
    return listener.heard


def bare(config: Path) -> None:
    """The child process: measure one shape, or the latency of single calls; JSON to stdout."""
    asked = json.loads(config.read_text(encoding="utf-8"))
    case: Case = records.decode(Case, asked["case"])
    shape: WorkerShape = records.decode(WorkerShape, asked["shape"])
    benchmark = benchmarks.create(case.benchmark, Path(case.dataset), case.model)
    benchmark.load(range(case.samples))
    backend = backends.create(case.backend, "cpu", case.precision)
    graph = case.model.graphs()[0]
    feeds = batches_of(benchmark, case.model, case.samples, shape.batch)
    predictors = backend.open(graph, benchmark.outputs[MAIN], shape.workers, shape.threads)
    if asked["latency"]:
        print(json.dumps(call_p90_ms(predictors[0], feeds, asked["seconds"])))
    else:
        print(json.dumps(rate(predictors, feeds, asked["seconds"])))


def call_p90_ms(predictor: Any, feeds: Sequence[Feeds], seconds: float) -> float:
    """p90 of the time of single calls, in ms, after a warm-up."""
    for one in feeds[:5]:
        predictor.predict(one)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        one = feeds[len(times) % len(feeds)]
        started = time.perf_counter()
        predictor.predict(one)
        times.append(time.perf_counter() - started)
    return float(np.quantile(times, 0.9)) * 1e3


def rate(predictors: Sequence[Any], feeds: Sequence[Feeds], seconds: float) -> float:
    """Samples/s of all workers over whole passes through the samples, after a warm-up."""
    passes, samples = 0, 0
    for predictor in predictors:
        predictor.predict(feeds[0])
    started = time.perf_counter()
    while time.perf_counter() - started < seconds or not passes:
        one_pass(predictors, feeds)
        passes += 1
        samples += sum(len(next(iter(one.values()))) for one in feeds)
    return samples / (time.perf_counter() - started)


def one_pass(predictors: Sequence[Any], feeds: Sequence[Feeds]) -> None:
    """Every batch once, shared by the workers."""
    left: SimpleQueue[Feeds] = SimpleQueue()
    for one in feeds:
        left.put(one)

    def work(predictor: Any) -> None:
        while True:
            try:
                one = left.get_nowait()
            except Empty:
                return
            predictor.predict(one)

    if len(predictors) == 1:
        work(predictors[0])
        return
    threads = [threading.Thread(target=work, args=(p,)) for p in predictors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_bare(case: Case, shape: WorkerShape, seconds: float, latency: bool) -> Bare:
    """Run the plain loop in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "bare.json"
        asked = {
            "case": records.encode(case),
            "shape": asdict(shape),
            "seconds": seconds,
            "latency": latency,
        }
        config.write_text(json.dumps(asked), encoding="utf-8")
        words = [sys.executable, __file__, str(config)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the plain loop failed in {shape}:\n{done.stderr}")
    return Bare(shape, json.loads(done.stdout.splitlines()[-1]))


def roofline_shape(case: Case, seconds: float) -> WorkerShape:
    """The best of a small grid of layouts and batch sizes for the plain loop."""
    cores = host.usable_cores()
    backend = backends.create(case.backend, "cpu", case.precision)
    grid = [
        WorkerShape(workers, threads, batch)
        for workers, threads in backend.layouts(cores)
        for batch in batch_sizes(Overrides(batch_size=min(32, case.samples)), backend.largest_batch)
    ]
    measured = [measure_bare(case, shape, seconds, latency=False) for shape in grid]
    return max(measured, key=lambda found: found.value).shape


if __name__ == "__main__":
    bare(Path(sys.argv[1]))
