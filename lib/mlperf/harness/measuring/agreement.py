"""Contradictions among the figures of a run, by the table of relations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from mlperf.catalog import Scenario
from mlperf.catalog.scenario import MULTI_STREAM, OFFLINE, of_log

from . import relations
from .detail_log import DetailLog, record
from .relations import Contradiction, Ratio

TIME = "%m-%d-%Y %H:%M:%S.%f"
# LoadGen's other times: that of the run, and that at which LoadGen was built.
FORMS = (TIME, "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S")
ZONE = re.compile(r"[+-]\d\d:\d\d$")
DAY_S = 86_400
LINE = re.compile(r"^ *([^:\n]*?) *: *(-?[\d.]+(?:e[+-]?\d+)?) *$", re.MULTILINE)
TOKENS_PER_SAMPLE = re.compile(r"'?tokens_per_sample'?: *(?:np\.float64\()?([\d.]+)")

SHORTEST_S = 0.2
"""Shorter times are not known to 1 %, which relations allow: two moments, each to 1 ms."""


def contradictions(
    log: DetailLog, summary: str = "", more: Mapping[str, float] | None = None
) -> Iterator[Contradiction]:
    """Everything that does not fit in a log, its summary and ``more`` derived figures."""
    figures = {**numbers(log), **(more or {})}
    scenario = of_log(log.values.get("effective_scenario"))
    yield from _summary(figures, summary, scenario is MULTI_STREAM)
    yield from _words(log, summary)
    yield from _stopping(log.values, summary)
    yield from _loaded(log.values)
    yield from _distributions(figures, whole=scenario is OFFLINE)
    yield from _kept(log)
    if scenario is Scenario.SERVER:
        yield from _tokens(figures)
    for ratio_relation in relations.RATIOS:
        if scenario in ratio_relation.scenarios:
            yield from _ratio(ratio_relation, figures)


def of_accuracy(log: DetailLog, summary: str) -> Iterator[Contradiction]:
    """Yield what does not fit in the logs of an accuracy run, which have no figures."""
    yield from _kept(log)
    if log.validity not in ("", "VALID"):
        yield Contradiction("verdict and its reasons", f"it says {log.validity} of itself")
    # Results were accepted whose summary alone counts an error, or is that of another run.
    yield from (replace(fault, doubtful=True) for fault in _errors(log, summary))
    if stated := relations.VERDICT.search(summary):
        message = f"the summary is that of a performance run: {stated[0]}"
        yield Contradiction("summary and detailed log", message, doubtful=True)


def of_one_result(
    log: DetailLog, other: DetailLog, keys: Iterable[str] = relations.OF_RESULT
) -> Iterator[Contradiction]:
    """Yield figures that two runs of one result must have in common, and do not have.

    Over a network, two names of one system have been accepted.
    """
    for key in keys:
        one, two = log.values.get(key), other.values.get(key)
        if one is not None and two is not None and one != two:
            message = f"{key} is {one}, in the performance run {two}"
            yield Contradiction("runs of one result", message, doubtful=True)


def _kept(log: DetailLog) -> Iterator[Contradiction]:
    """Yield contradictions of a log that are none of its figures."""
    yield from _requested(log.values)
    yield from _flags(log.values)
    yield from _times(log.values)
    unmarked = [key for key in log.values if key.startswith(relations.ERROR_KEY)]
    if unmarked and not log.errors:
        yield Contradiction("errors", f"{unmarked[0]} is logged, and not called an error")
    if str(log.values.get(relations.ENDED, "")).startswith(relations.ENDED_EARLY):
        yield Contradiction("verdict and its reasons", f"it says {log.values[relations.ENDED]}")


def numbers(log: DetailLog) -> dict[str, float]:
    """Return the numeric figures of a log by their keys."""
    pairs = ((key, log.number(key)) for key in log.values)
    return {key: value for key, value in pairs if value is not None}


def derived(path: Path, log: DetailLog, accuracy: str = "") -> dict[str, float]:
    """Return the figures of ``relations.DERIVED`` that the files have."""
    known = {relations.LOG_S: _log_seconds(path), relations.POWER_S: _power_seconds(log)}
    tokens = TOKENS_PER_SAMPLE.search(accuracy)
    known[relations.ACCURACY_TOKENS] = float(tokens[1]) if tokens else None
    return {key: value for key, value in known.items() if value}


def _log_seconds(path: Path) -> float | None:
    """Return the time between the first and the last record of a log, in s; None if too short."""
    times: list[float] = []
    for line in path.read_text("utf-8", "replace").splitlines():
        time_ms = relations.TIME_MS.search(line)
        if time_ms and record(line) is not None:
            times.append(float(time_ms[1]))
    return _comparable((max(times) - min(times)) / 1000) if times else None


def _power_seconds(log: DetailLog) -> float | None:
    """Return the time between power_begin and power_end, in s; None if too short."""
    begin, end = (moment(log.values.get(f"power_{word}")) for word in ("begin", "end"))
    return _comparable((end - begin).total_seconds()) if begin and end else None


def _comparable(seconds: float) -> float | None:
    """Return a time that was read off a clock of whole ms, where it is known to 1 %."""
    return seconds if abs(seconds) >= SHORTEST_S else None


def _summary(figures: Mapping[str, float], summary: str, queries: bool) -> Iterator[Contradiction]:
    """Lines of the summary that are not what the detailed log has."""
    keys = relations.summary_keys(queries)
    for label, text in LINE.findall(summary):
        logged = figures.get(keys.get(label, ""))
        if logged is not None and not _same(float(text), logged):
            message = f"the summary says {label} {text}, the detailed log {logged:g}"
            setting = label in relations.SETTINGS
            yield Contradiction("summary and detailed log", message, doubtful=setting)


def _same(one: float, other: float) -> bool:
    allowed = max(relations.LOGGED * abs(other), relations.DECIMALS)
    return abs(one - other) <= allowed


def _words(log: DetailLog, summary: str) -> Iterator[Contradiction]:
    """Words and seeds of the summary that are not those of the log, and conditions not met."""
    for label, key in relations.WORDS.items():
        line = re.search(rf"^ *{label} *: *(.*?) *$", summary, re.MULTILINE)
        if line and key in log.values and line[1] != str(log.values[key]).strip():
            message = f"the summary says {label} {line[1]}, the detailed log {log.values[key]}"
            yield Contradiction("summary and detailed log", message)
    for label, word in relations.CONDITION.findall(summary):
        message = f"VALID, although the summary says {label}: {word}"
        yield Contradiction("verdict and its reasons", message)
    yield from _errors(log, summary)


def _errors(log: DetailLog, summary: str) -> Iterator[Contradiction]:
    """Check that the summary counts errors where the detailed log has some."""
    counted = relations.ERROR_COUNT.search(summary)
    if counted and (counted[1].lower() == "no") == bool(log.errors):
        message = f"the summary says {counted[0]}, the detailed log has {len(log.errors)}"
        yield Contradiction("summary and detailed log", message)


def _stopping(values: Mapping[str, object], summary: str) -> Iterator[Contradiction]:
    """Queries and estimates in the text of early stopping that are not those of the log."""
    if values.get("requested_use_token_latencies") is True:
        return
    text = f"{values.get('early_stopping_result', '')}\n{summary}"
    stated = [("result_query_count", count) for count in relations.PROCESSED.findall(text)]
    estimates = relations.ESTIMATE.findall(text)
    stated += [(relations.ESTIMATES[percent], number) for percent, number in estimates]
    for key, number in stated:
        if key in values and str(values[key]) != number:
            message = f"early stopping says {number}, {key} is {values[key]}"
            yield Contradiction("early stopping and its text", message)
            return


def _loaded(values: Mapping[str, object]) -> Iterator[Contradiction]:
    """Check that the loaded samples are those of the data set, as many as were to be loaded."""
    loaded = values.get("loaded_qsl_set")
    total, count = (
        values.get(key)
        for key in ("qsl_reported_total_count", "effective_performance_sample_count")
    )
    if not isinstance(loaded, list) or not isinstance(total, int) or not isinstance(count, int):
        return
    # MultiStream loads a few samples twice, to fill its last query.
    if len(set(loaded)) != min(count, total) or not all(0 <= index < total for index in loaded):
        text = f"{len(set(loaded))} samples up to {max(loaded, default=0)} were loaded"
        message = f"{text}, {count} of {total} were to be"
        yield Contradiction("loaded samples", message)


def _distributions(figures: Mapping[str, float], whole: bool) -> Iterator[Contradiction]:
    """Latencies out of order; in a ``whole`` query of long ones LoadGen's sum of them overflows."""
    for name, (least, mean, most, percentile) in relations.DISTRIBUTIONS.items():
        rising = [
            least,
            *(percentile.format(percentiles) for percentiles in relations.PERCENTILES),
            most,
        ]
        for keys in (rising, [] if whole else [least, mean, most]):
            yield from _rising(name, keys, figures)
    for lower, upper in relations.AT_MOST:
        yield from _rising(f"{lower} and {upper}", [lower, upper], figures)


def _rising(
    name: str, keys: Iterable[str], figures: Mapping[str, float]
) -> Iterator[Contradiction]:
    """Yield the first pair of figures that does not rise."""
    there = [(key, figures[key]) for key in keys if key in figures]
    for (lower, one), (upper, other) in pairwise(there):
        if one > other * (1 + relations.LOGGED):
            yield Contradiction(name, f"{lower} is {one:g}, above {upper}, {other:g}")
            return


def _requested(values: Mapping[str, object]) -> Iterator[Contradiction]:
    for requested_key, used in relations.REQUESTED.items():
        if not _equal(values.get(requested_key), values.get(used)):
            message = f"{requested_key} is {values[requested_key]}, {used} {values[used]}"
            yield Contradiction("what was asked for and what was used", message)


def _equal(one: object, other: object) -> bool:
    """Whether two logged values are the same, or one of them is not there."""
    if isinstance(one, float) and isinstance(other, float | int):
        return abs(one - other) <= relations.LOGGED * abs(other)
    return one is None or other is None or one == other


def _flags(values: Mapping[str, object]) -> Iterator[Contradiction]:
    for key, value in relations.NEVER:
        if values.get(key) is value:
            yield Contradiction("verdict and its reasons", f"VALID, although {key} is {value}")
    for flag, text, never in relations.EXPLAINED:
        if values.get(flag) is True and never in str(values.get(text, "")):
            yield Contradiction("verdict and its reasons", f"{flag}, although {text} is {never}")


def _times(values: Mapping[str, object]) -> Iterator[Contradiction]:
    """Times in the wrong order, far from each other, in the future, or of no calendar."""
    keys = [key for key in ("test_datetime", "power_begin", "power_end") if values.get(key)]
    for key in keys:
        at = moment(values[key])
        if at is None or (at - datetime.now()).total_seconds() > relations.SLACK_DAYS * DAY_S:
            yield Contradiction("times of the run", f"{key} is {values[key]}")
            return
    for first, second, most, doubtful in relations.TIMES:
        one, other = moment(values.get(first)), moment(values.get(second))
        days = (other - one).total_seconds() / DAY_S if one and other else 0.0
        slack = 0.0 if first in relations.OF_ONE_CLOCK else relations.SLACK_DAYS
        if not -slack <= days <= most:
            text = f"{first} is {values[first]}, {second} {values[second]}"
            yield Contradiction("times of the run", text, doubtful)


def moment(value: object) -> datetime | None:
    """Return a time as LoadGen writes it, without its zone; None for none."""
    local = ZONE.sub("", str(value))
    times = (_parsed(local, form) for form in FORMS)
    return next((time for time in times if time is not None), None)


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def share(accuracy: str) -> Iterator[Contradiction]:
    """Yield a percentage in accuracy.txt that is not that of the numbers next to it."""
    for text, good, total in relations.SHARE.findall(accuracy):
        percent = 100 * int(good) / int(total) if int(total) else -1.0
        if abs(float(text) - percent) > relations.SHARE_DECIMALS or int(good) > int(total):
            message = f"accuracy={text}% beside good={good}, total={total}"
            yield Contradiction("accuracy and the answers that were right", message)


def scores(accuracy: str) -> Iterator[Contradiction]:
    """Yield figures of accuracy.txt that are not possible beside each other."""
    stated = {name: float(value) for name, value in relations.SCORE.findall(accuracy)}
    for name, value in stated.items():
        if value > relations.MOST_SCORE:
            yield Contradiction("scores of one text", f"{name} is {value:g} %")
    for lower, upper in relations.SCORES:
        if lower in stated and stated[lower] > stated.get(upper, math.inf) * 1.001:
            message = f"{lower} is {stated[lower]:g}, above {upper}, {stated[upper]:g}"
            yield Contradiction("scores of one text", message)
    for mean, *parts in relations.MEAN.findall(accuracy):
        middle = sum(map(float, parts)) / len(parts)
        if abs(float(mean) - middle) > relations.MEAN_DECIMALS or max(map(float, parts)) > 1:
            message = f"mean = {mean} beside {' and '.join(parts)}"
            yield Contradiction("a mean and its parts", message)


def opposites(verification: str) -> Iterator[Contradiction]:
    """Two lines of a verification that contradict each other."""
    lines = [line.strip() for line in verification.splitlines()]
    for right, wrong in relations.OPPOSITES:
        # A reason may follow the verdict.
        if right in lines and any(line.startswith(wrong) for line in lines):
            yield Contradiction("lines of a verification", f"it says {right!r} and {wrong!r}")


def _ratio(relation: Ratio, figures: Mapping[str, float]) -> Iterator[Contradiction]:
    value = ratio(relation, figures)
    if value is not None and not relation.low <= value <= relation.high:
        keys = (*relation.over, *relation.under)
        message = ", ".join(f"{key} {figures[key]:g}" for key in keys)
        yield Contradiction(relation.name, f"{relation.name} do not fit: {message}")


def _tokens(figures: Mapping[str, float]) -> Iterator[Contradiction]:
    """Check the latencies of tokens against that of a sample and the rates."""
    keys = (
        *("result_mean_latency_ns", "result_first_token_mean_latency_ns"),
        *("result_time_to_output_token_mean", "result_completed_tokens_per_second"),
        "result_completed_samples_per_sec",
    )
    latency, first, further, tokens, samples = (figures.get(key, 0.0) for key in keys)
    if not further or not samples or tokens <= 2 * samples:
        return
    share = (latency - first) / (further * (tokens / samples - 1))
    low, high = relations.TOKENS_BY_LATENCY
    if not low <= share <= high:
        message = ", ".join(f"{key} {figures.get(key, 0):g}" for key in keys)
        yield Contradiction("tokens", f"latencies and tokens of a sample do not fit: {message}")


def ratio(relation: Ratio, figures: Mapping[str, float]) -> float | None:
    """Return the share that the bounds are for; None where a figure is not there or not above 0."""
    value = 1 / relation.unit
    for keys, sign in ((relation.over, 1), (relation.under, -1)):
        for key in keys:
            figure = figures.get(key, 0.0)
            if figure <= 0:
                return None
            value *= figure**sign
    return value
