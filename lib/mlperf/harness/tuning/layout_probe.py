"""A bare backend on real samples, without LoadGen: opened in a layout, and timed."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Sequence

import numpy as np

from ..backends.base import Backend
from ..benchmarks.base import Array, Benchmark, Solver
from ..errors import HarnessError
from ..jobs import ProbeRequest
from ..measuring import memory
from ..pipeline.inference import parts_by_length, solvers
from ..settings import Overrides, WorkerShape
from ..wording import megabytes

ANSWERS = 1 << 24
SAMPLES = 256
# A batch of more than the usual size for a GPU has at most so many bytes.
USUAL, BATCH_BYTES = 64, 1 << 29

# Before a batch is timed another one warms up. One that takes longer than this is not made twice:
# what warming up saves is little against it.
LONG_S = 3.0
GOLDEN = 0.618


def batch_sizes(overrides: Overrides, most: int, answer_bytes: int = 1) -> list[int]:
    """Return the batch sizes to try: powers of two up to the user's largest, and that one.

    ``most`` is the largest batch that the backend takes and that fits into memory. Where an
    answer is large (a labelled volume), the answers of a batch stay below ``ANSWERS`` bytes.
    """
    largest = overrides.batch_size or max(1, min(most, ANSWERS // answer_bytes))
    sizes = [1 << power for power in range(largest.bit_length()) if 1 << power < largest]
    return [*sizes, largest]


class LayoutProbe:
    """Opens the backend in a layout, with real samples loaded."""

    def __init__(self, request: ProbeRequest, benchmark: Benchmark, backend: Backend) -> None:
        self.benchmark = benchmark
        self.overrides = request.overrides
        self._request = request
        self._backend = backend
        self.count = min(SAMPLES, benchmark.sample_count)
        benchmark.load(range(self.count))
        self.model_bytes = backend.weight_bytes(request.model)
        # Only benchmarks whose samples take much say so.
        self._work_bytes = backend.work_bytes(int(getattr(benchmark, "work_bytes", 0)))
        self._free, _ = memory.available()

    def layouts(self, cores: int) -> list[tuple[int, int]]:
        """Return the layouts to try."""
        overrides = self.overrides
        return self.fitting(self._backend.layouts(cores, overrides.num_workers, overrides.threads))

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """Return the numbers of threads to try for one query at a time, the largest first."""
        fixed = self.overrides.threads
        return (fixed,) if fixed else self._backend.stream_threads(cores)

    def fitting(self, layouts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the layouts that fit into memory with a sample per worker; else one worker.

        Raises HarnessError where the user has requested more workers than fit.
        """
        free = self._free
        if free is None:
            return list(layouts)
        some = [
            (workers, threads)
            for workers, threads in layouts
            if self._weights(workers, threads) + workers * self._work_bytes < free
        ]
        requested = self.overrides.num_workers or 1
        if requested > 1 and not some:
            raise HarnessError(
                f"too little memory for {requested} workers: the model takes "
                f"{megabytes(self.model_bytes)}, once for each worker that has several threads, a "
                f"sample in work {megabytes(self._work_bytes)}, and {megabytes(free)} are free",
                "ask for fewer with --num_workers, or leave it out",
            )
        return some or [(1, max(threads for _, threads in layouts))]

    def most(self, workers: int, threads: int) -> int:
        """Return how many samples a worker can compute at once without running out of memory."""
        largest = self._backend.largest_batch
        if largest > USUAL:
            largest = min(largest, max(USUAL, BATCH_BYTES // self._sample_bytes()))
        if self._free is None or not self._work_bytes:
            return largest
        left = self._free - self._weights(workers, threads)
        return max(1, min(largest, left // (workers * self._work_bytes)))

    def _sample_bytes(self) -> int:
        """Return the bytes of a sample as the model's input; a size that is not fixed is 1."""
        inputs = self._request.model.graphs()[0].inputs
        return sum(
            np.dtype(tensor.dtype).itemsize * math.prod(max(1, size) for size in tensor.shape)
            for tensor in inputs
        )

    def _weights(self, workers: int, threads: int) -> int:
        """Bytes of host memory that the weights take in a layout."""
        return self._backend.copies(workers, threads) * self.model_bytes

    def batch_sizes(self, workers: int, threads: int) -> list[int]:
        """Return the batch sizes to try in a layout."""
        row_bytes = self.benchmark.result.row_bytes
        return batch_sizes(self.overrides, self.most(workers, threads), row_bytes)

    def arrange(self, team: Sequence[ProbeWorker], size: int) -> None:
        """Let workers take the loaded samples as runs compute them in batches of ``size``.

        Where runs put samples of about one length together, any few batches of these are about as
        long as those of a whole run.
        """
        if parts_by_length(self.benchmark, self._backend) and self.benchmark.costs is not None:
            order = mixed_batches(self.benchmark.costs[: self.count], size)
            for worker in team:
                worker.take(order)

    @property
    def prepares(self) -> bool:
        """Return whether predictors prepare for a shape, which runs of a fixed one gain from."""
        return self._backend.prepares

    def has_room(self) -> bool:
        """See ``backends.base.Backend``."""
        return self._backend.has_room()

    def open(
        self,
        workers: int,
        threads: int,
        capacity: int,
        order: Sequence[int] | None = None,
        fixed: bool = False,
    ) -> list[ProbeWorker]:
        """Workers for batches of at most ``capacity`` that take the loaded samples in ``order``.

        ``fixed`` says that all of them are so large.
        """
        fixed = fixed and self.prepares
        shape = WorkerShape(workers, threads, capacity)
        places = np.arange(self.count) if order is None else np.asarray(order)
        return [
            ProbeWorker(self.benchmark, solver, capacity, places, self._backend)
            for solver in solvers(self._backend, self._request.model, self.benchmark, shape, fixed)
        ]


class ProbeWorker:
    """One worker with its buffers, walking through the samples of ``order``."""

    def __init__(
        self,
        benchmark: Benchmark,
        solver: Solver,
        capacity: int,
        order: Array,
        backend: Backend,
    ) -> None:
        self._solver = solver
        self._backend = backend
        self._order = order
        self._results = benchmark.result.rows(capacity)
        self._sizes = np.zeros(capacity, dtype=np.int64)
        self._next = 0
        self._answered = self._answer_bytes = 0

    def take(self, order: Array) -> None:
        """Walk through these loaded samples from now on."""
        self._order, self._next = order, 0

    def batch(self, size: int) -> float:
        """Run one batch of the next samples; the seconds that it took."""
        started = time.perf_counter()
        indices = self._order[(np.arange(size) + self._next) % len(self._order)]
        self._next = (self._next + size) % len(self._order)
        self._solve(indices)
        return time.perf_counter() - started

    def prepare(self, size: int) -> float:
        """Run a batch that is not measured; the seconds that such a batch takes."""
        with self._backend.preparing():
            seconds = self.batch(size)
            # What took so long was perhaps that which is done once.
            return self.batch(size) if seconds > LONG_S and self._backend.prepares else seconds

    def sample(self, index: int) -> float:
        """Run this sample alone; the seconds that it took."""
        started = time.perf_counter()
        self._solve(np.asarray([index]))
        return time.perf_counter() - started

    def _solve(self, indices: Array) -> None:
        sizes = self._sizes[: len(indices)]
        self._solver.solve(indices, self._results[: len(indices)], sizes)
        self._answered += len(indices)
        self._answer_bytes += int(sizes.sum())

    @property
    def mean_bytes(self) -> float:
        """Return the mean bytes of its answers so far, where they vary; else 0."""
        return self._answer_bytes / max(1, self._answered)

    def batch_times(self, size: int, seconds: float) -> list[float]:
        """Time whole batches until ``seconds`` are over; at least one."""
        times: list[float] = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(self.batch(size))
        return times

    def query_times(self, samples: int, batch: int, seconds: float) -> list[float]:
        """Time queries that are cut into batches, as a stream answers them.

        At least three, or the first alone when it takes longer than ``LONG_S``.
        """
        per_query = math.ceil(samples / batch)
        first = self.prepare(batch)
        if per_query * first > LONG_S:
            return [per_query * first]
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            started = time.perf_counter()
            for _ in range(per_query):
                self.batch(batch)
            times.append(time.perf_counter() - started)
        return times


def mixed_batches(costs: Array, size: int) -> Array:
    """Return an order of samples in which any ``size`` in turn cost about the same.

    The first batch, which warms up, and the second are those of about the mean cost.
    """
    by_cost = np.argsort(costs, kind="stable")
    count = max(1, len(by_cost) // size)
    batches = np.resize(by_cost, (count, size)) if count == 1 else by_cost[: count * size]
    batches = batches.reshape(count, size)
    start = int(np.abs(costs[batches].mean(axis=1) - costs.mean()).argmin())
    # Steps of the golden section visit all parts of a range evenly.
    step = next(n for n in range(round(GOLDEN * count), 2 * count + 1) if math.gcd(n, count) == 1)
    visits = (start + step * np.arange(count)) % count
    order: Array = batches[[start, *visits]].reshape(-1)
    return order


def measure_together(
    workers: Sequence[ProbeWorker], size: int, seconds: float
) -> tuple[float, float]:
    """Samples/s of all workers at once, and the median seconds of their batches.

    They warm up with a batch each; if all of these take longer than ``LONG_S``, they are the
    measurement.
    """
    first = [0.0] * len(workers)
    times: list[list[float]] = [[] for _ in workers]
    failures: list[BaseException] = []
    together = threading.Barrier(len(workers))

    def work(number: int) -> None:
        try:
            first[number] = workers[number].prepare(size)
            together.wait()
            long = min(first) > LONG_S
            times[number] = [first[number]] if long else workers[number].batch_times(size, seconds)
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)
            together.abort()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    rate = sum(size * len(mine) / sum(mine) for mine in times)
    return rate, statistics.median(time for mine in times for time in mine)
