"""The results as a table for people, at most 80 columns wide apart from paths."""

from __future__ import annotations

import textwrap

from .detail_log import figures
from .results import Problem, Results, ScenarioResult

WIDTH = 80

FORMS = {
    "tiny": "Tiny form: a small residual network on real handwritten digits stands in for "
    "ResNet-50 on ImageNet. It proves that everything works and how fast this path is; it says "
    "nothing about the full benchmark and is no MLPerf submission result.",
}
STYLES = {
    "test": "Test runs: every performance run lasts at least 10 s by default; VALID means by "
    "LoadGen's word under that duration. The round's rules ask for 600 s "
    "(--execution_mode=valid).",
    "fast": "Fast runs: every performance run lasts at least 120 s by default. The round's rules "
    "ask for 600 s (--execution_mode=valid).",
    "valid": "Valid runs: with the durations and counts of the round's rules unless overridden.",
}


def table(results: Results) -> str:
    """The whole text: heading, one row for each asked scenario, problems, places, fine print."""
    loadgen = results.versions.get("loadgen", "?")
    runtime = results.versions.get(results.backend, "")
    form = f" ({results.form} form)" if results.form else ""
    lines = [
        f"MLPerf inference: {results.benchmark}{form}, {results.backend} {runtime}".rstrip()
        + f" on {results.device}",
        f"LoadGen {loadgen} (round {results.round}), {results.style} runs, "
        f"{results.host.cores_usable} cores: {results.host.cpu_model}"[:WIDTH],
        "",
        *_rows(results),
        "",
        *(line for problem in results.problems for line in _problem(problem)),
        *([""] if results.problems else []),
        f"logs:    {results.folder}/<scenario>/<mode>",
        f"results: {results.folder}/results.json",
        *textwrap.wrap(FORMS.get(results.form, ""), WIDTH),
        *textwrap.wrap(STYLES[results.style], WIDTH),
    ]
    return "\n".join(lines) + "\n"


def _problem(problem: Problem) -> list[str]:
    text = f"{problem.scenario} {problem.mode}: {problem.fault.rule}: {problem.fault.text}"
    advice = f"  -> {problem.fault.advice}"
    return [
        *textwrap.wrap(text, WIDTH, subsequent_indent="  "),
        *textwrap.wrap(advice, WIDTH, subsequent_indent="     "),
    ]


def _rows(results: Results) -> list[str]:
    heading = ("scenario", "result", "metric", "validity", "accuracy", "target")
    rows = [
        heading,
        *(_row(result) for result in results.results),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heading))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _row(result: ScenarioResult) -> tuple[str, ...]:
    speed, metric = "-", "-"
    if result.performance_run is not None:
        metric = result.performance_run.meaning
    if result.value is not None:
        speed = f"{figures(result.value)} {result.unit}"
    accuracy, target = (
        "-" if value is None else f"{value:.2f} {result.accuracy_unit}"
        for value in (result.accuracy, result.accuracy_target)
    )
    if result.accuracy_reached is False:
        accuracy += " LOW"
    return result.scenario, speed, metric, result.validity or "-", accuracy, target
