"""Latencies of tokens: of the first one, and of the further ones."""

from __future__ import annotations

from collections.abc import Iterator

from mlperf.catalog import Answers

from .base import CHECKER, RULES, Finding, Rule
from .run import CheckedRun

TOKENS = "requested_use_token_latencies"
MEASURED = Rule("performance.tokens", "language models: the latencies of tokens", CHECKER)
LIMITS = Rule("performance.token-latency", "the limits of first and further tokens", RULES)

AGAIN = "run it again"
# What LoadGen logs of the p99, and the words for it.
FIRST = ("result_first_token_99.00_percentile_latency_ns", "time to the first token")
FURTHER = ("result_time_per_output_token_99.00_percentile_ns", "time per output token")


def latencies(run: CheckedRun) -> Iterator[Finding]:
    """Check the latencies of a run whose answers are counted in tokens."""
    if not run.known.token_rates or run.known.answers is not Answers.TOKENS:
        return
    if run.log.values.get(TOKENS) is not True:
        yield MEASURED.broken(run.where, "use_token_latencies is not set", AGAIN)
        return
    limit = run.limit
    if limit is None:
        return
    for (key, what), most in ((FIRST, limit.ttft_ms), (FURTHER, limit.tpot_ms)):
        reached = run.log.milliseconds(key)
        if most is None or (reached is not None and reached < most):
            continue
        fault = f"the p99 of the {what} is not logged" if reached is None else ""
        fault = fault or f"the p99 of the {what} is {reached:g} ms, the limit {most:g} ms"
        yield LIMITS.broken(run.where, fault, AGAIN)
