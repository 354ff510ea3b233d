"""The program that measures an endpoint: from its command line to its exit status."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from common.problems import Problem, bad_value
from mlperf import rate_search
from mlperf.rate_search import RateTrial
from serving.bench import machine
from serving.bench.command import (
    INTERRUPTED,
    OK,
    print_lines,
    require_all,
    run_command,
    say,
)
from serving.bench.load import CTRL_C
from serving.bench.output_files import require_writable, write_all
from serving.bench.report import load_in_words, ms
from serving.bench.results import Load

from . import checks, curve, figures, page, report
from .checks import EndpointChecks
from .comparison import read_compared
from .faults import next_step
from .figures import EndpointPoint
from .measure import EndpointTarget, measure
from .options import MOST_CONNECTIONS, PROGRAM, EndpointCall, read
from .prompts import EndpointPrompt, generated, read_prompts
from .report import EndpointSession

FORMATTERS: Mapping[str, Callable[[EndpointSession], str | bytes]] = {
    "json": report.as_json,
    "csv": report.as_csv,
    "html": page.render,
    "png": curve.png,
}


def main(
    arguments: Sequence[str], answer: str = "", server: Mapping[str, object] = MappingProxyType({})
) -> int:
    """Run it; the exit status: 0, 1 where something failed, 2 for a wrong command line.

    A program that starts this one names the file ``answer``: figures, or a failure, are written
    there as JSON, and a failure written there leaves the exit status 0. ``server`` are the
    settings of a server that it has started.
    """
    return run_command(PROGRAM, arguments, read, partial(_run, server), answer)


def _run(
    server: Mapping[str, object], call: EndpointCall, command: str, answer: dict[str, object]
) -> int:
    require_writable(call.endpoint.files)
    compared = read_compared(call.endpoint.beside)
    target = EndpointTarget(call, checks.find_model(call), _prompts(call))
    proof = _check_endpoint(target)
    session = replace(_measure_all(target, proof, command), server=server, beside=compared)
    print_lines(report.text(session))
    write_all(call.endpoint.files, FORMATTERS, session)
    if any(point.stopped == CTRL_C for point in session.points):
        return INTERRUPTED
    require_all(session.points, "a longer --duration", next_step)
    if not any(point.tokens.requests for point in session.points):
        text = "no answer was complete within the time of its load: nothing was measured"
        hint = "a longer --duration, or fewer --output_tokens"
        raise Problem("requests-failed", text, hint=hint)
    best = max(session.points, key=lambda point: point.tokens.rate)
    ttft = best.latencies.ttft
    answer.update(
        output_tokens_per_s=best.tokens.rate,
        requests_per_s=best.rate,
        ttft_p99_ms=ttft.percentile(99.0) if ttft else None,
        best_load=session.best,
    )
    return OK


def _prompts(call: EndpointCall) -> tuple[EndpointPrompt, ...]:
    """Return the prompts by their time of arrival.

    Raises Problem for a file without any, and for conversations at a fixed rate.
    """
    settings = call.prompts
    if settings.dataset == "random":
        return generated(settings.count, settings.inputs, settings.outputs, settings.seed)
    made = read_prompts(Path(settings.dataset), settings.outputs[1])
    if call.load.open_loop and any(len(prompt.turns) > 1 for prompt in made):
        raise bad_value("conversations wait for their answers", hint="--concurrency, not --rate")
    return tuple(sorted(made, key=lambda prompt: prompt.at))


def _check_endpoint(target: EndpointTarget) -> EndpointChecks | None:
    """Print and return what the checks of an endpoint find; None where they are turned off."""
    call = target.call
    if not call.endpoint.checks:
        return None
    print_lines([f"{target.model} at {call.endpoint.address}"])
    proof = checks.first_answer(target)
    proof = replace(proof, cache=checks.prefix_cache(target))
    proof = checks.with_equal_answers(target, proof)
    print_lines(f"  {line}" for line in report.checked(proof, call.prompts.salted))
    return proof


def _measure_all(
    target: EndpointTarget, proof: EndpointChecks | None, command: str
) -> EndpointSession:
    """Measure all loads or search for the best one; ``proof`` are the results of the checks."""
    at, here = time.time(), machine.host()
    searches = {"concurrency": search_concurrency, "rate": search_rate}
    kind = target.call.load.search
    points, best = searches[kind](target) if kind else (sweep(target), None)
    return EndpointSession(target, proof, here, at, command, tuple(points), best)


def sweep(target: EndpointTarget) -> list[EndpointPoint]:
    """Measure all loads, one after the other; after Ctrl-C return what was measured until then."""
    settings = target.call.load
    points: list[EndpointPoint] = []
    for size in settings.loads:
        stable = bool(settings.stable_percent)
        count = settings.count or (len(target.prompts) if settings.trace else 0)
        seconds = 1e7 if count or stable else settings.seconds
        load = Load(size, settings.open_loop, seconds, count, stable)
        points.append(_measure(target, load))
        if points[-1].stopped == CTRL_C:
            break
    return points


def _measure(target: EndpointTarget, load: Load) -> EndpointPoint:
    point = measure(target, load)
    ttft = point.latencies.ttft
    tail = f"TTFT p99 {ms(ttft.percentile(99.0))} ms" if ttft else "nothing answered"
    say(f"{load_in_words(load)}: {point.tokens.rate:.1f} tok/s, {tail}")
    return point


def search_concurrency(target: EndpointTarget) -> tuple[list[EndpointPoint], float | None]:
    """Return all measurements, and the most requests in flight at which --slo is kept.

    The number is doubled until it is not kept, then bisected.
    Raises KeyboardInterrupt after Ctrl-C.
    """
    call = target.call
    points: list[EndpointPoint] = []

    def kept(size: int) -> bool:
        points.append(_measure(target, Load(size, False, call.load.seconds)))
        if points[-1].stopped == CTRL_C:
            raise KeyboardInterrupt
        return figures.keeps(points[-1], call.slo, call.load.percentile)

    good, bad = 0, 1
    while bad <= MOST_CONNECTIONS and kept(bad):
        good, bad = bad, 2 * bad
    while bad - good > max(1, good // 16):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if kept(middle) else (good, middle)
    points.sort(key=lambda point: point.load.size)
    return points, float(good) or None


def search_rate(target: EndpointTarget) -> tuple[list[EndpointPoint], float | None]:
    """Return all measurements, and the highest rate (1/s) at which --slo is kept.

    Raises Problem when no request was answered, KeyboardInterrupt after Ctrl-C.
    """
    call = target.call
    start = _measure(target, Load(min(8, call.load.connections), False, call.load.seconds))
    points: list[EndpointPoint] = []
    if not start.rate:
        raise Problem("server-failed", "no request was answered", hint="a longer --duration")

    def attempt(rate: float, purpose: str) -> RateTrial:
        points.append(_measure(target, Load(rate, True, call.load.seconds)))
        if points[-1].stopped == CTRL_C:
            raise KeyboardInterrupt
        return as_trial(points[-1], call, purpose)

    result = rate_search.search(0.8 * start.rate, attempt, least=start.rate / 1000)
    points.sort(key=lambda point: point.load.size)
    return points, result.qps


def as_trial(point: EndpointPoint, call: EndpointCall, purpose: str) -> RateTrial:
    """Return a run as a trial of its rate; requests that failed or were not sent count as late."""
    ttft = point.latencies.ttft
    return RateTrial(
        qps=point.load.size,
        late_share=1 - point.good_share,
        allowed_share=1 - call.load.percentile / 100,
        queries=max(point.scheduled, 1),
        tail_ms=ttft.percentile(99.0) if ttft else None,
        seconds=point.seconds,
        purpose=purpose,
    )
