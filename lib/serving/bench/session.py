"""From the command line to the exit status."""

from __future__ import annotations

import time
from collections.abc import Sequence

from common.problems import Problem
from mlperf import rate_search
from mlperf.rate_search import RateTrial

from . import guide, machine, page, report
from .command import INTERRUPTED, OK, print_lines, require_all, run_command, say
from .load import CTRL_C
from .measure import measure
from .options import PROGRAM, BenchSettings, read
from .output_files import require_writable, write_all
from .probe import probe
from .report import BenchSession
from .results import Load, LoadPoint
from .target import ProbedModel

FORMATTERS = {
    "json": report.as_json,
    "csv": report.as_csv,
    "markdown": report.markdown,
    "html": page.render,
}
# How much longer than --duration the runs of a search are, and that duration without one.
LONGER = {rate_search.BRACKET: 1, rate_search.CLOSE: 1, rate_search.CONFIRM: 3}
TRY_S = 5.0
DEFAULT_S = 60.0
# p99 means that so many may be later.
ALLOWED = 0.01


def main(arguments: Sequence[str], answer: str = "") -> int:
    """Run it; the exit status: 0, 1 where something failed, 2 for a wrong command line.

    A program that starts this one names the file ``answer``: figures, or a failure, are written
    there as JSON, and a failure written there leaves the exit status 0.
    """
    return run_command(PROGRAM, arguments, read, _run, answer)


def _run(settings: BenchSettings, command: str, answer: dict[str, object]) -> int:
    require_writable(settings.files)
    if not settings.benchmark:
        print_lines([guide.model_line(settings)])
    target = probe(settings)
    print_lines(guide.judged(target))
    if target.problems:
        raise Problem("requests-failed", "the answer is wrong: " + "; ".join(target.problems))
    if not settings.benchmark:
        return OK
    session = _measured(target, command)
    print_lines(["", *report.text(session)])
    write_all(settings.files, FORMATTERS, session)
    if any(point.stopped == CTRL_C for point in session.points):
        return INTERRUPTED
    require_all(session.points, "a longer --limit")
    best = max(session.points, key=lambda point: point.rate)
    answer.update(rate=best.rate, p99_ms=best.tail_ms, highest=session.highest)
    return OK


def _measured(target: ProbedModel, command: str) -> BenchSession:
    settings, at = target.settings, time.time()
    here = machine.host()
    tried: list[RateTrial] = []
    highest = None
    if settings.search_ms:
        points, tried, highest = search(target)
    else:
        points = sweep(target)
    notes = report.notes(points, here.cores)
    return BenchSession(target, here, at, command, tuple(points), tuple(tried), highest, notes)


def sweep(target: ProbedModel) -> list[LoadPoint]:
    """Measure all loads, one after the other; Ctrl-C ends all of them."""
    settings = target.settings
    points: list[LoadPoint] = []
    # Guide 003 measures one number of threads.
    alone = len(settings.loads) == 1 and not settings.open_loop
    for size in settings.loads:
        stable = bool(settings.stable_percent)
        load = Load(size, settings.open_loop, settings.seconds, settings.count, stable)
        if alone:
            print_lines(guide.announced(settings, int(size)))
        else:
            say(f"measuring {report.load_in_words(load)}")
        points.append(measure(target, load))
        if alone:
            print_lines(guide.measured(settings, points[-1]))
        if points[-1].stopped == CTRL_C:
            break
    return points


def search(target: ProbedModel) -> tuple[list[LoadPoint], list[RateTrial], float | None]:
    """Return the highest rate under the bound: the last run that kept it, all tries, and the rate.

    Rates are requests a second. Raises Problem when no request was answered, KeyboardInterrupt
    after Ctrl-C.
    """
    settings = target.settings
    seconds = TRY_S if settings.seconds == DEFAULT_S else settings.seconds
    start = measure(target, Load(settings.connections, False, seconds))
    runs: list[LoadPoint] = []

    def attempt(rate: float, purpose: str) -> RateTrial:
        if runs and runs[-1].stopped == CTRL_C:
            raise KeyboardInterrupt
        length = seconds * LONGER[purpose]
        runs.append(measure(target, Load(rate, True, length, bound_ms=settings.search_ms)))
        tried = as_try(runs[-1], purpose)
        say(f"{purpose}: {rate:.1f} requests/s, p99 {_tail(tried)}, "
            f"{'in time' if tried.passed else 'too late'}")  # fmt: skip
        return tried

    if not start.rate:
        raise Problem("server-failed", "no request was answered", hint="see the server's log")
    found_rate = rate_search.search(0.8 * start.rate, attempt, least=start.rate / 1000)
    best = [each for each in runs if each.load.size == found_rate.qps]
    return best[-1:] or [start], list(found_rate.tries), found_rate.qps


def as_try(point: LoadPoint, purpose: str) -> RateTrial:
    """What a run says of its rate: what failed and what was never sent is late."""
    late = point.over + point.failed + point.unsent
    count = max(point.scheduled, 1)
    return RateTrial(
        qps=point.load.size,
        late_share=late / count if point.scheduled else 1.0,
        allowed_share=ALLOWED,
        queries=count,
        tail_ms=point.latency.percentile(99.0) if point.latency else None,
        seconds=point.seconds,
        purpose=purpose,
    )


def _tail(tried: RateTrial) -> str:
    return "-" if tried.tail_ms is None else f"{tried.tail_ms:.2f} ms"
