"""Contradictions among the figures of a run, by the table of relations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from mlperf.catalog.scenario import MULTI_STREAM, OFFLINE, of_log

from . import relations
from .detail_log import DetailLog, record
from .relations import Contradiction, Ratio

TIME = "%m-%d-%Y %H:%M:%S.%f"
# LoadGen's other times: that of the run, and that at which LoadGen was built.
FORMS = (TIME, "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S")
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
    yield from _distributions(figures, whole=scenario is OFFLINE)
    yield from _requested(log.values)
    yield from _flags(log.values)
    yield from _times(log.values)
    for ratio_relation in relations.RATIOS:
        if scenario in ratio_relation.scenarios:
            yield from _ratio(ratio_relation, figures)


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
        if requested_key in values and used in values and values[requested_key] != values[used]:
            message = f"{requested_key} is {values[requested_key]}, {used} {values[used]}"
            yield Contradiction("what was asked for and what was used", message)


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
        if not -relations.SLACK_DAYS <= days <= most:
            text = f"{first} is {values[first]}, {second} {values[second]}"
            yield Contradiction("times of the run", text, doubtful)


def moment(value: object) -> datetime | None:
    """Return a time as LoadGen writes it, without its zone; None for none."""
    times = (_parsed(str(value), form) for form in FORMS)
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
