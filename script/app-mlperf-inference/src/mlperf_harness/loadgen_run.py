"""One LoadGen run: one scenario in one mode, in this process and no other.

LoadGen reads its built-in rules only for the first configuration of a process, so a second run in
the same process would silently measure under other rules.
"""

from __future__ import annotations

import importlib.metadata
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlperf_loadgen
import numpy

from . import backends, benchmarks, records
from .accuracy_log import read_answers
from .benchmarks.base import Benchmark
from .errors import HarnessError
from .outcome import AccuracyFigure, Outcome
from .pipeline.batcher import DeadlinePolicy
from .pipeline.completion import Completer
from .pipeline.failures import Failures
from .pipeline.inference import solvers
from .pipeline.queue import CutQueue, JoiningQueue, WorkQueue
from .pipeline.workers import Caller, DirectPipeline, Pipeline, PooledPipeline, Tally
from .settings import ACCURACY, OFFLINE, PERFORMANCE, STREAMS, RunSettings, Shape, user_conf

LOG_FOLDER = {PERFORMANCE: "run_1", ACCURACY: "."}
ACCURACY_LOG = "mlperf_log_accuracy.json"
DETAIL_LOG = "mlperf_log_detail.txt"

# How long a failed run may go on, being answered without data, before it is cut off.
PATIENCE_S = 5.0

TEST_MODES = {PERFORMANCE: "PerformanceOnly", ACCURACY: "AccuracyOnly"}


def loaded_samples(run: RunSettings, benchmark: Benchmark) -> int:
    """How many samples a performance run keeps loaded: the rule's number, capped by what exists."""
    wanted = run.overrides.performance_sample_count or benchmark.rules.loaded_samples
    return min(wanted, benchmark.sample_count)


def execute(run: RunSettings) -> Outcome:
    """Make the run, write its logs into its folder and return how it went.

    Raises HarnessError when it cannot start: unknown names, model and samples that do not fit,
    settings that LoadGen refuses.
    """
    benchmark = benchmarks.create(run.benchmark, Path(run.dataset), run.model)
    backend = backends.create(run.backend, run.device, run.precision)
    workers = run.shape.workers if run.scenario not in STREAMS else 1
    shape = Shape(workers, run.shape.threads, run.shape.batch)
    failures = Failures()
    team = [
        Caller(solver, Completer(mlperf_loadgen, shape.batch, benchmark.result), failures)
        for solver in solvers(backend, run.model, benchmark, shape)
    ]
    settings = _test_settings(run, benchmark)
    pipeline = _pipeline(run, benchmark, team)
    started = time.perf_counter()
    with _CutOff(failures, lambda: _report_failure(run, failures, started)):
        _start_test(run, benchmark, pipeline, settings, failures)
    seconds = time.perf_counter() - started
    tally = pipeline.close()
    versions = {**backend.versions(), **library_versions()}
    return _outcome(run, benchmark, failures, seconds, tally, versions)


def _outcome(
    run: RunSettings,
    benchmark: Benchmark,
    failures: Failures,
    seconds: float,
    tally: Tally,
    versions: dict[str, str],
) -> Outcome:
    accuracy = None
    if run.mode == ACCURACY and not failures:
        accuracy = figure_of(benchmark, log_folder(run) / ACCURACY_LOG)
    return Outcome(
        failure=failures.first,
        failure_count=failures.count,
        seconds=seconds,
        batches=tally.batches,
        samples=tally.samples,
        versions=versions,
        accuracy=accuracy,
    )


def figure_of(benchmark: Benchmark, log: Path) -> AccuracyFigure:
    """The accuracy of a complete mlperf_log_accuracy.json; raises HarnessError otherwise."""
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
    text = user_conf(run, rules.loadgen_key, loaded_samples(run, benchmark))
    conf.write_text(text, encoding="utf-8")
    settings = mlperf_loadgen.TestSettings()
    status = settings.FromConfig(str(conf), rules.loadgen_key, run.scenario, 1)
    if status not in (0, None):
        raise HarnessError(f"LoadGen refuses {conf} (status {status})")
    settings.scenario = getattr(mlperf_loadgen.TestScenario, run.scenario)
    settings.mode = getattr(mlperf_loadgen.TestMode, TEST_MODES[run.mode])
    return settings


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


def _pipeline(run: RunSettings, benchmark: Benchmark, team: Sequence[Caller]) -> Pipeline:
    if run.scenario in STREAMS:
        return DirectPipeline(team[0])
    queue: WorkQueue
    if run.scenario == OFFLINE:
        queue = CutQueue(run.shape.batch, benchmark.costs)
    else:
        times = {int(size): seconds for size, seconds in run.service_times.items()}
        limit = benchmark.rules.server_limit_s
        queue = JoiningQueue(DeadlinePolicy(limit, run.shape.batch, times))
    return PooledPipeline(queue, team)


def _start_test(
    run: RunSettings, benchmark: Benchmark, pipeline: Pipeline, settings: Any, failures: Failures
) -> None:
    """Run LoadGen until it is done. No callback lets an exception out."""

    def guarded(doing: str, action: Callable[..., None]) -> Callable[..., None]:
        def callback(*arguments: Any) -> None:
            try:
                action(*arguments)
            except Exception as error:  # LoadGen does not survive an exception
                failures.record(doing, error)

        return callback

    sut = mlperf_loadgen.ConstructFastSUT(guarded("taking a query", pipeline.issue), lambda: None)
    samples = mlperf_loadgen.ConstructQSL(
        benchmark.sample_count,
        loaded_samples(run, benchmark),
        guarded("loading samples", benchmark.load),
        guarded("unloading samples", lambda _: benchmark.unload()),
    )
    folder = log_folder(run)
    mlperf_loadgen.StartTestWithLogSettings(
        # A relative name would be looked up where the user stands, and would change the rules.
        sut,
        samples,
        settings,
        _log_settings(folder),
        str(folder / "no-audit" / "audit.config"),
    )
    mlperf_loadgen.DestroyQSL(samples)
    mlperf_loadgen.DestroyFastSUT(sut)


def _report_failure(run: RunSettings, failures: Failures, started: float) -> None:
    seconds = time.perf_counter() - started
    outcome = Outcome(failures.first, failures.count, seconds, 0, 0, library_versions())
    records.write(Path(run.folder) / "outcome.json", outcome)


class _CutOff:
    """Ends the process when a failed run goes on: LoadGen itself cannot be told to stop."""

    def __init__(self, failures: Failures, report: Callable[[], None]) -> None:
        self._failures = failures
        self._report = report
        self._over = threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, name="cut-off", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        self._failures.happened.wait()
        if not self._over.wait(PATIENCE_S):
            self._report()
            os._exit(1)
