"""report.html: one file that needs no network, with charts for every scenario."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .. import records
from ..errors import HarnessError
from ..measuring.telemetry import Range, Telemetry
from ..settings import OFFLINE, SERVER
from ..wording import cores_in_words, duration, figures
from . import svg
from .history import Entry, configuration
from .results import (
    ComplianceResult,
    FindResult,
    OtherRun,
    PerformanceResult,
    Problem,
    Results,
    ScenarioResult,
    accuracy_in_words,
    minute,
    span,
)

SERIES = "series.json"
EARLIER = 30
STYLE = Path(__file__).with_name("page.css")


def render(results: Results, entries: Sequence[Entry], precision: str) -> str:
    """The whole page; ``entries`` are the earlier results of this system."""
    form = f" ({results.form} form)" if results.form else ""
    title = f"{results.benchmark}{form}: MLPerf inference"
    body = "".join(
        [
            f"<h1>{escape(results.benchmark)}{escape(form)}</h1>",
            f'<p class="lead">{escape(_lead(results))}</p>',
            _notes(results),
            f"<section><h2>Summary</h2>{_summary(results)}</section>",
            *(_scenario(results, each, entries, precision) for each in results.results),
            _others(results),
            f"<section><h2>System</h2>{_system(results)}</section>",
        ]
    )
    style = STYLE.read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _lead(results: Results) -> str:
    version = results.versions.get(results.backend, "")
    machine = f"{cores_in_words(results.host.cores_usable)}: {results.host.cpu_model}"
    return (
        f"{results.backend} {version} on {results.device}, {results.precision}, LoadGen "
        f"{results.versions.get('loadgen', '?')} (round {results.round}), {results.style} runs, "
        f"{results.division} division, {machine}"
    )


def _notes(results: Results) -> str:
    notes = list(results.notes)
    if results.form == "tiny":
        notes.insert(
            0, "Tiny form: no MLPerf submission result, and no word on the full benchmark."
        )
    if results.style != "valid":
        notes.append("Short runs: VALID means by LoadGen's word under the shortened duration.")
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "facts") -> str:
    """A table of cells that are HTML already; the page's style knows its ``kind``."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _summary(results: Results) -> str:
    tests = list(dict.fromkeys(test.test for each in results.results for test in each.compliance))
    heading = ["scenario", "result", "validity", "accuracy", "target", *tests, "metric", "measured"]
    rows = [[*_summary_row(each, tests), _when(results, each)] for each in results.results]
    return table(heading, rows, "figures")


def _when(results: Results, result: ScenarioResult) -> str:
    """By what call the parts of a row were measured."""
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


def _others(results: Results) -> str:
    """Runs that lie in the same folder and belong to something else, by the call that made them."""
    if not results.others:
        return ""
    groups: dict[tuple[str, str], list[OtherRun]] = {}
    for each in results.others:
        groups.setdefault(("; ".join(each.differs), each.command), []).append(each)
    items = "".join(
        f"<li><b>{escape(differs)}</b><br>{escape(_names(runs))}<br>"
        f"<code>{escape(command)}</code></li>"
        for (differs, command), runs in groups.items()
    )
    return (
        "<section><h2>Runs of another configuration</h2><p>They lie in the same folder and are "
        f'no part of the results above.</p><ul class="problems">{items}</ul></section>'
    )


def _names(runs: Sequence[OtherRun]) -> str:
    """Scenarios with their modes, and when the first and the last of them was made."""
    modes: dict[str, list[str]] = {}
    for run in runs:
        modes.setdefault(run.scenario, []).append(run.mode)
    named = "; ".join(f"{scenario}: {', '.join(found)}" for scenario, found in modes.items())
    return f"{named}; measured {span([run.measured_at for run in runs])} UTC"


def _summary_row(result: ScenarioResult, tests: Sequence[str]) -> list[str]:
    run = result.performance_run
    made = {test.test: test for test in result.compliance}
    accuracy = "-"
    if result.accuracy is not None:
        accuracy = escape(accuracy_in_words(result.accuracy, result.accuracy_unit))
        accuracy += "" if result.accuracy_reached else " " + _badge("LOW")
    target = "-"
    if result.accuracy_target is not None:
        target = escape(accuracy_in_words(result.accuracy_target, result.accuracy_unit))
    return [
        f"<b>{escape(result.scenario)}</b>",
        "-" if result.value is None else f"{figures(result.value)} {escape(result.unit or '')}",
        _badge(result.validity) if result.validity else "-",
        accuracy,
        target,
        *(_badge("PASS" if made[t].passed else "FAIL") if t in made else "-" for t in tests),
        escape(run.meaning) if run else "-",
    ]


def _badge(text: str) -> str:
    good = text in ("VALID", "PASS")
    return f'<span class="badge {"good" if good else "bad"}">{escape(text)}</span>'


def _scenario(
    results: Results, result: ScenarioResult, entries: Sequence[Entry], precision: str
) -> str:
    parts = [f"<h2>{escape(result.scenario)}</h2>"]
    charts: list[str] = []
    if result.runs():
        parts.append(f'<p class="when">Measured {escape(_times(results, result))}</p>')
    run = result.performance_run
    if run is not None:
        value = "no figure" if run.value is None else f"{figures(run.value)} {run.unit}"
        parts.append(
            f'<p class="figure"><b>{escape(value)}</b> {escape(run.meaning)} '
            f"{_badge(run.validity)}</p><p>{escape(_account(run))}</p>"
        )
        charts += _run_charts(run)
        name = configuration(results, run.scenario, precision)
        charts.append(_card("This and earlier runs", _earlier(run, name, entries), run.unit))
    if result.find is not None:
        parts.append(f"<p>{escape(_found(result.find))}</p>")
        charts += _search(result.find)
    problems = [each for each in results.problems if each.scenario == result.scenario]
    if problems:
        items = "".join(
            f"<li><b>{escape(_rule(each))}:</b> "
            f"{escape(each.fault.text)}. <i>{escape(each.fault.advice)}</i></li>"
            for each in problems
        )
        parts.append(f'<ul class="problems">{items}</ul>')
    parts.append(f'<div class="cards">{"".join(charts)}</div>')
    parts += [_compliance(test) for test in result.compliance]
    if run is not None and run.circumstances.telemetry is not None:
        parts.append(_telemetry(run.circumstances.telemetry))
    return f"<section>{''.join(parts)}</section>"


def _rule(problem: Problem) -> str:
    rule = problem.fault.rule
    return rule if rule.startswith(problem.mode) else f"{problem.mode}, {rule}"


def _account(run: PerformanceResult) -> str:
    queries = "" if run.queries is None else f"{run.queries} queries"
    if run.scenario == OFFLINE:
        queries = "one query"
    seconds = "" if run.duration_s is None else f" in {run.duration_s:.1f} s"
    shape = run.shape
    attempts = len(run.attempts)
    again = f"; attempt {attempts} counts" if attempts > 1 else ""
    told = run.targets.qps or run.targets.latency_ms
    unit = "samples/s" if run.targets.qps else "ms"
    aim = f", told to expect {figures(told)} {unit} ({run.targets.origin})" if told else ""
    return (
        f"{queries}{seconds}, {shape.workers} x {shape.threads} threads, batch {shape.batch}"
        f"{aim}{again}"
    )


def _run_charts(run: PerformanceResult) -> Iterator[str]:
    try:
        series = records.read_json(Path(run.log_dir).parent / SERIES)
    except HarnessError:
        return
    if series.get("counts"):
        markers = [
            svg.Marker(f"p{float(name):g}", run.latencies_ms[name])
            for name in ("50.00", "90.00", "99.00")
            if run.latencies_ms.get(name)
        ]
        chart = svg.histogram(series["edges_ms"], series["counts"], markers, "ms")
        note = f"{series['recorded']} queries recorded, lines by LoadGen"
        yield _card("Latency", chart, note)
    points = rates(series.get("progress", []))
    if len(points) > 1:
        yield _card("Throughput over time", svg.lines([("", points)], "samples/s"), "samples/s")
    times = series.get("over_time", [])
    if len(times) > 1:
        both = [
            ("p50", [(row[0], row[1]) for row in times]),
            ("p99", [(row[0], row[2]) for row in times]),
        ]
        legend = '<span class="key s0">p50</span> <span class="key s1">p99</span> ms'
        yield _card("Latency over time", svg.lines(both, "ms"), legend, html=True)


def rates(progress: Sequence[Sequence[float]], most: int = 60) -> list[svg.Point]:
    """Samples/s between looks at the count, from the first answer to the last."""
    counts = [count for _, count in progress]
    if not counts or not counts[-1]:
        return []
    first = next(k for k, count in enumerate(counts) if count)
    last = counts.index(counts[-1])
    kept = list(progress[max(0, first - 1) : last + 1])
    step = max(1, len(kept) // most)
    pairs = list(itertools.pairwise(kept[::step]))
    # Begin and end fall somewhere between two looks, so the rates there are too low.
    whole = pairs[1:-1] if len(pairs) > 4 else pairs
    return [
        ((begin[0] + end[0]) / 2 - kept[0][0], (end[1] - begin[1]) / (end[0] - begin[0]))
        for begin, end in whole
        if end[0] > begin[0]
    ]


def _earlier(run: PerformanceResult, name: str, entries: Sequence[Entry]) -> str:
    mine = [entry for entry in entries if entry.configuration == name][-EARLIER:]
    now = run.circumstances.measured_at
    if [entry for entry in mine if entry.measured_at != now] == []:
        return '<p class="none">No earlier run of this configuration on this system.</p>'
    dots = [
        svg.Dot(
            entry.value,
            f"{entry.measured_at}: {figures(entry.value)} {entry.unit}, {entry.validity}, "
            + ", ".join(f"{key} {value}" for key, value in entry.versions.items()),
            hollow=entry.validity != "VALID",
            present=entry.measured_at == now,
        )
        for entry in mine
    ]
    return svg.dots(dots, run.unit)


def _card(title: str, content: str, note: str, html: bool = False) -> str:
    shown = note if html else escape(note)
    return (
        f"<figure><figcaption>{escape(title)} <small>{shown}</small></figcaption>{content}</figure>"
    )


def _found(found: FindResult) -> str:
    value = "nothing was found" if found.value is None else f"{figures(found.value)} {found.unit}"
    where = f", stored in {found.stored}" if found.stored else ""
    return f"find-performance: {found.quantity} = {value}{where}"


def _search(found: FindResult) -> Iterator[str]:
    if not found.tries or found.scenario != SERVER:
        return
    rows = [
        [
            f"{figures(each.qps)}",
            f"{100 * each.late_share:.2f} %",
            "-" if each.tail_ms is None else f"{figures(each.tail_ms)} ms",
            "in time" if each.passed else "too late",
            escape(each.purpose),
        ]
        for each in found.tries
    ]
    tried = table(["samples/s", "late", "p99", "verdict", "run"], rows, "figures")
    yield _card("Server search", tried, f"{len(rows)} runs")


def _compliance(test: ComplianceResult) -> str:
    lines = "<br>".join(escape(line) for line in test.lines)
    badge = _badge("PASS" if test.passed else "FAIL")
    return f"<details><summary>{escape(test.test)} {badge}</summary><p>{lines}</p></details>"


def _telemetry(seen: Telemetry) -> str:
    warnings = "".join(f'<p class="note">{escape(text)}</p>' for text in seen.warnings)
    rows = [[escape(name), escape(value)] for name, value in _facts(seen)]
    return (
        f"{warnings}<details><summary>Telemetry of this run</summary>{table(['', ''], rows)}"
        "</details>"
    )


def _facts(seen: Telemetry) -> Iterator[tuple[str, str]]:
    yield "CPU governor", ", ".join(seen.governors) or "not readable"
    yield "clock", _span(seen.frequency_mhz, "MHz")
    yield "temperature", _span(seen.temperature_c, "C")
    yield "load before, after", f"{seen.load_before}, {seen.load_after}"
    yield "busy, stolen CPU time", f"{_share(seen.busy_share)}, {_share(seen.steal_share)}"
    if seen.memory_free_bytes is not None:
        free, total = seen.memory_free_bytes / 2**30, seen.memory_total_bytes / 2**30
        yield "least free memory", f"{free:.1f} of {total:.1f} GiB"
    yield "NUMA nodes", str(seen.numa_nodes or "not readable")
    yield "transparent huge pages", seen.huge_pages or "not readable"
    energy = ", ".join(f"{name}: {joules:.1f} J" for name, joules in seen.energy_j.items())
    yield "energy (telemetry, no power measurement)", energy or "not readable"


def _span(found: Range | None, unit: str) -> str:
    if found is None:
        return "not readable"
    return f"{found.least:g} to {found.greatest:g} {unit}, mean {found.mean:g}"


def _share(value: float | None) -> str:
    return "not readable" if value is None else f"{100 * value:.1f} %"


def _asked(results: Results) -> str:
    call = results.call
    if call is None:
        return "-"
    return f"{', '.join(call.modes)} of {', '.join(call.scenarios)}; runs made: {len(call.made)}"


def _system(results: Results) -> str:
    cores = cores_in_words(results.host.cores_usable)
    facts: Mapping[str, Any] = {
        "system": results.sut,
        "operating system": results.host.system,
        "processor": f"{results.host.cpu_model}, {cores} usable",
        "memory": f"{results.host.memory_bytes / 2**30:.1f} GiB",
        "versions": ", ".join(f"{key} {value}" for key, value in results.versions.items()),
        "model": f"{results.model['name']}, sha256 {results.model['sha256']}",
        "data": f"{results.dataset['name']}, {results.dataset['count']} samples",
        "folder": results.folder,
        "stored targets": results.sut_file or "-",
        "this call": _asked(results),
        "took": duration(results.seconds),
    }
    return table(["", ""], [[escape(k), escape(str(v))] for k, v in facts.items()])
