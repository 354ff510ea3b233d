"""LoadGen's settings of a performance run: none may make the work easier."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..files import text
from .base import NATURE, NOTE, RULES, WARNING, Finding, Rule
from .run import CheckedRun

SETTINGS = Rule("performance.settings", "the settings of the rules, not those of a test", RULES)
QUERIES = Rule("performance.queries", "the queries that the rules ask for", RULES, NATURE)

USER_CONF = Rule("measurements.user-conf", "the settings of the run", RULES, NOTE)

# Settings of user.conf and their key in the log. In a third of the accepted results the rate is
# another one: the file is often that of an earlier run.
IN_USER_CONF = {
    "target_qps": "effective_target_qps",
    "min_duration": "effective_min_duration_ms",
    "performance_sample_count_override": "requested_performance_sample_count_override",
}
AGAIN = "run it again with the settings of the rules, which the harness takes by itself"
# Logs have six digits.
EQUAL = 1e-4
# Settings that only compliance tests have, and their effect.
OF_TESTS = {
    "TEST04": ("effective_performance_issue_same", "one sample was issued again and again"),
    "": ("effective_performance_issue_unique", "every sample was issued once"),
}


def settings(run: CheckedRun) -> Iterator[Finding]:
    """Settings of a run, where ``run.test`` names a compliance test, in its own way."""
    yield from _issued(run)
    yield from _ends(run)
    yield from _queries(run)
    yield from _percentile(run)
    yield from _user_conf(run)


def _user_conf(run: CheckedRun) -> Iterator[Finding]:
    """Compare user.conf with the settings that the run was made with."""
    path = run.cell.measurements / "user.conf"
    if run.test or run.measured is None or run.measured.stream:
        return
    models = rf"(?:\*|{re.escape(run.known.loadgen_key)})\.(?:\*|{re.escape(run.logged_scenario)})"
    for name, key in IN_USER_CONF.items():
        lines = re.findall(rf"^\s*{models}\.{name}\s*=\s*([\d.]+)", text(path), re.MULTILINE)
        used = run.log.number(key)
        if lines and used and not any(abs(float(each) / used - 1) < EQUAL for each in lines):
            fault = f"{name} is {lines[-1]}, the run was made with {used:g}"
            where = run.site.where(path)
            yield USER_CONF.broken(where, fault, "put the user.conf of this run there")


def _issued(run: CheckedRun) -> Iterator[Finding]:
    for test, (key, fault) in OF_TESTS.items():
        is_set = run.log.values.get(key) is True and not (test and run.test == test)
        rule = SETTINGS.at(WARNING, run.lenient)
        yield from rule.unless(not is_set, run.where, fault, AGAIN)
    logged = run.number("effective_accuracy_log_sampling_target")
    fault = f"{logged:.0f} answers were logged under load, as in a compliance test"
    free = not logged or bool(run.test)
    yield from SETTINGS.at(WARNING).unless(free, run.where, fault, AGAIN)


def _ends(run: CheckedRun) -> Iterator[Finding]:
    """Check for limits that end a run early."""
    most = run.number("effective_max_query_count")
    fault = f"max_query_count ended the run after {most:.0f} queries"
    yield from SETTINGS.at(WARNING).unless(not most, run.where, fault, AGAIN)
    longest = run.number("effective_max_duration_ms")
    fault = f"max_duration ended the run after {longest / 1000:g} s"
    enough = not longest or longest > run.known.minimum_duration_ms
    yield from SETTINGS.at(WARNING).unless(enough, run.where, fault, AGAIN)


def fewer(run: CheckedRun) -> float | None:
    """Return the number of queries where the scenario requires more; None where there are enough.

    With early stopping, a run may request fewer.
    """
    if run.measured is None:
        return None
    requested, made = map(run.log.number, ("effective_min_query_count", "result_query_count"))
    counts = (requested, made) if run.measured.batched or made is None else (made,)
    least = run.measured.minimum_queries
    return next((count for count in counts if count is not None and count < least), None)


def _queries(run: CheckedRun) -> Iterator[Finding]:
    if run.measured is None:
        return
    made, least = fewer(run), run.measured.minimum_queries
    fault = f"{made or 0:.0f} queries are fewer than the {least} of {run.measured}"
    yield from QUERIES.unless(made is None, run.where, fault, "run with --execution_mode=valid")
    if run.measured.batched:
        return
    expected, size = (
        run.measured.samples_per_query,
        run.log.number("effective_samples_per_query"),
    )
    fault = f"{size or 0:.0f} samples in a query, {run.measured} has {expected}"
    yield from SETTINGS.unless(size in (None, expected), run.where, fault, AGAIN)


def _percentile(run: CheckedRun) -> Iterator[Finding]:
    if run.measured is None or run.measured.batched:
        return
    expected = run.known.percentiles.get(run.measured, run.measured.percentile)
    used = run.log.number("effective_target_latency_percentile")
    if expected is None or used is None or abs(used - expected) < 1e-6:
        return
    # A stricter one than required does no harm.
    fault = f"the latency of the percentile {used:g} was looked at, the rules say {expected:g}"
    yield SETTINGS.at(WARNING, used > expected).broken(run.where, fault, AGAIN)
