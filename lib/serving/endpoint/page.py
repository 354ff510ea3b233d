"""The page of a session, drawn with the components of all other pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mlperf.pages import charts
from mlperf.pages.render import render as render_page
from serving.bench.report import load_in_words

from . import report
from .figures import EndpointPoint, keeps
from .report import EndpointSession

TEMPLATE = Path(__file__).with_name("page.html")
Drawn = tuple[str, str, charts.Chart]


def render(session: EndpointSession) -> str:
    """Return the whole page."""
    head, *rows = report.table(session)
    return render_page(
        TEMPLATE,
        title=f"{session.target.model} at {session.target.call.endpoint.address.host}",
        session=session,
        outcome=report.outcome(session),
        names=head,
        rows=rows,
        curve=list(_curve(session)),
        about=report.about(session),
    )


def _curve(session: EndpointSession) -> Iterator[Drawn]:
    """Yield throughput against what a user sees, and latencies by load."""
    points = sorted((p for p in session.points if p.requests), key=lambda p: p.load.size)
    if not points:
        return
    tradeoff = [(p.user_rate, p.tokens.rate) for p in points if p.user_rate]
    if len(tradeoff) > 1:
        chart = charts.lines([("", sorted(tradeoff))], "tok/s")
        chart.name, chart.unit = "throughput against speed of one user", "tok/s/user"
        yield "Throughput against the speed of one user", "tok/s by tok/s/user", chart
    yield (
        "Output tokens per second",
        "by load",
        charts.bars([_bar(session, p, p.tokens.rate, "tok/s") for p in points], "tok/s"),
    )
    slo = session.target.call.slo
    for name, title in (("ttft", "TTFT p99"), ("tpot", "TPOT p99"), ("e2e", "e2e p99")):
        tails = [(p, getattr(p.latencies, name)) for p in points]
        bars = [_bar(session, p, s.percentile(99.0), "ms") for p, s in tails if s]
        limit = charts.Marker("limit", slo[name] / 1e6) if name in slo else None
        if bars:
            yield title, "ms by load", charts.bars(bars, "ms", limit)


def _bar(session: EndpointSession, point: EndpointPoint, value: float, unit: str) -> charts.Bar:
    call = session.target.call
    missed = bool(call.slo) and not keeps(point, call.slo, call.load.percentile)
    label = f"{load_in_words(point.load)}: {value:.4g} {unit}" + ", misses --slo" * missed
    return charts.Bar(f"{point.load.size:g}", value, label, missed)
