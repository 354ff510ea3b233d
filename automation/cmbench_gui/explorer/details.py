"""A result with all that is known of it, its system, and several results side by side."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench_gui.explorer.charting import charts, scatter
from cmbench_gui.explorer.table import TableLine, Trust, money, trust
from cmbench_gui.explorer.view import ExplorerView
from cmbench_results import compare, cost, query
from cmbench_results.distinguish import moment, short
from cmbench_results.query import Filter
from cmbench_results.render import figure, reported
from cmbench_results.store import Store
from cmbench_results.values import LOWER, OFFICIAL, VOLUNTEERS, BenchmarkResult, rates

FILES = 200
BIGGEST = 32 << 20
"""Bytes of a file that is shown."""
_READABLE = (".txt", ".json", ".md", ".log", ".csv", ".yaml", ".yml", ".conf", ".html")
_SYSTEM = ("cpu", "sockets", "cores", "memory_gb", "accelerator", "accelerators", "nodes", "os")
_NAMES = {
    "cpu": "processor",
    "memory_gb": "memory, GB",
    "os": "operating system",
    "accelerators": "number of accelerators",
}

Facts = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Runs of one configuration: their number and how far their figures lie apart."""

    runs: int
    words: str
    facts: Facts
    chart: charts.Chart | None


@dataclass(frozen=True, slots=True)
class History:
    """One configuration over time: a line and a point of the chart for every set of versions."""

    rows: list[tuple[str, str, str, str, str]]
    chart: charts.Chart | None
    phone: charts.Chart | None = None


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A result in words; ``plots`` are title, note and chart, ``files`` number, name and size."""

    result: BenchmarkResult
    system_id: str
    trust: Trust
    reported: bool
    value: str
    work: Facts
    metrics: Facts
    system: Facts
    versions: Facts
    settings: Facts
    repeats: Repeats
    history: History
    plots: list[tuple[str, str, charts.Chart]]
    files: list[tuple[int, str, str]]
    similar: str


def detail(store: Store, uid: str) -> ResultPage:
    """All of the result with this id; raises ``result-not-found``, ``ambiguous``."""
    result = store.result(uid)
    work, software = result.workload, result.software
    row = next(iter(query.find(store, Filter({"uid": (result.uid,)}), limit=1).rows), {})
    system_id = str(row.get("system_id", ""))
    words = {"benchmark": work.benchmark, "scenario": work.scenario}
    return ResultPage(
        result=result,
        system_id=system_id,
        trust=trust(result.tier),
        reported=result.tier in VOLUNTEERS,
        value=figure(result.value, result.unit),
        work=_work(result),
        metrics=list(_metrics(result)),
        system=_system(result),
        versions=_filled(
            ("framework", software.framework),
            ("backend", software.backend),
            ("device", software.device),
            ("precision", software.precision),
            *software.versions.items(),
        ),
        settings=[(name, short(value)) for name, value in sorted(result.settings.items())],
        repeats=_repeats(store, result),
        history=_history(store, result),
        plots=_plots(result),
        files=[(n, name, _size(size)) for n, (name, _, size) in enumerate(files(result))],
        similar=ExplorerView(Filter({name: (value,) for name, value in words.items()})).at(
            "/results"
        ),
    )


def _work(result: BenchmarkResult) -> Facts:
    work = result.workload
    return _filled(
        ("model", work.model),
        ("form", work.form),
        ("round", work.round and f"v{work.round}"),
        ("division", work.division),
        ("category", work.category),
        ("dataset", work.dataset),
        ("organization", result.organization),
        ("availability", result.availability),
        ("measured", moment(result.measured_at)),
        ("took", f"{result.duration_s:.1f} s" if result.duration_s else ""),
        ("figures from", result.figures_from),
        ("cost", _cost(result)),
        ("notes", result.notes),
    )


def _filled(*pairs: tuple[str, str]) -> Facts:
    return [(name, value) for name, value in pairs if value]


def _cost(result: BenchmarkResult) -> str:
    row: dict[str, Any] = {"system": result.system.name, "throughput": None, "power": None}
    row |= {metric.name: metric.value for metric in result.metrics}
    costs = cost.CostModel()
    price, amount = costs.price(row), money(costs.per_million(row))
    return f"{amount} per million, at {price.text()}" if price and amount else ""


def _metrics(result: BenchmarkResult) -> Iterator[tuple[str, str]]:
    if result.accuracy is not None:
        aim = result.accuracy_target
        target = f", target {aim:.6g}" if aim is not None else ""
        words = f"{result.accuracy:.6g} {result.accuracy_unit}".strip()
        yield "accuracy", words + reported(result.tier) + target
    for name, value in rates(result).items():
        yield name.replace("_", " "), figure(value, result.unit)
    for metric in result.metrics:
        tier = f", {metric.tier}" if metric.tier else ""
        way = "lower" if metric.direction == "lower" else "higher"
        text = f"{figure(metric.value, metric.unit)}{tier} ({way} is better)"
        yield metric.name.replace("_", " "), text


def _system(result: BenchmarkResult) -> Facts:
    facts = {name: getattr(result.system, name) for name in _SYSTEM}
    return [
        (_NAMES.get(name, name), f"{value:g}" if isinstance(value, int | float) else str(value))
        for name, value in facts.items()
        if value not in ("", 0, 0.0)
    ]


def _repeats(store: Store, result: BenchmarkResult) -> Repeats:
    """Runs of the same configuration, in the order of their time."""
    series = Filter({"series": (result.series,)})
    rows = query.find(store, series, "measured_at", 60).rows
    rows = tuple(row for row in rows if row["value"] is not None)
    valid = [row["value"] for row in rows if row["validity"] != "INVALID"]
    dots = [
        charts.Dot(
            row["value"],
            f"{row['measured_at'] or row['round']}: {figure(row['value'], row['unit'])}",
            hollow=row["validity"] == "INVALID",
            present=row["uid"] == result.uid,
        )
        for row in rows
    ]
    chart = charts.history(dots, result.unit) if len(dots) > 1 else None
    if len(valid) < 2:
        return Repeats(len(valid), "single run", [], chart)
    middle = statistics.median(valid)
    apart = (max(valid) - min(valid)) / middle if middle else 0.0
    facts = [
        ("valid runs", str(len(valid))),
        ("lowest", figure(min(valid), result.unit)),
        ("median", figure(middle, result.unit)),
        ("highest", figure(max(valid), result.unit)),
        ("standard deviation", figure(statistics.stdev(valid), result.unit)),
    ]
    return Repeats(len(valid), f"{len(valid)} runs, spread {apart:.1%}", facts, chart)


def _history(store: Store, result: BenchmarkResult) -> History:
    """Runs of one configuration by their versions; empty where these never differed."""
    if result.tier == OFFICIAL:
        return History([], None)
    lines = compare.over_time(store, result)
    if len(lines) < 2:
        return History([], None)
    rows, points = [], []
    for place, line in enumerate(lines):
        middle = figure(statistics.median(line.values), result.unit)
        runs = str(len(line.runs))
        rows.append((line.versions, middle, runs, line.runs[0].measured_at[:10], line.verdict))
        for run in line.runs:
            label = f"{figure(run.value, run.unit)}; {line.versions}; {run.measured_at[:16]}"
            points.append((place, run.value or 0.0, label, f"/results/{run.uid}"))
    values = [value for _, value, _, _ in points]
    low, high = min(values), max(values)
    y = scatter.Axis("result", result.unit, low, high, down=result.direction == LOWER)
    names = [line.versions for line in lines]
    chart, phone = (
        scatter.courses(names, [("runs", points)], y, frame)
        for frame in (scatter.PLANE, scatter.PHONE)
    )
    chart.series = phone.series = []
    return History(rows, chart, phone)


def _plots(result: BenchmarkResult) -> list[tuple[str, str, charts.Chart]]:
    """What the harness recorded while the run lasted, as its report draws it.

    A file from another author may hold anything: what cannot be drawn is left out.
    """
    from mlperf.harness.errors import HarnessError
    from mlperf.harness.reporting import course

    scenario = result.workload.scenario.lower()
    folder = Path(result.folder, scenario) / "performance" if result.folder else None
    if folder is None or not folder.is_dir():
        return []
    latencies = {metric.name: metric.value for metric in result.metrics}
    percentiles = {f"{p}.00": latencies.get(f"latency_p{p}") for p in (50, 90, 99)}
    known = {name: value for name, value in percentiles.items() if value}
    unreadable = (HarnessError, LookupError, TypeError, ValueError, ArithmeticError)
    try:
        return list(course.of_folder(folder, known))
    except (*unreadable, AttributeError):
        return []


def files(result: BenchmarkResult) -> list[tuple[str, Path, int]]:
    """What lies in the folder of a result and can be read: name, path and bytes.

    Links are not followed: a foreign tree may point anywhere.
    """
    if not result.folder or not os.path.isdir(result.folder):
        return []
    top, readable = Path(result.folder), []
    for folder, below, names in os.walk(top):
        directory = Path(folder)
        below[:] = sorted(
            n for n in below if not n.startswith(".") and not (directory / n).is_symlink()
        )
        if len(directory.parts) - len(top.parts) >= 6:
            below.clear()
        readable += list(_readable(top, directory, names))
        if len(readable) >= FILES:
            break
    return readable[:FILES]


def _readable(top: Path, directory: Path, names: Sequence[str]) -> Iterator[tuple[str, Path, int]]:
    for name in sorted(names):
        path = directory / name
        if path.suffix in _READABLE and path.is_file() and not path.is_symlink():
            yield path.relative_to(top).as_posix(), path, path.stat().st_size


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} KB"


def text_of(result: BenchmarkResult, number: int) -> tuple[str, bytes]:
    """The name and the content of one of its files; raises ``file-not-found``, ``too-large``."""
    known = files(result)
    if not 0 <= number < len(known):
        raise Error("file-not-found", "this result has no such file", hint="reload its page")
    name, path, size = known[number]
    if size > BIGGEST:
        raise Error(
            "bad-value",
            f"{name} is larger than {BIGGEST >> 20} MiB",
            hint=f"open it there: {path}",
        )
    try:
        return name, path.read_bytes()
    except OSError as problem:
        raise Error(
            "file-not-found", f"{name}: {problem.strerror}", hint="reload its page"
        ) from None


@dataclass(frozen=True, slots=True)
class Side:
    """Results side by side, in words."""

    letters: tuple[str, ...]
    results: tuple[BenchmarkResult, ...]
    trusts: tuple[Trust, ...]
    spreads: tuple[str, ...]
    figures: list[tuple[str, list[tuple[str, str, str]]]]
    differences: tuple[compare.Difference, ...]
    same: int
    notes: tuple[str, ...]
    chart: charts.Chart | None
    between: tuple[str, ...]
    verdicts: tuple[str, ...]


def side(store: Store, uids: Sequence[str]) -> Side:
    """Compare results; raises ``needs-input``, ``result-not-found``, ``ambiguous``."""
    comparison = compare.compare(store, uids)
    figures = [
        (
            f"{row.name.replace('_', ' ')}{', ' + row.unit if row.unit else ''}",
            [_cell(v, r) for v, r in zip(row.values, row.ratios, strict=True)],
        )
        for row in comparison.figures
    ]
    works = set(map(compare.work_of, comparison.results))
    notes = ["They are of different benchmarks, scenarios or units."] if len(works) > 1 else []
    letters = tuple(chr(65 + index) for index in range(len(comparison.results)))
    return Side(
        letters=letters,
        results=comparison.results,
        trusts=tuple(trust(result.tier) for result in comparison.results),
        spreads=tuple(map(_spread, comparison.spreads)),
        figures=figures,
        differences=tuple(
            replace(row, values=tuple(map(short, row.values))) for row in comparison.differences
        ),
        same=comparison.same,
        notes=tuple(notes),
        chart=None if notes else _beside(letters, comparison.results),
        between=() if notes else tuple(_between(comparison.results, comparison.spreads)),
        verdicts=() if notes else comparison.verdicts,
    )


def _cell(value: float | None, ratio: float | None) -> tuple[str, str, str]:
    """A figure, its ratio to the first, and which way: a difference below 1 % has none."""
    if ratio is None or ratio == 1.0:
        return figure(value), "", ""
    way = "" if abs(ratio - 1) < 0.01 else "up" if ratio > 1 else "down"
    return figure(value), f"x {ratio:.3f}" if abs(ratio - 1) < 0.1 else f"x {ratio:.3g}", way


def _between(results: Sequence[BenchmarkResult], spreads: Sequence[compare.Spread]) -> list[str]:
    """The ratio of the medians of repeated runs to the first, and how far it may be from it."""
    down = results[0].direction == LOWER
    pairs = [(spread, spreads[0]) if not down else (spreads[0], spread) for spread in spreads[1:]]
    return ["", *(_ratio(*pair) for pair in pairs)]


def _ratio(one: compare.Spread, other: compare.Spread) -> str:
    figures = (one.median, other.median, one.lowest, one.highest, other.lowest, other.highest)
    known = [value for value in figures if value]
    if len(known) < len(figures) or max(one.runs, other.runs) < 2:
        return ""
    middle, base, low, high, lowest, highest = known
    return f"x {middle / base:.3g} ({low / highest:.3g} to {high / lowest:.3g})"


def _spread(spread: compare.Spread) -> str:
    if spread.runs < 2 or spread.relative is None:
        return "single run"
    return f"{spread.runs} runs, spread {spread.relative:.1%}"


def _beside(letters: Sequence[str], results: Sequence[BenchmarkResult]) -> charts.Chart | None:
    known = [(name, result) for name, result in zip(letters, results, strict=True) if result.value]
    if len(known) < 2:
        return None
    unit = known[0][1].unit
    bars = [charts.Bar(n, r.value or 0.0, f"{n}: {figure(r.value, unit)}") for n, r in known]
    return charts.bars(bars, unit)


@dataclass(frozen=True, slots=True)
class SystemPage:
    """A system and what was measured on it."""

    name: str
    facts: Facts
    organizations: tuple[str, ...]
    total: int
    works: list[tuple[str, int, str]]
    rounds: tuple[str, ...]
    all: str
    lines: tuple[TableLine, ...] = ()


def machine(store: Store, system_id: str) -> SystemPage:
    """The system with this id; raises ``result-not-found``."""
    selection = Filter({"system_id": (system_id,)})
    page = query.find(store, selection, limit=1)
    if not page.rows:
        raise Error("result-not-found", "no system has this id", hint="go to the table of results")
    result = store.result(page.rows[0]["uid"])
    view = ExplorerView(selection)
    works = [
        (
            f"{benchmark} {scenario}",
            many,
            view.only(benchmark=benchmark, scenario=scenario).at("/results"),
        )
        for (benchmark, scenario), many in query.kinds(store, selection, ("benchmark", "scenario"))
    ]
    counts = query.facets(store, selection, ("organization", "round"))
    return SystemPage(
        name=result.system.name,
        facts=_system(result),
        organizations=tuple(name for name, _ in counts["organization"] if name),
        total=page.total,
        works=works,
        rounds=tuple(sorted(name for name, _ in counts["round"])),
        all=view.at("/results"),
    )
