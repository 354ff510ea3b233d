"""report.html: what ``page.html`` says of the results, with charts for every scenario."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mlperf.catalog import SERVER
from mlperf.pages import charts
from mlperf.pages.render import render as render_page

from .. import records
from ..errors import HarnessError
from ..wording import cores_in_words, duration, figures
from . import bounds, course, readme, summary, tokens
from .history import HistoryEntry, configuration
from .results import (
    MACHINE,
    OtherRun,
    PerformanceResult,
    ResultProblem,
    Results,
    ScenarioResult,
    accuracy_in_words,
    minute,
    span,
)

TEMPLATE = Path(__file__).with_name("page.html")
EARLIER = 30
# A line over time needs so many points.
LEAST_ROWS = 3
# By column of a row of readings: its name, its unit, and the factor to that.
GPU_CHARTS = (("clock", "MHz", 1), ("power", "W", 1), ("temperature", "C", 1), ("busy", "%", 100))
# So many earlier runs are set beside this one in figures.
COMPARED = 5


@dataclass(frozen=True, slots=True)
class PageSection:
    """A scenario as the page shows it; every chart comes with its title and a note."""

    result: ScenarioResult
    measured: str
    by: str
    account: str
    estimate: str
    problems: Sequence[tuple[str, ResultProblem]]
    machine: Sequence[tuple[str, str, charts.Chart]]
    charts: Sequence[tuple[str, str, charts.Chart]]
    logs: Sequence[tuple[str, str]]
    search: Sequence[tuple[str, ...]]
    earlier: Sequence[tuple[str, ...]]
    tokens: Sequence[tuple[str, ...]]
    token_remarks: Sequence[str]
    computed_by: Sequence[tuple[str, str]]
    gpus: Sequence[tuple[str, str]]


def render(results: Results, entries: Sequence[HistoryEntry], precision: str) -> str:
    """Return the whole page; ``entries`` are the earlier results of this system."""
    tests = dict.fromkeys(test.test for result in results.results for test in result.compliance)
    form = f" ({results.form} form)" if results.form else ""
    return render_page(
        TEMPLATE,
        title=f"{results.benchmark}{form}: MLPerf inference",
        results=results,
        parts=[_section(results, result, entries, precision) for result in results.results],
        tests=list(tests),
        cores=cores_in_words(results.host.cores_usable),
        others=_others(results),
        commands=_commands(results),
        duration=duration,
        figures=figures,
        token_heading=tokens.HEADING,
        accuracy_in_words=accuracy_in_words,
    )


def _section(
    results: Results, result: ScenarioResult, entries: Sequence[HistoryEntry], precision: str
) -> PageSection:
    run = result.performance_run
    return PageSection(
        result=result,
        measured=_times(results, result),
        by=_calls(results, result),
        account=_account(run) if run else "",
        estimate=_estimate(run) if run else "",
        problems=[(_rule(p), p) for p in results.problems if p.scenario == result.scenario],
        charts=list(_charts(results, run, entries, precision)) if run else [],
        machine=list(_machine_charts(run)) if run else [],
        logs=list(_logs(results, result)),
        search=list(summary.tries(result.find)) if result.find else [],
        earlier=list(_compared(results, run, entries, precision)) if run else [],
        tokens=tokens.rows([result]),
        token_remarks=tokens.remarks(result),
        computed_by=list(_computed_by(results, run)) if run else [],
        gpus=list(_gpus(run)) if run else [],
    )


def _calls(results: Results, result: ScenarioResult) -> str:
    """Return the call, or the calls, that measured the parts of a row."""
    new = {results.is_new(result.scenario, mode) for mode, _ in result.runs()}
    words = {(): "-", (True,): "this call", (False,): "earlier call"}
    return words.get(tuple(new), "this and earlier calls")


def _times(results: Results, result: ScenarioResult) -> str:
    """When the parts of a scenario were measured, and by which call."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for mode, around in result.runs():
        new = results.is_new(result.scenario, mode)
        groups.setdefault((minute(around.measured_at), new), []).append(mode)
    return "; ".join(
        f"{time} UTC by {'this call' if new else 'an earlier call'}: {', '.join(modes)}"
        for (time, new), modes in groups.items()
    )


def _rule(problem: ResultProblem) -> str:
    rule = problem.fault.rule
    return rule if rule.startswith(problem.mode) else f"{problem.mode}, {rule}"


def _account(run: PerformanceResult) -> str:
    queries = "" if run.queries is None else f"{run.queries} queries"
    if run.scenario.batched:
        queries = "one query"
    seconds = "" if run.duration_s is None else f" in {run.duration_s:.1f} s"
    shape = run.shape
    attempts = len(run.attempts)
    again = f"; attempt {attempts} counts" if attempts > 1 else ""
    expected = run.targets.qps or run.targets.latency_ms
    unit = "samples/s" if run.targets.qps else "ms"
    aim = f", target {figures(expected)} {unit} ({run.targets.origin})" if expected else ""
    return (
        f"{queries}{seconds}, {shape.workers} x {shape.threads} threads, batch {shape.batch}"
        f"{aim}{again}"
    )


def _computed_by(results: Results, run: PerformanceResult) -> Iterator[tuple[str, str]]:
    """Yield what computed and how, where its time went, and what it took."""
    facts = results.device_facts
    device = ", ".join(fact for name, fact in facts.items() if name in ("gpu", "device"))
    where = f"{results.device} ({device})" if device else results.device
    yield "computed by", f"{results.runtime} on {where}, {results.precision}"
    yield from run.circumstances.computed_by.items()
    if run.spent:
        yield "time of the workers", bounds.in_words(run.spent)
    if run.spent and run.spent.samples:
        yield "by accelerator", bounds.by_accelerator(run.spent)
    if run.spent and run.spent.energy:
        yield "energy (telemetry)", run.spent.energy.in_words()


def _gpus(run: PerformanceResult) -> Iterator[tuple[str, str]]:
    telemetry = run.circumstances.telemetry
    for gpu in telemetry.gpus if telemetry else ():
        yield f"GPU {gpu.name} {gpu.uuid}".replace("  ", " "), gpu.in_words() or "not readable"


def _estimate(run: PerformanceResult) -> str:
    """Return what LoadGen's estimate of a percentile is, and the percentile that was measured.

    Empty where the result is no estimate. Source: early stopping in the MLPerf inference rules.
    """
    percentile = run.meaning.split()[0]
    measured = run.latencies_ms.get(f"{percentile[1:]}.00")
    if not run.scenario.stream or not measured or run.value in (None, measured):
        return ""
    return (
        f"This is LoadGen's estimate with early stopping, which the rules count: with 99 % "
        f"confidence the {percentile} of the system is not above it. "
        f"Measured in this run: {percentile} {figures(measured)} ms."
    )


def _charts(
    results: Results, run: PerformanceResult, entries: Sequence[HistoryEntry], precision: str
) -> Iterator[tuple[str, str, charts.Chart]]:
    yield from _recorded_charts(results, run)
    yield from _token_charts(run)
    name = configuration(results, run.scenario, precision)
    mine = [entry for entry in entries if entry.configuration == name][-EARLIER:]
    now = run.circumstances.measured_at
    if any(entry.measured_at != now for entry in mine):
        dots = [_dot(entry, now) for entry in mine]
        yield "This and earlier runs", run.unit, charts.history(dots, run.unit)


def _token_charts(run: PerformanceResult) -> Iterator[tuple[str, str, charts.Chart]]:
    """Yield the distributions of the latencies of tokens, as far as LoadGen logs them."""
    if run.tokens is None:
        return
    for title, by_share in (
        ("Time to the first token", run.tokens.ttft_ms),
        ("Time per further token", run.tokens.tpot_ms),
    ):
        points = sorted((float(share), value) for share, value in by_share.items())
        if len(points) >= LEAST_ROWS:
            yield title, "ms, by percentile", charts.lines([("", points)], "ms", "percentile")


def _compared(
    results: Results, run: PerformanceResult, entries: Sequence[HistoryEntry], precision: str
) -> Iterator[tuple[str, ...]]:
    """Earlier runs of the same configuration: when, figure, this one next to it, what differs."""
    name, now = configuration(results, run.scenario, precision), run.circumstances.measured_at
    mine = [e for e in entries if e.configuration == name and e.measured_at < now]
    for entry in reversed(mine[-COMPARED:]):
        change = "-"
        if run.value and entry.value:
            change = f"{100 * (run.value / entry.value - 1):+.1f} %"
        versions = run.circumstances.versions
        other = [
            f"{key} {value}" for key, value in entry.versions.items() if versions.get(key) != value
        ]
        value = f"{figures(entry.value)} {entry.unit}"
        yield minute(entry.measured_at), value, entry.validity, change, ", ".join(other) or "none"


def _dot(entry: HistoryEntry, now: str) -> charts.Dot:
    versions = ", ".join(f"{key} {value}" for key, value in entry.versions.items())
    return charts.Dot(
        entry.value,
        f"{entry.measured_at}: {figures(entry.value)} {entry.unit}, {entry.validity}, {versions}",
        hollow=entry.validity != "VALID",
        present=entry.measured_at == now,
    )


def _recorded_charts(
    results: Results, run: PerformanceResult
) -> Iterator[tuple[str, str, charts.Chart]]:
    """Yield charts of what was recorded while the run lasted."""
    folder, limit = Path(run.log_dir).parent, _limit(results, run.scenario)
    with contextlib.suppress(HarnessError):
        queries = None if run.scenario.batched else run.queries
        yield from course.of_folder(folder, run.latencies_ms, limit, queries)


def _limit(results: Results, scenario: str) -> charts.Marker | None:
    """Return the latency limit that 99 % of the queries must keep, where the scenario has one."""
    limit_s = results.calibration.get("server_limit_s")
    return charts.Marker("limit", 1000 * limit_s) if scenario == SERVER and limit_s else None


def _machine_charts(run: PerformanceResult) -> Iterator[tuple[str, str, charts.Chart]]:
    """Yield charts of what the machine did while the run lasted."""
    try:
        document = records.read_json(Path(run.log_dir).parent / MACHINE)
        rows = document["rows"]
    except (HarnessError, KeyError):
        return
    yield from _gpus_over_time(document.get("gpus", ()))
    if len(rows) < LEAST_ROWS:
        return
    busy = [
        (name, [(row[0], 100 * row[k]) for row in rows]) for k, name in ((1, "all"), (2, "others"))
    ]
    yield "CPU over time", "% of all cores", charts.lines(busy, "%")
    for title, unit, column, size in (
        ("Clock", "MHz", 3, 1.0),
        ("Memory in use", "GiB", 4, 2.0**30),
    ):
        points = [(row[0], row[column] / size) for row in rows if row[column]]
        if len(points) >= LEAST_ROWS:
            yield f"{title} over time", unit, charts.lines([("", points)], unit)


def _gpus_over_time(
    gpus: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, str, charts.Chart]]:
    """Yield a chart for each kind of reading, with a line per GPU."""
    for column, (title, unit, factor) in enumerate(GPU_CHARTS, 1):
        series = [
            (
                f"GPU {number}" if len(gpus) > 1 else "",
                [(row[0], factor * row[column]) for row in one["rows"] if row[column] is not None],
            )
            for number, one in enumerate(gpus)
        ]
        drawn = [(name, points) for name, points in series if len(points) >= LEAST_ROWS]
        if drawn:
            names = ", ".join(dict.fromkeys(str(one["name"]) for one in gpus))
            yield f"GPU {title} over time", f"{unit}, {names}", charts.lines(drawn, unit)


def _logs(results: Results, result: ScenarioResult) -> Iterator[tuple[str, str]]:
    """Names and places, relative to the page, of further files about a scenario."""
    folder = Path(results.folder)
    for run in (result.performance_run, result.accuracy_run, *result.compliance):
        logs = Path(run.log_dir) if run and run.log_dir else None
        if logs and logs.is_dir() and logs.is_relative_to(folder):
            relative = logs.relative_to(folder)
            yield f"{relative.parts[1]} logs", quote(relative.as_posix()) + "/"
    readme = folder / result.scenario.lower() / "README.md"
    if readme.is_file():
        yield "README", quote(os.path.relpath(readme, folder))


def _others(results: Results) -> list[tuple[str, str, str]]:
    """Runs that lie in the same folder and belong to something else, by the call that made them."""
    groups: dict[tuple[str, str], list[OtherRun]] = {}
    for other in results.others:
        groups.setdefault(("; ".join(other.differs), other.command), []).append(other)
    rows = []
    for (differs, command), runs in groups.items():
        times = span([run.measured_at for run in runs])
        names = _names((run.scenario, run.mode) for run in runs)
        rows.append((differs, f"{names}; measured {times} UTC", command))
    return rows


def _names(runs: Iterable[tuple[str, str]]) -> str:
    """Scenarios with their modes."""
    modes: dict[str, list[str]] = {}
    for scenario, mode in runs:
        modes.setdefault(scenario, []).append(mode)
    return "; ".join(f"{scenario}: {', '.join(names)}" for scenario, names in modes.items())


def _commands(results: Results) -> dict[str, str]:
    """Return the command of every run, each once, and what it measured."""
    made: dict[str, list[tuple[str, str]]] = {}
    for result in results.results:
        for mode, around in result.runs():
            made.setdefault(around.command or readme.NO_COMMAND, []).append((result.scenario, mode))
    return {command: _names(runs) for command, runs in made.items()}
