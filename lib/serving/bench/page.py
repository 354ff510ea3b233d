"""The page of a session, drawn with the components of all other pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf.pages import charts
from mlperf.pages.render import missing_package
from mlperf.pages.render import render as render_page

from . import report
from .report import BenchSession, Rows
from .results import LoadPoint

TEMPLATE = Path(__file__).with_name("page.html")
MARKED = (50.0, 90.0, 99.0)
Drawn = tuple[str, str, charts.Chart]


@dataclass(frozen=True, slots=True)
class PageSection:
    """One measurement as the page shows it."""

    name: str
    facts: Rows
    charts: Sequence[Drawn]
    batches: Rows
    threads: Rows


def check() -> None:
    """Raise Problem where the page could not be made."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise missing_package() from error


def render(session: BenchSession) -> str:
    """Return the whole page."""
    return render_page(
        TEMPLATE,
        title=f"{session.settings.model} under load",
        session=session,
        outcome=report.outcome(session),
        try_names=report.TRIES,
        tries=report.tries(session.tries),
        names=report.COLUMNS,
        rows=[report.row(point) for point in session.points],
        sweep=list(_sweep(session)),
        points=[_part(session, point) for point in session.points],
        thread_names=("thread", *report.COLUMNS[2:-1]),
        about=report.about(session),
    )


def _part(session: BenchSession, point: LoadPoint) -> PageSection:
    return PageSection(
        report.load_in_words(point.load),
        report.facts(session, point),
        list(_charts(session, point)),
        report.batches(point),
        report.threads(point),
    )


def _charts(session: BenchSession, point: LoadPoint) -> Iterator[Drawn]:
    latency, shape = point.latency, point.shape
    if latency is None:
        return
    marks = [charts.Marker(f"p{each:g}", latency.percentile(each)) for each in MARKED]
    yield "Latency", "requests", charts.histogram(shape.edges, shape.counts, marks, "ms")
    if rows := report.breakdown(point):
        short = {"network and client": "client", "server: queue": "queue", "server: input": "input",
                 "server: infer": "infer", "server: output": "output"}  # fmt: skip
        bars = [
            charts.Bar(short[name], float(value), f"{name}: {value} ms", name not in SERVER)
            for name, value in rows[1:]
        ]
        yield "Mean of a request", "ms", charts.bars(bars, "ms")
    if len(shape.timeline) > 1:
        wanted = session.settings.percentile
        rate = [(at, value) for at, value, _ in shape.timeline]
        tail = [(at, value) for at, _, value in shape.timeline]
        yield "Requests per second", "", charts.lines([("", rate)], "1/s")
        yield f"p{wanted:g} over time", "ms", charts.lines([("", tail)], "ms")


SERVER = ("server: queue", "server: input", "server: infer", "server: output")


def _sweep(session: BenchSession) -> Iterator[Drawn]:
    """Yield all measurements side by side, where there are several."""
    points = [point for point in session.points if point.latency]
    if not 1 < len(points) <= 16:
        return
    wanted = session.settings.percentile
    rates = [
        charts.Bar(f"{p.load.size:g}", p.rate, f"{report.load_in_words(p.load)}: {p.rate:.1f} 1/s")
        for p in points
    ]
    yield "Requests per second", "by load", charts.bars(rates, "1/s")
    tails = []
    for point in points:
        value = point.latency.percentile(wanted) if point.latency else 0.0
        label = f"{report.load_in_words(point.load)}: {value:.3f} ms"
        tails.append(charts.Bar(f"{point.load.size:g}", value, label))
    yield f"p{wanted:g}", "ms by load", charts.bars(tails, "ms")
