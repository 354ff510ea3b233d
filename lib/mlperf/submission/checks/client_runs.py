"""Results of the client of MLPerf Endpoints: files, seeds, limits, duration and accuracy."""

from __future__ import annotations

from collections.abc import Iterator

from common.problems import Problem
from mlperf import client_run as runs
from mlperf.catalog import BenchmarkSpec, Scenario
from mlperf.client_run import MAX_THROUGHPUT, ClientRun

from ..client_results import (
    MINIMUM_MS,
    MODELS,
    judged_accuracy,
    latency_faults,
    read_client_run,
    seed_faults,
)
from ..layouts import ScenarioCell
from .base import CHECKER, NATURE, RULES, Finding, Rule, SubmitterSite

FIRST = "6.1"
# Earlier rounds do not know these files; there the logs of LoadGen are missing, which is refused.
FILES = Rule("client.files", "files of the Endpoints client that can be read", CHECKER)
MODEL = Rule("client.model", "benchmarks that the Endpoints client may measure", CHECKER)
SEEDS = Rule("client.seeds", "the seeds of the round in config.yaml", RULES)
LIMITS = Rule("client.latency", "p99 latencies within the limits of the scenario", RULES)
DURATION = Rule("client.duration", "at least ten minutes", RULES, NATURE)
COMPLETE = Rule("client.complete", "every request was answered", CHECKER)
PATTERN = Rule("client.load", "Offline sends everything at once, and nothing else does", RULES)
ACCURACY = Rule("client.accuracy", "closed division: the accuracy reaches its target", RULES)
RERUN = "run it again with inference-endpoint, and copy its files"


def results(site: SubmitterSite) -> Iterator[Finding]:
    """Check every result of the client."""
    for cell in site.cells:
        known, scenario = site.rules(cell.benchmark), Scenario.of_folder(cell.scenario)
        if cell.by_client and known is not None and scenario is not None:
            yield from _result(site, cell, known.of(scenario), scenario)


def _result(
    site: SubmitterSite, cell: ScenarioCell, known: BenchmarkSpec, scenario: Scenario
) -> Iterator[Finding]:
    where = site.where(cell.results)
    try:
        run = read_client_run(cell)
    except Problem as problem:
        yield FILES.broken(where, problem.message, RERUN)
        return
    if run.accuracy_file is None:
        yield FILES.broken(f"{where}/accuracy/{runs.ACCURACY}", "missing", RERUN)
    fault = f"{known.name} is measured with LoadGen alone"
    yield from MODEL.unless(known.name in MODELS, where, fault, "submit LoadGen's logs")
    for fault in seed_faults(run, site.layout.round):
        yield SEEDS.broken(f"{where}/{runs.CONFIG}", fault, RERUN)
    for fault in latency_faults(run, known, scenario):
        yield LIMITS.broken(where, fault, "ask for less: a lower target_qps")
    yield from _run(run, scenario, where)
    if site.strict:
        yield from _accuracy(run, known, where)


def _run(run: ClientRun, scenario: Scenario, where: str) -> Iterator[Finding]:
    _, completed, failed = run.samples
    fault = f"{completed} answered, {failed} failed, state {run.summary.get('state')!r}"
    yield from COMPLETE.unless(run.is_complete and not failed, where, fault, RERUN)
    fault = f"{run.seconds:.0f} s, {MINIMUM_MS // 1000} s are needed"
    yield from DURATION.unless(run.seconds * 1000 >= MINIMUM_MS, where, fault, RERUN)
    together = run.load_pattern == MAX_THROUGHPUT
    fits = together == (scenario is Scenario.OFFLINE)
    fault = f"load_pattern {run.load_pattern} in {scenario}"
    yield from PATTERN.unless(fits, where, fault, RERUN)


def _accuracy(run: ClientRun, known: BenchmarkSpec, where: str) -> Iterator[Finding]:
    if run.accuracy_file is None:
        return
    # Of several figures the client reports one; the others are in no file of the tree.
    target = known.accuracy[0]
    value = judged_accuracy(run, target)
    if value is None:
        yield ACCURACY.broken(where, f"no {target.metric.name}", RERUN)
    elif not target.holds(value):
        fault = f"{target.metric.name} {value:g}, accepted is {target.text}"
        yield ACCURACY.broken(where, fault, "see why answers differ from the reference's")
