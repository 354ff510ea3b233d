"""The compliance tests: LoadGen's settings for them, and the checks of their logs.

Nothing here runs anything. The texts are those that submission checkers look for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf.catalog import MULTI_STREAM, SINGLE_STREAM, BenchmarkSpec, Scenario

from ..errors import HarnessError
from ..settings import USUAL_SCENARIOS
from ..wording import figures
from .accuracy_log import read_logged
from .detail_log import DetailLog

TESTS = ("TEST01", "TEST04", "TEST05", "TEST06")

# The seed by which the rules choose the answers that are logged.
SAMPLING_SEED = 720381539243781796
TEST06_SAMPLES = 100
SAME_SAMPLE = 3

PASS, FAIL = "TEST PASS", "TEST FAIL"

# By how much a test's speed may differ from the submitted one, and from which latency in ms on:
# very short latencies vary more.
TOLERANCE = {"TEST01": 0.10, "TEST04": 0.10, "TEST05": 0.05}
SHORT_TOLERANCE = 0.20
SHORT_MS = {SINGLE_STREAM: 0.2, MULTI_STREAM: 1.6}


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """One verification: whether it passed, the lines of its text file, the figures compared."""

    passed: bool
    lines: tuple[str, ...]
    value: float | None = None
    reference: float | None = None


def is_short(log: DetailLog, spec: BenchmarkSpec) -> bool:
    """Return whether a run was requested that is shorter than the rules want it."""
    return (log.number("effective_min_duration_ms") or 0.0) < spec.minimum_duration_ms


def audit_config(test: str, test01_samples: int) -> str:
    """Return the audit.config of a test; raises HarnessError for a test that is not known."""
    sampled = {"mode": 2, "accuracy_log_rng_seed": SAMPLING_SEED}
    keys: dict[str, dict[str, int]] = {
        "TEST01": {**sampled, "accuracy_log_sampling_target": test01_samples},
        "TEST05": {"mode": 2, "test05": 1},
        "TEST06": {
            **sampled,
            "accuracy_log_sampling_target": TEST06_SAMPLES,
            "min_query_count": TEST06_SAMPLES,
            "min_duration": 0,
            "sample_concatenate_permutation": 0,
        },
    }
    if test == "TEST04":
        same = {
            "mode": 2,
            "performance_issue_unique": 0,
            "performance_issue_same": 1,
            "performance_issue_same_index": SAME_SAMPLE,
        }
        return "".join(
            f"*.{name}.{key} = {v}\n" for name in USUAL_SCENARIOS for key, v in same.items()
        )
    if test not in keys:
        raise HarnessError(f"no compliance test {test}; there are: {', '.join(TESTS)}")
    return "".join(f"*.*.{key} = {value}\n" for key, value in keys[test].items())


def performance(
    test: str, scenario: Scenario, submitted: DetailLog, tested: DetailLog
) -> VerificationResult:
    """Compare the speed of a test with that of the submitted run."""
    metric = scenario.result
    reference, value = submitted.result(scenario), tested.result(scenario)
    heading = [
        f"submitted run: {metric.key} = {_figure(reference)} {metric.unit}",
        f"{test} run: {metric.key} = {_figure(value)} {metric.unit}",
    ]
    wrong = _unusable(scenario, submitted, tested)
    if wrong or reference is None or value is None:
        return VerificationResult(False, (*heading, f"{FAIL}: {wrong or 'a figure is missing'}"))
    short = reference <= SHORT_MS.get(scenario, 0.0)
    tolerance = SHORT_TOLERANCE if short else TOLERANCE[test]
    change = value / reference - 1
    faster = -change if scenario.stream else change
    heading.append(f"difference: {100 * change:+.2f} %, allowed: {100 * tolerance:g} %")
    # TEST04 looks for a cache of answers: being slower is no fault. TEST05 looks for what only the
    # usual seeds make fast: there being faster is none.
    gain = {"TEST04": faster, "TEST05": -faster}.get(test, abs(change))
    passed = gain <= tolerance
    return VerificationResult(passed, (*heading, PASS if passed else FAIL), value, reference)


def _figure(value: float | None) -> str:
    return "none" if value is None else figures(value)


def _unusable(scenario: Scenario, submitted: DetailLog, tested: DetailLog) -> str:
    """Why two logs cannot be compared; empty when they can."""
    for name, log in (("submitted", submitted), ("test", tested)):
        if log.validity != "VALID":
            return f"the {name} run is {log.validity or 'unfinished'}"
        if log.errors:
            return f"the {name} run reports an error: {log.errors[0]}"
    key = "effective_target_latency_ns"
    if scenario.online and submitted.values.get(key) != tested.values.get(key):
        return "the runs had different latency limits"
    return ""


def answers(submitted: Path, tested: Path) -> VerificationResult:
    """TEST01: what was answered under load must be what the accuracy run has answered."""
    baseline = dict(read_logged(submitted))
    logged = read_logged(tested)
    missing = sorted({index for index, _ in logged if index not in baseline})
    different = [i for i, data in logged if i in baseline and baseline[i] != data]
    lines = [
        f"answers logged under load: {len(logged)} of {len({i for i, _ in logged})} samples",
        f"samples that the accuracy run lacks: {len(missing)}",
        f"answers that differ from the accuracy run: {len(different)}",
    ]
    if different:
        lines.append(f"first different sample: {different[0]}")
    passed = bool(logged) and not missing and not different
    return VerificationResult(passed, (*lines, PASS if passed else FAIL))


def nearly_equal(baseline: float, tested: float, delta_percent: float) -> VerificationResult:
    """TEST01 with answers that differ: the accuracy over the logged samples must not."""
    if not baseline or not tested:
        return VerificationResult(False, ("an accuracy of zero cannot be compared", FAIL))
    change = 100 * abs(1 - baseline / tested)
    passed = change <= delta_percent
    line = (
        f"accuracy over the logged samples: {baseline:.4f} in the accuracy run, {tested:.4f} under "
        f"load, difference {change:.3f} %, allowed {delta_percent:g} %"
    )
    return VerificationResult(passed, (line,), tested, baseline)


def tokens(log: Path, scenario: Scenario, dtype: str, end_token: int) -> VerificationResult:
    """TEST06: first tokens, ends and lengths of answers that are lists of tokens.

    Raises HarnessError for a log that cannot be read.
    """
    import numpy

    try:
        entries: Sequence[Mapping[str, Any]] = json.loads(log.read_text(encoding="utf-8"))
        decoded = [
            (
                numpy.frombuffer(bytes.fromhex(entry["data"]), dtype=dtype),
                numpy.frombuffer(bytes.fromhex(entry.get("token_data", "")), dtype=dtype),
                int(entry.get("token_count", -1)),
            )
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"cannot read {log}: {error}") from error
    first = all(list(data[: len(begin)]) == list(begin) for data, begin, _ in decoded)
    ends = all(_one_end(data.tolist(), end_token) for data, _, _ in decoded)
    lengths = all(len(data) == count for data, _, count in decoded)
    passed = bool(decoded) and ends and lengths and (first or scenario.batched)
    shown = "Skipped" if scenario.batched else str(first)
    lines = (
        f"First token check pass: {shown}",
        f"EOS check pass: {ends}",
        f"Sample length check pass: {lengths}",
        f"TEST06 verification {'complete' if passed else 'failed'}",
    )
    return VerificationResult(passed, lines)


def _one_end(tokens: Sequence[int], end_token: int) -> bool:
    """Return whether an answer ends with one end token at most."""
    return list(tokens[-2:]) != [end_token, end_token]
