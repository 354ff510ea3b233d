"""One LoadGen run: one scenario in one mode, in this process and no other.

LoadGen reads its built-in rules only for the first configuration of a process, so a second run in
the same process would silently measure under other rules.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import mlperf_loadgen
import numpy

from mlperf import catalog
from mlperf.catalog import BenchmarkSpec, Scenario
from mlperf.catalog.scenario import NS_PER_MS

from .. import records
from ..backends import footprint
from ..backends import registry as backends
from ..backends.base import Backend
from ..backends.network import Network
from ..benchmarks import registry as benchmarks
from ..benchmarks.base import Array, Benchmark, Solver, StreamingSolver
from ..errors import HarnessError
from ..jobs import STALLED, AccuracyFigure, LoadGenOutcome
from ..pipeline import time_spent
from ..pipeline.batcher import DeadlinePolicy, LengthSplitter
from ..pipeline.completion import Completer
from ..pipeline.failures import Failures
from ..pipeline.inference import parts_by_length, solvers
from ..pipeline.queue import CutQueue, DynamicBatcher
from ..pipeline.recorder import ThroughputRecorder, late
from ..pipeline.time_spent import WorkerClock
from ..pipeline.token_completion import TokenCompleter, TokenWorker
from ..pipeline.workers import BatchWorker, DirectPipeline, Pipeline, PooledPipeline, Tally
from ..settings import ACCURACY, PERFORMANCE, RunSettings, WorkerShape, user_conf
from .accuracy_log import read_answers

LOG_FOLDER = {PERFORMANCE: "run_1", ACCURACY: "."}
ACCURACY_LOG = "mlperf_log_accuracy.json"
SERIES = "series.json"
LIVE = "live.json"

# How long a failed run may go on, being answered without data, before it is cut off.
PATIENCE_S = 5.0
# LoadGen's logger can lose a wake-up at the end of a run, and waits for ever. A run that has
# answered all its samples and computes nothing at so many looks in a row has met that.
LOOK_S, IDLE_LOOKS, IDLE_CPU_S = 10.0, 6, 0.5
# No further size of batch is tried before a run when this has gone by.
SIZES_S = 5.0
# Of so many lengths at most are the batches with which a GPU prepares for a run.
LENGTHS = 64


def loaded_samples(run: RunSettings, benchmark: Benchmark) -> int:
    """How many samples a performance run keeps loaded: the rule's number, capped by what exists."""
    wanted = run.overrides.performance_sample_count or benchmark.rules.loaded_samples
    return min(wanted, benchmark.sample_count)


def execute(run: RunSettings) -> LoadGenOutcome:
    """Make the run, write its logs into its folder and return how it went.

    Raises HarnessError when it cannot start: unknown names, model and samples that do not fit,
    settings that LoadGen refuses.
    """
    benchmark = benchmarks.create(run.benchmark, Path(run.dataset), run.model)
    backend = backends.create(run.backend, run.device, run.precision, run.backend_options)
    workers = 1 if run.scenario.stream else run.shape.workers
    shape = WorkerShape(workers, run.shape.threads, run.shape.batch)
    failures = Failures()
    clocks = [WorkerClock() for _ in range(workers)]
    opened = solvers(backend, run.model, benchmark, shape, not run.scenario.online, clocks)
    team = [
        _worker(run, benchmark, solver, failures, clock)
        for solver, clock in zip(opened, clocks, strict=True)
    ]
    settings = _test_settings(run, benchmark)
    pipeline = _pipeline(run, benchmark, team, backend)
    started = time.perf_counter()
    recorder = ThroughputRecorder(lambda: _answered(team), Path(run.folder) / LIVE)
    cut_off = _CutOff(
        failures,
        lambda: _report_failure(run, failures, started),
        lambda: _answered(team) == _generated(log_folder(run)),
    )
    with cut_off, recorder:
        name = backend.sut_name if isinstance(backend, Network) else None
        warmed = _Warmed(benchmark, run, pipeline, backend)
        _start_test(run, warmed, pipeline, settings, failures, name)
    seconds = time.perf_counter() - started
    tally = pipeline.close()
    recorded = [worker.latencies for worker in team]
    if run.mode == PERFORMANCE:
        records.write(Path(run.folder) / SERIES, recorder.series(recorded))
    versions = {**backend.versions(), **library_versions()}
    outcome = _outcome(run, benchmark, failures, seconds, tally, versions)
    spent = None if isinstance(backend, Network) else time_spent.spent(clocks)
    if spent is not None:
        spent = replace(spent, samples=_samples_by_place(backend, team))
    outcome = replace(outcome, computed_by=backend.computed_by(), spent=spent)
    is_timed = run.mode == PERFORMANCE and run.scenario.online
    return (
        replace(outcome, late=late(recorded, benchmark.rules.server_limit_s))
        if is_timed
        else outcome
    )


def _worker(
    run: RunSettings,
    benchmark: Benchmark,
    solver: Solver,
    failures: Failures,
    clock: WorkerClock,
) -> BatchWorker:
    if benchmark.rules.generates:
        streaming = cast(StreamingSolver, solver)
        listener = TokenCompleter(mlperf_loadgen, run.shape.batch, benchmark.result)
        return TokenWorker(streaming, listener, failures, not run.scenario.batched, clock)
    completer = Completer(mlperf_loadgen, run.shape.batch, benchmark.result)
    return BatchWorker(solver, completer, failures, clock)


def _samples_by_place(backend: Backend, team: Sequence[BatchWorker]) -> dict[str, int]:
    """Return how many samples the accelerators have answered; empty where there is one."""
    counts: dict[str, int] = {}
    for number, worker in enumerate(team):
        if place := backend.place_of(number):
            counts[place] = counts.get(place, 0) + worker.tally.samples
    return counts


def _answered(team: Sequence[BatchWorker]) -> int:
    return sum(worker.tally.samples for worker in team)


class _Warmed:
    """A benchmark whose first samples go through every worker before the clock runs.

    Loading samples is not timed. Without this the first queries would pay for what a runtime
    allocates and compiles only when it is first called.
    """

    def __init__(
        self, benchmark: Benchmark, run: RunSettings, pipeline: Pipeline, backend: Backend
    ) -> None:
        self.benchmark = benchmark
        self._pipeline = pipeline
        self._backend = backend
        self._is_cold = run.mode == PERFORMANCE
        self._sizes = _server_sizes(run.shape.batch, backend) if run.scenario.online else []
        self._batch = run.shape.batch
        self._sizes_s = SIZES_S / run.shape.workers
        self._graphs = run.model.graphs()

    def load(self, indices: Sequence[int]) -> None:
        """Load, and the first time warm up."""
        self.benchmark.load(indices)
        if self._is_cold:
            self._is_cold = False
            self._pipeline.prepare(partial(self._warm_up, indices))
            footprint.settle(self._graphs)

    def _warm_up(self, indices: Sequence[int], worker: BatchWorker) -> None:
        with self._backend.preparing():
            for order in self._orders(indices):
                worker.warm_up(order)
            self._warm_sizes(indices, worker)

    def _warm_sizes(self, indices: Sequence[int], worker: BatchWorker) -> None:
        """Server has batches of all sizes, for each of which a runtime may prepare its layers.

        Who waits for that is late.
        """
        began = time.perf_counter()
        for size in self._sizes:
            worker.warm_up(indices[:size])
            if time.perf_counter() - began > self._sizes_s:
                return

    def _orders(self, indices: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield the samples as they come; where they differ in length, the shortest first too.

        For those a runtime may lay out its weights once more. One that prepares for all shapes
        gets batches of as many lengths as a run may have.
        """
        yield indices
        costs = self.benchmark.costs
        # A heavy model pays minutes for a second time.
        if costs is not None and len({costs[index] for index in indices}) > 1:
            yield sorted(indices, key=costs.__getitem__)
            if self._backend.prepares:
                yield from _by_length(indices, costs, self._batch)


def _by_length(indices: Sequence[int], costs: Array, batch: int) -> Iterator[Sequence[int]]:
    """Yield batches of samples of about one length, the longest first, as ``CutQueue`` does."""
    ordered = sorted(indices, key=costs.__getitem__, reverse=True)
    starts = [n for n in range(len(ordered)) if n == 0 or costs[ordered[n]] < costs[ordered[n - 1]]]
    for start in starts[:: -(-len(starts) // LENGTHS)]:
        rest = ordered[start:]
        yield (rest * -(-batch // len(rest)))[:batch]


def _server_sizes(batch: int, backend: Backend) -> list[int]:
    """Return the sizes of batches below ``batch`` to warm up with; others are padded on a GPU."""
    sizes = range(1, batch)
    return [size for size in sizes if not backend.prepares or size & (size - 1) == 0]


def _outcome(
    run: RunSettings,
    benchmark: Benchmark,
    failures: Failures,
    seconds: float,
    tally: Tally,
    versions: dict[str, str],
) -> LoadGenOutcome:
    accuracy = None
    if run.mode == ACCURACY and not failures:
        accuracy = figure_of(benchmark, log_folder(run) / ACCURACY_LOG)
    return LoadGenOutcome(
        failure=failures.first,
        failure_count=failures.count,
        seconds=seconds,
        batches=tally.batches,
        samples=tally.samples,
        versions=versions,
        accuracy=accuracy,
    )


def figure_of(benchmark: Benchmark, log: Path) -> AccuracyFigure:
    """Return the accuracy of a complete mlperf_log_accuracy.json; raises HarnessError otherwise."""
    answers, duplicates = read_answers(log, benchmark.sample_count)
    figure = benchmark.accuracy(answers, numpy.arange(benchmark.sample_count))
    return replace(figure, duplicates=duplicates)


def library_versions() -> dict[str, str]:
    """Versions of LoadGen and NumPy."""
    return {
        "loadgen": importlib.metadata.version("mlcommons-loadgen"),
        "numpy": str(numpy.__version__),
    }


def log_folder(run: RunSettings) -> Path:
    """Where LoadGen's four files of this run lie."""
    return Path(run.folder) / LOG_FOLDER[run.mode]


def _test_settings(run: RunSettings, benchmark: Benchmark) -> Any:
    """LoadGen's settings: the round's built-in rules, changed by the user.conf written here."""
    rules = benchmark.rules
    conf = Path(run.folder) / "user.conf"
    loaded = loaded_samples(run, benchmark)
    key = run.scenario.loadgen_key(rules.loadgen_key)
    text = user_conf(run, key, loaded, _unknown_rules(run))
    # What cannot be set from Python can be set here; the seeds only there.
    audit_text = "" if not run.audit or _reads_audit() else run.audit
    conf.write_text(text + audit_text, encoding="utf-8")
    settings = mlperf_loadgen.TestSettings()
    # What a user.conf is called in the fourth place has changed; all versions mean it by default.
    status = settings.FromConfig(str(conf), key, run.scenario.loadgen)
    if status not in (0, None):
        raise HarnessError(f"LoadGen refuses {conf} (status {status})")
    if rules.token_rates:
        _set_token_rules(settings, rules, run.scenario)
    settings.scenario = getattr(mlperf_loadgen.TestScenario, run.scenario.loadgen)
    settings.mode = getattr(mlperf_loadgen.TestMode, run.mode.loadgen)
    apply_audit(settings, audit_text, run)
    if run.overrides.seed is not None:
        for name, seed in catalog.rounds.own_seeds(run.overrides.seed).items():
            setattr(settings, f"{name}_rng_seed", seed)
    return settings


def _set_token_rules(settings: Any, rules: BenchmarkSpec, scenario: Scenario) -> None:
    """Set what LoadGen's own rules may lack: that tokens are timed, and their limits.

    Raises HarnessError where its rules know the benchmark, and were not read: it reads them for the
    first configuration of a process alone.
    """
    if rules.known_to_loadgen and not settings.use_token_latencies:
        text = f"LoadGen has not applied its rules for {scenario.loadgen_key(rules.loadgen_key)}"
        raise HarnessError(text, "make one run in a process, with the LoadGen of the round")
    settings.use_token_latencies = True
    limit = rules.limits.get(scenario)
    if limit and limit.ttft_ms and limit.tpot_ms:
        settings.server_target_latency_ns = 0
        settings.ttft_latency = round(limit.ttft_ms * NS_PER_MS)
        settings.tpot_latency = round(limit.tpot_ms * NS_PER_MS)


def _reads_audit() -> bool:
    """LoadGen before version 5 takes an audit.config for its own rules: its settings are lost."""
    return int(library_versions()["loadgen"].partition(".")[0]) >= 5


def apply_audit(settings: Any, audit: str, run: RunSettings) -> None:
    """Apply the settings of an audit.config to this scenario, as far as Python can."""
    for line in audit.splitlines():
        name, _, value = line.partition(" = ")
        _, wanted, key = name.split(".")
        if wanted in ("*", run.scenario.loadgen) and key != "mode" and hasattr(settings, key):
            setattr(settings, key, type(getattr(settings, key))(int(value)))
        elif key == "accuracy_log_sampling_target":
            settings.accuracy_log_probability = min(1.0, int(value) / _expected_samples(run))


def _expected_samples(run: RunSettings) -> float:
    """Return how many samples LoadGen will ask for, by the targets that it is given."""
    seconds = (run.targets.min_duration_ms or catalog.MINIMUM_DURATION_MS) / 1000
    if run.targets.qps is not None:
        return seconds * run.targets.qps
    samples_per_query = run.scenario.samples_per_query
    return samples_per_query * seconds * 1000 / (run.targets.latency_ms or 1000)


def _unknown_rules(run: RunSettings) -> dict[str, float]:
    """Return the rules to set in LoadGen, which does not know this benchmark."""
    if run.benchmark not in catalog.names():
        return {}
    spec = catalog.benchmark(run.benchmark)
    if spec.known_to_loadgen:
        return {}
    if run.scenario.batched and run.style == "valid":
        return {"min_query_count": spec.offline_minimum}
    if run.scenario.online and spec.server_limit_ms is not None:
        return {"target_latency": spec.server_limit_ms}
    return {}


def _audit(run: RunSettings) -> Path:
    """Return the audit.config of a compliance test; for other runs a path at which none can be.

    A relative name would be read from the working directory, and would change the rules.
    """
    if not run.audit:
        return log_folder(run) / "no-audit" / "audit.config"
    path = Path(run.folder) / "audit.config"
    path.write_text(run.audit, encoding="utf-8")
    return path if _reads_audit() else log_folder(run) / "no-audit" / "audit.config"


def _log_settings(folder: Path) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    output = mlperf_loadgen.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    settings = mlperf_loadgen.LogSettings()
    settings.log_output = output
    # On by default, and worth 270 bytes and a microsecond for every sample.
    settings.enable_trace = False
    return settings


def _pipeline(
    run: RunSettings, benchmark: Benchmark, team: Sequence[BatchWorker], backend: Backend
) -> Pipeline:
    if run.scenario.stream:
        return DirectPipeline(team[0])
    if run.scenario.batched:
        return PooledPipeline(CutQueue(run.shape.batch, benchmark.costs), team)
    times = {int(size): seconds for size, seconds in run.service_times.items()}
    limit = benchmark.rules.server_limit_s
    window_s = (run.overrides.deque_timeout_us or 0) / 1e6
    queue = DynamicBatcher(DeadlinePolicy(limit, run.shape.batch, times), window_s)
    # One size does not tell what a call costs beside its samples.
    if len(times) > 1 and benchmark.costs is not None and parts_by_length(benchmark, backend):
        return PooledPipeline(queue, team, LengthSplitter(benchmark.costs, times).split)
    return PooledPipeline(queue, team)


def _start_test(
    run: RunSettings,
    warmed: _Warmed,
    pipeline: Pipeline,
    settings: Any,
    failures: Failures,
    network_name: Callable[[], str] | None = None,
) -> None:
    """Run LoadGen until it is done. No callback lets an exception out.

    ``network_name`` asks a system under test on other machines for its name.
    """
    benchmark = warmed.benchmark

    def guarded(doing: str, action: Callable[..., None]) -> Callable[..., None]:
        def callback(*arguments: Any) -> None:
            try:
                action(*arguments)
            except Exception as error:  # LoadGen does not survive an exception
                failures.record(doing, error)

        return callback

    issue = guarded("taking a query", pipeline.issue)
    sut, destroy = _sut(issue, network_name, failures)
    samples = mlperf_loadgen.ConstructQSL(
        benchmark.sample_count,
        loaded_samples(run, benchmark),
        guarded("loading samples", warmed.load),
        guarded("unloading samples", lambda _: benchmark.unload()),
    )
    log_settings = _log_settings(log_folder(run))
    mlperf_loadgen.StartTestWithLogSettings(sut, samples, settings, log_settings, str(_audit(run)))
    mlperf_loadgen.DestroyQSL(samples)
    destroy(sut)


def _sut(
    issue: Callable[..., None], network_name: Callable[[], str] | None, failures: Failures
) -> tuple[Any, Callable[[Any], None]]:
    """Return LoadGen's system under test, or its proxy for nodes, and the function that ends it."""
    if network_name is None:
        return mlperf_loadgen.ConstructFastSUT(issue, lambda: None), mlperf_loadgen.DestroyFastSUT
    ask = network_name

    def name() -> str:
        try:
            return ask()
        except Exception as error:  # LoadGen does not survive an exception
            failures.record("asking the nodes for their names", error)
            return ""

    def issue_samples(samples: Sequence[Any]) -> None:
        issue([sample.id for sample in samples], [sample.index for sample in samples])

    library = mlperf_loadgen.ConstructQDL(issue_samples, lambda: None, name)
    return library, mlperf_loadgen.DestroyQDL


def _report_failure(run: RunSettings, failures: Failures, started: float) -> None:
    seconds = time.perf_counter() - started
    outcome = LoadGenOutcome(failures.first, failures.count, seconds, 0, 0, library_versions())
    records.write(Path(run.folder) / "outcome.json", outcome)


def _generated(folder: Path) -> int | None:
    """How many samples LoadGen requests in a performance run; None as long as it has not said."""
    try:
        text = (folder / "mlperf_log_detail.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    counts = dict(re.findall(r'"key": "(generated_[a-z_]+)", "value": (\d+)', text))
    try:
        return int(counts["generated_query_count"]) * int(counts["generated_samples_per_query"])
    except KeyError:
        return None


class _CutOff:
    """Ends the process where LoadGen, which cannot be stopped, continues without reason.

    That is after a failure, or when it waits for nothing after ``finished``, its last answer.
    """

    def __init__(
        self, failures: Failures, report: Callable[[], None], finished: Callable[[], bool]
    ) -> None:
        self._failures = failures
        self._report = report
        self._finished = finished
        self._over = threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, name="cut-off", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        idle, used = 0, time.process_time()
        while not self._failures.happened.wait(LOOK_S):
            before, used = used, time.process_time()
            idle = idle + 1 if used - before < IDLE_CPU_S and self._finished() else 0
            if self._over.is_set():
                return
            if idle >= IDLE_LOOKS:
                os._exit(STALLED)
        if not self._over.wait(PATIENCE_S):
            self._report()
            os._exit(1)
