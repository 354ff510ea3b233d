"""Runs of MLPerf Endpoints' reference client, and submissions that are made of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cmbench_results.readers import ReadItems, unread
from cmbench_results.values import (
    HIGHER,
    LOGS,
    LOWER,
    THROUGHPUT,
    BenchmarkResult,
    BenchmarkWorkload,
    ResultMetric,
    SoftwareStack,
    SystemDescription,
    digest,
    text,
)
from common.problems import Problem
from mlperf import client_run as runs
from mlperf.client_run import ClientRun
from mlperf.endpoints.submitted_curves import read_point

BENCHMARK = "MLPerf Endpoints"
PER_USER = "tokens_per_s_per_user"


def read(path: Path, benchmark_round: str = "") -> ReadItems:
    """Return a result for every run below a folder."""
    for folder in runs.find_runs(path):
        try:
            run = runs.read_run(folder)
        except Problem as problem:
            yield unread(folder, ValueError(problem.message))
            continue
        yield _result(run)


def _result(run: ClientRun) -> BenchmarkResult:
    submitted = read_point(run.folder)
    point, described = submitted.point, submitted.system
    seeds = [run.seed(name) for name in runs.SEEDS]
    load = "Offline" if run.is_offline else f"{run.concurrency} in flight"
    _, completed, failed = run.samples
    facts = [run.model, load, seeds, run.summary.get("duration_ns"), completed, run.tokens_per_s]
    system = text(described.get("system_name"))
    return BenchmarkResult(
        key=f"endpoints:{digest(facts)[:24]}",
        workload=BenchmarkWorkload(
            benchmark=BENCHMARK,
            scenario=load,
            model=text(point.get("model_name") or run.model),
            division=text(point.get("division")).lower(),
            round=text(point.get("target_cohort")),
            dataset=text(point.get("dataset")),
        ),
        system=SystemDescription(name=system),
        software=SoftwareStack(
            framework=text(described.get("serving_framework")),
            precision=text(point.get("model_precision")),
            versions={"inference_endpoint": text(run.summary.get("version"))},
        ),
        metric="output tokens per second",
        value=run.tokens_per_s,
        unit="tokens/s",
        validity="VALID" if run.is_complete and completed and not failed else "INVALID",
        reasons=tuple(_reasons(run)),
        metrics=tuple(_metrics(run)),
        settings={"load_pattern": text(run.load_pattern), "requests": str(completed)},
        duration_s=run.seconds,
        figures_from=LOGS,
        folder=str(run.folder),
    )


def _reasons(run: ClientRun) -> Iterator[str]:
    _, completed, failed = run.samples
    if not completed:
        yield "no request was answered"
    if not run.is_complete:
        yield "the client did not come to its end"
    if failed:
        yield f"{failed} requests failed"


def _metrics(run: ClientRun) -> Iterator[ResultMetric]:
    if run.tokens_per_s is not None:
        yield ResultMetric(THROUGHPUT, run.tokens_per_s, "tokens/s", HIGHER)
    if run.tokens_per_s_per_user is not None:
        yield ResultMetric(PER_USER, run.tokens_per_s_per_user, "tokens/s", HIGHER)
    for metric, name in (("ttft", "ttft"), ("tpot", "tpot"), ("latency", "e2e")):
        for at in (50, 90, 99):
            value = run.milliseconds(metric, at)
            if value is not None:
                yield ResultMetric(f"{name}_p{at}", value, "ms", LOWER)
