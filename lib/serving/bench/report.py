"""Results as text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from common.text import aligned
from mlperf.rate_search import RateTrial

from . import results
from .figures import LatencySummary, finite_document, latency_document
from .machine import ClientHost
from .options import PERCENTILES, BenchSettings
from .results import Load, LoadPoint
from .server import ServerShare
from .target import ProbedModel

Rows = list[tuple[str, ...]]
COLUMNS = ("load", "requests/s", "samples/s", "mean", "std", "p50", "p75", "p90", "p95", "p99",
           "p99.9", "min", "max", "failed")  # fmt: skip


@dataclass(frozen=True, slots=True)
class BenchSession:
    """All that one call found out."""

    target: ProbedModel
    host: ClientHost
    at: float
    command: str
    points: tuple[LoadPoint, ...]
    tries: tuple[RateTrial, ...] = ()
    highest: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> BenchSettings:
        """Return the settings of the session."""
        return self.target.settings


def ms(value: float) -> str:
    """Milliseconds with three digits that count."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def load_in_words(load: Load) -> str:
    """What was sent."""
    return f"{load.size:g} 1/s" if load.open_loop else f"{load.size:g} in flight"


def notes(points: Sequence[LoadPoint], cores: int) -> tuple[str, ...]:
    """The warnings on all measurements: of one kind the first, and at what other loads it is so."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for point in points:
        at = load_in_words(point.load)
        for kind, text in results.warnings(point, cores).items():
            kinds.setdefault(kind, []).append((at, text))
    if len(points) == 1:
        return tuple(text for ((_, text),) in kinds.values())
    return tuple(
        f"{at}: {text}" + (f"; also at {', '.join(each for each, _ in more)}" if more else "")
        for (at, text), *more in kinds.values()
    )


def row(point: LoadPoint) -> tuple[str, ...]:
    """Return a line of the table of all measurements."""
    latency = point.latency
    figures = ["-"] * 10
    if latency:
        tail = [latency.percentile(each) for each in PERCENTILES]
        figures = [
            ms(each) for each in (latency.mean, latency.std, *tail, latency.min, latency.max)
        ]
    counts = (f"{point.rate:.1f}", f"{point.samples_rate:.1f}")
    return (load_in_words(point.load), *counts, *figures, str(point.failed))


def breakdown(point: LoadPoint) -> Rows:
    """Return where the time of a request went, in ms."""
    if not point.server or not point.latency:
        return []
    share = point.server
    rest = point.latency.mean - share.total_ms
    return [
        ("client, in all", ms(point.latency.mean)),
        ("network and client", ms(max(0.0, rest))),
        ("server: queue", ms(share.queue_ms)),
        ("server: input", ms(share.input_ms)),
        ("server: infer", ms(share.infer_ms)),
        ("server: output", ms(share.output_ms)),
    ]


def batches(point: LoadPoint) -> Rows:
    """Return the batch sizes that the server executed."""
    if not point.server:
        return []
    each = [(str(b.size), str(b.executions), ms(b.infer_ms)) for b in point.server.batches]
    return [*each]


def facts(session: BenchSession, point: LoadPoint) -> Rows:
    """What belongs to the figures of one measurement."""
    at = point.costs
    server = "not known" if at.server is None else f"{at.server:.2f}"
    loads = f"{_known(at.load_before)} before, {_known(at.load_after)} after"
    rows: Rows = [
        ("stopped by", f"{point.stopped}, after {point.seconds:.3f} s"),
        ("requests", f"{point.requests} answered, {point.failed} failed"),
        ("processors", f"client {at.client:.2f}, server {server}, of {session.host.cores}"),
        ("machine", f"load {loads}; {at.stolen:.2f} processors stolen"),
    ]
    if point.late:
        tail = [ms(point.late.percentile(each)) for each in (50.0, 99.0)]
        text = f"p50 {tail[0]}, p99 {tail[1]}, max {ms(point.late.max)} ms"
        rows.append(("sent late by", text))
        counts = f"{point.scheduled} scheduled, {point.requests} completed"
        rows.append(("schedule", f"{counts}, {point.unsent} never sent"))
    if point.server:
        rows.append(("server", _served(point.server)))
    for kind, count in point.failures.items():
        # A server's reason may have many lines.
        rows.append((f"failed: {kind}", f"{count}, {' '.join(point.examples[kind].split())}"))
    return rows


def _served(share: ServerShare) -> str:
    mean = share.samples / share.executions if share.executions else 0
    cached = f", {share.cache_hits} out of the cache" if share.cache_hits else ""
    work = f"{share.requests} requests in {share.executions} executions"
    return f"{work} of {mean:.1f} samples{cached}"


def _known(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def tries(attempts: Sequence[RateTrial]) -> Rows:
    """Return the tries of a search."""
    return [
        (
            each.purpose,
            f"{each.qps:.1f}",
            "-" if each.tail_ms is None else ms(each.tail_ms),
            f"{100 * each.late_share:.2f} %",
            str(each.queries),
            "in time" if each.passed else "too late",
        )
        for each in attempts
    ]


TRIES = ("try", "requests/s", "p99 ms", "late", "requests", "")


def outcome(session: BenchSession) -> str:
    """Return the end of a search, in a sentence."""
    bound = f"{session.settings.search_ms:g} ms"
    if session.highest is None:
        return f"No rate keeps p99 below {bound}."
    return f"Highest rate with p99 below {bound}: {session.highest:.1f} requests/s"


def schedule_kept(session: BenchSession) -> str:
    """Up to which of several rates the schedule was kept; empty without several."""
    points = session.points
    if sum(point.load.open_loop for point in points) < 2:
        return ""
    rate = results.on_schedule(points)
    if rate is None:
        return f"No rate was sent on schedule (p99 at most {results.LATE_MS:g} ms late)."
    return f"Sent on schedule (p99 at most {results.LATE_MS:g} ms late) up to {rate:g} requests/s"


def text(session: BenchSession) -> Iterator[str]:
    """Yield the summary below guide 003's lines."""
    if session.tries:
        yield from aligned([TRIES, *tries(session.tries)], right=True)
        yield outcome(session)
        yield ""
    yield from aligned([COLUMNS, *map(row, session.points)], right=True)
    for point in session.points:
        if len(session.points) > 1:
            yield ""
            yield f"{load_in_words(point.load)}:"
        yield from (f"  {name}: {value}" for name, value in facts(session, point))
        if rows := breakdown(point):
            yield "  ms: " + ", ".join(f"{name} {value}" for name, value in rows)
        if rows := batches(point):
            yield "  batches: " + ", ".join(f"{size} ({n}x {t} ms)" for size, n, t in rows)
    if kept := schedule_kept(session):
        yield kept
    yield from (f"WARNING: {note}" for note in session.notes)


def about(session: BenchSession) -> Rows:
    """What was measured, where and how."""
    settings, model, host = session.settings, session.target.model, session.host
    where = settings.protocol + (", shared memory" if settings.shared_memory != "none" else "")
    checked = "names, shapes, types, values checked"
    if settings.golden:
        checked += ", as in the golden file"
    return [
        ("model", f"{model.name} ({model.platform or 'platform not told'})"),
        ("server", f"{session.target.server} at {settings.url}, {where}"),
        ("batch size", str(settings.batch)),
        ("input", settings.source),
        ("outputs", "; ".join(session.target.problems) or checked),
        ("client", f"{host.name}, {host.cpu}, {host.cores} cores, Python {host.python}"),
        ("date", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(session.at))),
        ("command", session.command),
    ]


def markdown(session: BenchSession) -> str:
    """Return a page of Markdown."""
    parts = [f"# {session.settings.model} under load", "", *_table(("", ""), about(session)), ""]
    if session.tries:
        parts += [*_table(TRIES, tries(session.tries)), "", outcome(session), ""]
    parts += [*_table(COLUMNS, map(row, session.points)), "", "Latencies in ms.", ""]
    for point in session.points:
        parts += [
            f"## {load_in_words(point.load)}",
            "",
            *_table(("", ""), facts(session, point)),
            "",
        ]
        if rows := breakdown(point):
            parts += [*_table(("mean of a request", "ms"), rows), ""]
        if rows := batches(point):
            parts += [*_table(("batch size", "executions", "ms"), rows), ""]
        if len(point.threads) > 1:
            parts += [*_table(("thread", *COLUMNS[2:-1]), threads(point)), ""]
    parts += [f"{kept}\n"] if (kept := schedule_kept(session)) else []
    parts += [f"- **Note:** {note}" for note in session.notes]
    return "\n".join(parts).rstrip() + "\n"


def threads(point: LoadPoint) -> Rows:
    """Return a line per thread."""
    return [
        (str(number), f"{each.rate:.1f}", *_latency(each.latency))
        for number, each in enumerate(point.threads)
    ]


def _latency(latency: LatencySummary | None) -> tuple[str, ...]:
    if latency is None:
        return ("-",) * 10
    tail = (latency.percentile(each) for each in PERCENTILES)
    return tuple(ms(each) for each in (latency.mean, latency.std, *tail, latency.min, latency.max))


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return (
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        )

    return [line(names), "|" + " --- |" * len(names), *map(line, rows)]


def as_csv(session: BenchSession) -> str:
    """Return a line per measurement, with plain numbers; latencies in ms."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("loop", "load", "batch_size", "requests", "requests_per_s", "samples_per_s", "failed",
             "unsent", "seconds", "mean_ms", "std_ms", "min_ms", "max_ms")  # fmt: skip
    parts = ("queue", "input", "infer", "output")
    tails = [f"p{each:g}_ms" for each in PERCENTILES]
    writer.writerow([*names, *tails, *(f"server_{part}_ms" for part in parts),
                     "client_processors", "server_processors", "stopped"])  # fmt: skip
    for point in session.points:
        writer.writerow(_plain(point, session.settings.batch, parts))
    return out.getvalue()


def _plain(point: LoadPoint, batch: int, parts: Sequence[str]) -> list[Any]:
    latency, share, at = point.latency, point.server, point.costs
    tail: list[Any] = [""] * (4 + len(PERCENTILES))
    if latency:
        tail = [latency.mean, latency.std, latency.min, latency.max]
        tail += [latency.percentile(each) for each in PERCENTILES]
    served = [getattr(share, f"{part}_ms") if share else "" for part in parts]
    loop = "open" if point.load.open_loop else "closed"
    counts = [point.requests, point.rate, point.samples_rate, point.failed, point.unsent]
    return [loop, point.load.size, batch, *counts, point.seconds, *tail, *served,
            at.client, "" if at.server is None else at.server, point.stopped]  # fmt: skip


def as_json(session: BenchSession) -> str:
    """Everything, for programs; a figure that is not finite is null."""
    target = session.target
    settings = asdict(session.settings)
    # Secrets of a request appear in no result.
    settings["headers"] = [name for name, _ in session.settings.headers]
    document = {
        "format": 1,
        "at": session.at,
        "command": session.command,
        "host": asdict(session.host),
        "server": target.server,
        "model": asdict(target.model),
        "settings": settings,
        "first_ms": target.first_ms,
        "problems": list(target.problems),
        "points": [_point(point) for point in session.points],
        "tries": [asdict(each) for each in session.tries],
        "highest_rate": session.highest,
        "on_schedule_rate": results.on_schedule(session.points),
        "notes": list(session.notes),
    }
    return json.dumps(finite_document(document), indent=1, allow_nan=False) + "\n"


def _point(point: LoadPoint) -> dict[str, Any]:
    threads = [{**asdict(t), "latency": latency_document(t.latency)} for t in point.threads]
    latencies = {name: latency_document(getattr(point, name)) for name in ("latency", "late")}
    return {**asdict(point), **latencies, "threads": threads}
