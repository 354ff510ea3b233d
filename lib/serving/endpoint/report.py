"""Results as text, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from common.text import aligned
from serving.bench.figures import LatencySummary, finite_document, latency_document
from serving.bench.machine import ClientHost
from serving.bench.report import load_in_words, ms

from . import comparison, figures, imports
from .checks import EndpointChecks
from .comparison import ComparedRun
from .figures import EndpointPoint
from .measure import EndpointTarget

Rows = list[tuple[str, ...]]
COLUMNS = ("load", "req/s", "tok/s", "tok/s/user", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99",
           "e2e p99", "failed")  # fmt: skip
BESIDE = ("beside", *COLUMNS[:-1])
LATENCIES = ("ttft", "tpot", "itl", "e2e")


@dataclass(frozen=True, slots=True)
class EndpointSession:
    """All that one call has measured. ``best`` is the greatest load of a search that kept --slo.

    ``server`` are the settings of a server that was started for it, and other
    runs are compared with it.
    """

    target: EndpointTarget
    checks: EndpointChecks | None
    host: ClientHost
    at: float
    command: str
    points: tuple[EndpointPoint, ...]
    best: float | None = None
    server: Mapping[str, object] = field(default_factory=dict)
    beside: tuple[ComparedRun, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the warnings, of one kind the first and at which other loads it holds."""
        salted = self.target.call.prompts.salted
        kinds: dict[str, list[tuple[str, str]]] = {}
        for point in self.points:
            for kind, text in figures.warnings(point, self.host.cores, salted).items():
                kinds.setdefault(kind, []).append((load_in_words(point.load), text))
        texts = list(self.checks.notes(salted)) if self.checks else []
        for (at, text), *more in kinds.values():
            also = f"; also at {', '.join(load for load, _ in more)}" if more else ""
            texts.append(f"{at}: {text}{also}" if len(self.points) > 1 else text)
        return tuple(texts)


def checked(checks: EndpointChecks, salted: bool) -> Iterator[str]:
    """Yield what the first requests showed."""
    ways = [f"{checks.events} events"]
    if checks.usage is not None:
        ways.append(f"{checks.usage} by usage")
    if checks.ids is not None:
        ways.append(f"{checks.ids} token ids")
    yield f"first token {ms(checks.first_ms)} ms; tokens of one answer: {', '.join(ways)}"
    if cache := checks.cache:
        state = {True: "on", False: "off", None: "not clear"}[cache.cached]
        salt = "; every prompt begins with new digits" if salted else ""
        yield (
            f"prefix cache {state}: a new prompt {ms(cache.new_ms)} ms, the same again "
            f"{ms(cache.again_ms)} ms{salt}"
        )
    if checks.failed_together:
        yield f"{checks.failed_together} requests failed when several were sent at once"
    if checks.compared:
        yield (
            f"greedy answers alone and together: {checks.equal} of {checks.compared} are the same"
        )


def row(point: EndpointPoint, limits: bool, energy: bool) -> tuple[str, ...]:
    """Return a line of the table."""
    user = point.user_rate
    latencies = point.latencies
    pairs = [(latencies.ttft, 50.0), (latencies.ttft, 99.0), (latencies.tpot, 50.0),
             (latencies.tpot, 99.0), (latencies.e2e, 99.0)]  # fmt: skip
    cells = [ms(summary.percentile(at)) if summary else "-" for summary, at in pairs]
    counts: tuple[str, ...] = ("-", "-", "-")
    if point.tokens.requests:
        counts = (f"{point.rate:.2f}", f"{point.tokens.rate:.1f}", f"{user:.1f}" if user else "-")
    good = (f"{100 * point.good_share:.1f} %",) if limits else ()
    joules = point.token_energy
    used = (f"{joules:.3g}" if joules is not None else "-",) if energy else ()
    return (load_in_words(point.load), *counts, *cells, str(point.failed), *good, *used)


def columns(limits: bool, energy: bool) -> tuple[str, ...]:
    """Return the head of the table; with ``limits`` the share that kept them."""
    return COLUMNS + (("good",) if limits else ()) + (("J/token",) if energy else ())


def table(session: EndpointSession) -> Rows:
    """Return the head and a line a load."""
    limits = bool(session.target.call.slo)
    energy = any(point.energy for point in session.points)
    head = columns(limits, energy)
    return [head, *(row(point, limits, energy) for point in session.points)]


def text(session: EndpointSession) -> Iterator[str]:
    """Yield the summary on a terminal."""
    yield from aligned(table(session), right=True)
    if session.beside:
        yield ""
        yield from aligned([BESIDE, *comparison.rows(session.beside)], right=True)
        yield from compared_notes(session)
    yield "Times in ms; tok/s/user is 1/TPOT at the median."
    for point in session.points:
        for kind, count in point.failures.items():
            reason = " ".join(point.examples[kind].split())
            yield f"{load_in_words(point.load)}: {count} failed ({kind}): {reason}"
    if conclusion := outcome(session):
        yield conclusion
    yield from (f"WARNING: {note}" for note in session.notes)


def compared_notes(session: EndpointSession) -> Iterator[str]:
    """Yield how the programs of other runs count, each once."""
    noted = {
        run.points[0].program: run.points[0].notes
        for run in session.beside
        if run.points[0].program != imports.OURS
    }
    yield from (f"{program}: {text}" for program, text in noted.items() if text)


def outcome(session: EndpointSession) -> str:
    """Return the end of a search, or the best load under the limits; empty without limits."""
    call = session.target.call
    if not call.slo:
        return ""
    share = f"{call.load.percentile:g} % of requests within {limits_in_words(call.slo)}"
    good = [p for p in session.points if figures.keeps(p, call.slo, call.load.percentile)]
    if not good:
        return f"No load kept {share}."
    best = max(good, key=lambda point: point.tokens.rate)
    return (
        f"Most with {share}: {load_in_words(best.load)}, {best.tokens.rate:.1f} tok/s, "
        f"{best.goodput:.2f} good requests/s"
    )


def limits_in_words(slo: Mapping[str, float]) -> str:
    """Return the limits in ms."""
    return ", ".join(f"{name} {limit / 1e6:g} ms" for name, limit in slo.items())


def about(session: EndpointSession) -> Rows:
    """Return what was measured, where and how."""
    call, host = session.target.call, session.host
    prompts = call.prompts
    lengths = f"{_between(prompts.inputs)} words, at most {_between(prompts.outputs)} tokens out"
    what = f"random, {lengths}, seed {prompts.seed}"
    if prompts.dataset != "random":
        what = f"{prompts.dataset} ({len(session.target.prompts)} prompts)"
    rows: Rows = [
        ("model", session.target.model),
        ("endpoint", f"{call.endpoint.address}, {'chat' if call.endpoint.chat else 'completions'}"),
        ("prompts", what + (", salted" if prompts.salted else ", not salted")),
        ("limits", limits_in_words(call.slo) or "none"),
        ("client", f"{host.name}, {host.cpu}, {host.cores} cores, Python {host.python}"),
        ("date", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(session.at))),
        ("command", session.command),
    ]
    if session.checks:
        rows[2:2] = [("checks", line) for line in checked(session.checks, prompts.salted)]
    return rows


def _between(bounds: tuple[int, int]) -> str:
    least, most = bounds
    return str(least) if least == most else f"{least} to {most}"


def as_csv(session: EndpointSession) -> str:
    """Return a line a load, with plain numbers; times in ms."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(_plain(session.points[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_plain(point) for point in session.points)
    return out.getvalue()


def _plain(point: EndpointPoint) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "loop": "open" if point.load.open_loop else "closed",
        "load": point.load.size,
        "seconds": point.tokens.seconds,
        "requests": point.requests,
        "failed": point.failed,
        "unsent": point.unsent,
        **_rates(point),
    }
    for name in LATENCIES:
        summary: LatencySummary | None = getattr(point.latencies, name)
        plain[f"{name}_mean_ms"] = summary.mean if summary else ""
        for at in (50.0, 90.0, 95.0, 99.0):
            plain[f"{name}_p{at:g}_ms"] = summary.percentile(at) if summary else ""
    return plain


def as_json(session: EndpointSession) -> str:
    """Return everything, for programs; a figure that is not finite is null."""
    call = session.target.call
    endpoint = {
        "url": str(call.endpoint.address),
        "api": "chat" if call.endpoint.chat else "completions",
        "body": call.endpoint.body,
        # Secrets of a request appear in no result.
        "headers": [name for name, _ in call.endpoint.headers],
        "timeout_s": call.endpoint.timeout,
    }
    document = {
        "format": "cmbench-endpoint/1",
        "at": session.at,
        "command": session.command,
        "host": asdict(session.host),
        "model": session.target.model,
        "server": dict(session.server),
        "endpoint": endpoint,
        "prompts": asdict(call.prompts),
        "load": asdict(call.load),
        "slo_ms": {name: limit / 1e6 for name, limit in call.slo.items()},
        "checks": asdict(session.checks) if session.checks else None,
        "points": [_point(point) for point in session.points],
        "best_load": session.best,
        "notes": list(session.notes),
    }
    return json.dumps(finite_document(document), indent=1, allow_nan=False) + "\n"


def _point(point: EndpointPoint) -> dict[str, Any]:
    latencies = {name: latency_document(getattr(point.latencies, name)) for name in LATENCIES}
    named = {"latencies": latencies, "late": latency_document(point.late)}
    return {**asdict(point), **named, **_rates(point)}


def _rates(point: EndpointPoint) -> dict[str, float | None]:
    """Return the rates of a load; None where no answer was complete within its time."""
    rates = {
        "requests_per_s": point.rate,
        "output_tokens_per_s": point.tokens.rate,
        "input_tokens_per_s": point.tokens.input / point.tokens.seconds,
        "tokens_per_s_per_user": point.user_rate,
        "good_share": point.good_share,
        "goodput_per_s": point.goodput,
        "joules_per_token": point.token_energy,
    }
    return rates if point.tokens.requests else dict.fromkeys(rates)
