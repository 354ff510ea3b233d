"""The page of a session, drawn with the components of all other pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mlperf.pages import charts
from mlperf.pages.render import render as render_page
from serving.bench.report import load_in_words

from . import comparison, curve, report
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
        tradeoff=curve.tradeoff(session),
        charts=list(_charts(session)),
        compared=[report.BESIDE, *comparison.rows(session.beside)] if session.beside else [],
        compared_notes=list(report.compared_notes(session)),
        about=report.about(session),
    )


def _charts(session: EndpointSession) -> Iterator[Drawn]:
    """Yield throughput and latencies by load."""
    points = sorted((p for p in session.points if p.requests), key=lambda p: p.load.size)
    if not points:
        return
    slo = session.target.call.slo
    missed = "; orange misses the limits" if slo else ""
    yield (
        "Output tokens per second",
        f"by load{missed}",
        charts.bars([_bar(session, p, p.tokens.rate, "tok/s") for p in points], "tok/s"),
    )
    for name, title in (("ttft", "TTFT p99"), ("tpot", "TPOT p99"), ("e2e", "e2e p99")):
        tails = [(p, getattr(p.latencies, name)) for p in points]
        bars = [_bar(session, p, s.percentile(99.0), "ms") for p, s in tails if s]
        limit = charts.Marker("limit", slo[name] / 1e6) if name in slo else None
        if bars:
            yield title, f"ms by load{missed}", charts.bars(bars, "ms", limit)


def _bar(session: EndpointSession, point: EndpointPoint, value: float, unit: str) -> charts.Bar:
    call = session.target.call
    missed = bool(call.slo) and not keeps(point, call.slo, call.load.percentile)
    label = f"{load_in_words(point.load)}: {value:.4g} {unit}" + ", misses --slo" * missed
    return charts.Bar(f"{point.load.size:g}", value, label, missed)
