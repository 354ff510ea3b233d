"""The results as a table for people, at most 80 columns wide apart from paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from common.text import WIDTH, aligned, wrapped
from mlperf.catalog.forms import FORMS

from ..measuring.telemetry import BUSY
from ..settings import ACCURACY, COMPLIANCE, FIND, PERFORMANCE, README
from ..wording import cores_in_words, figures
from . import bounds, tokens
from .results import FindResult, ResultProblem, Results, ScenarioResult, accuracy_in_words, span

# Stands behind what the call has not measured itself.
MARK = "*"

STYLES = {
    "test": "Test runs last 10 s by default; the rules ask for 600 s (--execution_mode=valid).",
    "fast": "Fast runs last 120 s by default; the rules ask for 600 s (--execution_mode=valid).",
    "valid": "",
}


def table(results: Results, requested: Results) -> str:
    """Return the whole text: fine print, problems, then heading and one row per scenario.

    The table is last: a terminal of 24 lines shows the end. ``results`` are all that there are,
    ``requested`` those that a call was for.
    """
    loadgen = results.versions.get("loadgen", "?")
    form = f" ({results.form} form)" if results.form else ""
    title = f"MLPerf inference: {results.benchmark}{form}"
    lines = [
        *_details(results, requested),
        "",
        f"{title}, {results.runtime} on {results.device}, {results.precision}",
        f"LoadGen {loadgen} (round {results.round}), {results.style} runs, "
        f"{cores_in_words(results.host.cores_usable)}: {results.host.cpu_model}"[:WIDTH],
        "",
        *_measured(results, requested),
        *_find_results(requested),
    ]
    return "\n".join(lines) + "\n"


def _details(results: Results, requested: Results) -> list[str]:
    """Return the notes on the figures: report, form, length, host, broken rules."""
    return [
        f"report: {results.folder}/report.html",
        *_targets(requested),
        *(line for note in results.notes for line in _wrapped(f"note: {note}")),
        *_others(results),
        *_reduced(results),
        *_wrapped(results.stand_in),
        *_wrapped(FORMS[results.form].fine_print if results.form else ""),
        *_wrapped(STYLES[results.style]),
        *_where(requested),
        *_warnings(requested, PERFORMANCE),
        *_problems(requested.problems),
    ]


def _wrapped(text: str, rest: str = "") -> list[str]:
    return wrapped(text, rest=rest)


def _reduced(results: Results) -> list[str]:
    """That the model is smaller than the real one, where it is."""
    what = results.model.get("reduced", "")
    text = f"Reduced model: {what}. Its speed is not that of the real size." if what else ""
    return _wrapped(text)


def _others(results: Results) -> list[str]:
    """That runs lie in the folder which the table leaves out, and why."""
    if not results.others:
        return []
    why = dict.fromkeys("; ".join(other.differs) for other in results.others)
    count = len(results.others)
    text = (
        f"note: {count} {'run' if count == 1 else 'runs'} of another configuration "
        f"({' | '.join(why)}) in the same folder left out, see report.html"
    )
    return _wrapped(text)


def _measured(results: Results, requested: Results) -> list[str]:
    """Return the table of what counts; nothing when only targets were looked for."""
    if not {PERFORMANCE, ACCURACY, COMPLIANCE, README} & set(requested.modes):
        return []
    return [*_rows(results, requested), *_legend(results), ""]


def _where(results: Results) -> Iterator[str]:
    """Where the time and the energy of performance runs went, as far as it is known."""
    for result in results.results:
        spent = result.performance_run and result.performance_run.spent
        if spent:
            yield from _wrapped(f"time ({result.scenario}): {bounds.in_words(spent)}", "  ")
        if spent and spent.samples:
            line = f"accelerators ({result.scenario}): {bounds.by_accelerator(spent)}"
            yield from _wrapped(line, "  ")
        if spent and spent.energy:
            yield from _wrapped(f"energy ({result.scenario}): {spent.energy.in_words()}", "  ")


def _legend(results: Results) -> Iterator[str]:
    """What the mark means, where there is one."""
    times = [
        around.measured_at
        for result in results.results
        for mode, around in result.runs()
        if mode != FIND and not results.is_new(result.scenario, mode)
    ]
    if times:
        yield f"{MARK} from earlier calls, {span(times)} UTC"


def _warnings(results: Results, mode: str) -> Iterator[str]:
    """What spoiled the runs of a mode, each once with the scenarios that it befell.

    The contention differs between runs: the highest is reported.
    """
    seen: dict[str, list[str]] = {}
    busy: list[tuple[float, str, str]] = []
    for result in results.results:
        telemetry = dict(result.telemetry()).get(mode)
        for text in telemetry.warnings if telemetry else ():
            if telemetry and telemetry.taken and text.startswith(BUSY):
                busy.append((telemetry.taken.share, result.scenario, text))
            else:
                seen.setdefault(text, []).append(result.scenario)
    if busy:
        _, scenario, text = max(busy)
        others = [name for _, name, _ in busy if name != scenario]
        also = f"; less in {', '.join(others)}" if others else ""
        seen[text + also] = [scenario]
    for text, scenarios in seen.items():
        line = f"warning ({', '.join(scenarios)}): {text}"
        yield from _wrapped(line, "  ")


def _find_results(results: Results) -> list[str]:
    """What find-performance found, with the search of the Server rate."""
    if FIND not in results.modes:
        return []
    targets = [result.find for result in results.results if result.find is not None]
    rows = [("scenario", "target", "", "found by"), *(_target(target) for target in targets)]
    lines = aligned(rows, ruled=True)
    for target in targets:
        if target.tries:
            lines += ["", f"{target.scenario} search:"]
            lines += aligned(
                [("samples/s", "late", "p99", "verdict", "run"), *tries(target)], ruled=True
            )
    return [*lines, *_warnings(results, FIND), ""]


def _target(result: FindResult) -> tuple[str, ...]:
    value = "-" if result.value is None else f"{figures(result.value)} {result.unit}"
    how = f"{len(result.tries)} runs" if result.tries else "one run"
    return result.scenario, result.quantity, value, f"{how}, {result.seconds:.0f} s"


def tries(result: FindResult) -> Iterator[tuple[str, ...]]:
    """The runs of the search for the Server rate as cells: rate, late, p99, verdict, purpose."""
    for attempt in result.tries:
        tail = "-" if attempt.tail_ms is None else f"{figures(attempt.tail_ms)} ms"
        late = f"{100 * attempt.late_share:.2f} %"
        verdict = attempt.in_words()
        yield figures(attempt.qps), late, tail, verdict, attempt.purpose


def _targets(results: Results) -> list[str]:
    return [f"targets: {results.sut_file}"] if results.sut_file and FIND in results.modes else []


def _problems(problems: Sequence[ResultProblem]) -> Iterator[str]:
    """Yield broken rules; cause and advice once, below the last rule of a run that shares them."""
    for problem, later in zip_longest(problems, problems[1:]):
        text = f"{problem.scenario} {problem.mode}: {problem.fault.rule}: {problem.fault.text}"
        yield from _wrapped(text, "  ")
        if later is None or _remedy(problem) != _remedy(later):
            yield from _remedy(problem)[2]


def _remedy(problem: ResultProblem) -> tuple[str, str, list[str]]:
    fault = problem.fault
    busy = f"  the host was busy: {fault.host}" if fault.host else ""
    lines = _wrapped(busy, "  ")
    lines += _wrapped(f"  -> {fault.advice}", "     ")
    return problem.scenario, problem.mode, lines


def _rows(results: Results, requested: Results) -> list[str]:
    wanted = {result.scenario for result in requested.results}
    shown = [
        result for result in results.results if result.scenario in wanted or _is_measured(result)
    ]
    tests = tuple(dict.fromkeys(test.test for result in shown for test in result.compliance))
    heading = ("scenario", "result", "metric", "validity", "accuracy", "target")
    lines = aligned([heading, *(_row(results, result) for result in shown)], ruled=True)
    if timed := tokens.table(shown):
        lines += ["", *timed]
    if not tests:
        return lines
    rows = [(result.scenario, *_tests(results, result, tests)) for result in shown]
    return [*lines, "", *aligned([("compliance", *tests), *rows], ruled=True)]


def _is_measured(result: ScenarioResult) -> bool:
    return any(mode != FIND for mode, _ in result.runs())


def _tests(results: Results, result: ScenarioResult, tests: tuple[str, ...]) -> tuple[str, ...]:
    passed = {test.test: test.passed for test in result.compliance}
    words = {True: "PASS", False: "FAIL", None: "-"}
    return tuple(
        words[passed.get(test)] + (_mark(results, result, test) if test in passed else "")
        for test in tests
    )


def _mark(results: Results, result: ScenarioResult, mode: str) -> str:
    return "" if results.is_new(result.scenario, mode) else MARK


def _row(results: Results, result: ScenarioResult) -> tuple[str, ...]:
    speed, metric = "-", "-"
    if result.performance_run is not None:
        metric = result.performance_run.meaning
    if result.value is not None:
        speed = f"{figures(result.value)} {result.unit}{_mark(results, result, PERFORMANCE)}"
    accuracy, target = (
        "-" if value is None else accuracy_in_words(value, result.accuracy_unit)
        for value in (result.accuracy, result.accuracy_target)
    )
    if result.accuracy_reached is False:
        accuracy += " LOW"
    if result.accuracy is not None:
        accuracy += _mark(results, result, ACCURACY)
    return result.scenario, speed, metric, result.validity or "-", accuracy, target
