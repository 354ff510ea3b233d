"""LoadGen's scenarios: how queries arrive, which figure counts, what makes a run long enough.

Sources: the MLPerf inference rules (scenarios, early stopping) and LoadGen's built-in mlperf.conf.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from . import rounds
from .text_enums import TextEnum

NS_PER_MS = 1e6
# Least length of a performance run by the rules since round 1.0.
MINIMUM_DURATION_MS = 600_000
# LoadGen's Server limit for a benchmark that its rules give none.
DEFAULT_LIMIT_MS = 10.0


@dataclass(frozen=True, slots=True)
class ResultKey:
    """Which key of LoadGen's detailed log is the result of a run, and its unit.

    The logged value divided by ``divisor`` is in ``unit``. ``otherwise`` is the key for runs with
    too few queries for the first, which is zero then. ``summary`` finds the same figure in
    mlperf_log_summary.txt, under the key ``summary_key``.
    """

    key: str
    unit: str
    meaning: str
    divisor: float = 1.0
    otherwise: str = ""
    summary: str = ""
    summary_key: str = ""

    @property
    def higher_is_better(self) -> bool:
        """Return whether a rate was measured, and no latency."""
        return self.divisor == 1.0


class Scenario(TextEnum):
    """One of the ways in which LoadGen issues queries, in the order of reports.

    Interactive is a Server run of a language model with tighter limits (round 5.1 and later).
    """

    SINGLE_STREAM = "SingleStream"
    MULTI_STREAM = "MultiStream"
    SERVER = "Server"
    INTERACTIVE = "Interactive"
    OFFLINE = "Offline"

    @property
    def stream(self) -> bool:
        """Return whether the next query is issued when the last one is answered."""
        return self in (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)

    @property
    def online(self) -> bool:
        """Return whether queries arrive at random times, and their latency is limited."""
        return self in (Scenario.SERVER, Scenario.INTERACTIVE)

    @property
    def batched(self) -> bool:
        """Return whether all samples come in one query, and only the total time counts."""
        return self is Scenario.OFFLINE

    @property
    def loadgen(self) -> str:
        """Return the name of LoadGen's TestScenario, which its logs show."""
        return Scenario.SERVER.value if self is Scenario.INTERACTIVE else self.value

    def loadgen_key(self, key: str) -> str:
        """Return the name in LoadGen's mlperf.conf of a benchmark that has ``key`` elsewhere."""
        return f"{key}-interactive" if self is Scenario.INTERACTIVE else key

    @property
    def folder(self) -> str:
        """Return the folder of the scenario in a tree of results."""
        return self.value.lower()

    @property
    def percentile(self) -> float | None:
        """Return the latency percentile that the rules look at, as a share; None for Offline."""
        if self.batched:
            return None
        return 0.90 if self is Scenario.SINGLE_STREAM else 0.99

    @property
    def samples_per_query(self) -> int:
        """Samples of one query; Offline has one query of all samples."""
        return 8 if self is Scenario.MULTI_STREAM else 1

    @property
    def minimum_queries(self) -> int:
        """Fewest queries of a run that LoadGen calls VALID.

        662 is what early stopping needs for a p99 estimate with 99 % confidence; LoadGen requests
        100 elsewhere. Offline has minimums of samples by benchmark.
        """
        return {Scenario.MULTI_STREAM: 662, Scenario.OFFLINE: 1}.get(self, 100)

    @property
    def target_option(self) -> str:
        """Return the option with the expected rate (samples/s) or latency (ms)."""
        kind = "latency" if self.stream else "qps"
        return f"--{Scenario(self.loadgen).folder}_target_{kind}"

    @property
    def target_unit(self) -> str:
        """Return the unit of the target: ``ms`` or ``samples/s``."""
        return "ms" if self.stream else "samples/s"

    @property
    def result(self) -> ResultKey:
        """Return the figure that counts where answers are not counted in tokens."""
        return RESULTS[self]

    def result_in(self, benchmark_round: str) -> ResultKey:
        """Return the same by the rules of a round; raises CatalogError for an unknown one."""
        if self is MULTI_STREAM and not rounds.since(benchmark_round, FIRST_OF_EIGHT):
            return _STREAMS
        scheduled = self is SERVER and not rounds.since(benchmark_round, FIRST_COMPLETED)
        return _SCHEDULED if scheduled else self.result

    @property
    def stands_for(self) -> tuple[Scenario, ...]:
        """Return the scenarios whose result may be inferred from a run of this one, in ``edge``."""
        order = (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM, Scenario.OFFLINE)
        return order[order.index(self) + 1 :] if self.stream else ()

    @classmethod
    def of_folder(cls, name: str) -> Scenario | None:
        """The scenario that a folder of results is named after, in any case; None for another."""
        return _BY_FOLDER.get(name.lower())


_BY_FOLDER = {scenario.folder: scenario for scenario in Scenario}
SCENARIOS = tuple(Scenario)
SINGLE_STREAM, MULTI_STREAM = Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM
SERVER, INTERACTIVE, OFFLINE = Scenario.SERVER, Scenario.INTERACTIVE, Scenario.OFFLINE


# Before, a run had as many streams as were served in time, and their number is its result.
FIRST_OF_EIGHT = "2.0"
_STREAMS = ResultKey(
    "effective_samples_per_query",
    "streams",
    "streams",
    summary=r"^Samples per query\s*:\s*(\d+)",
    summary_key="Samples per query",
)
_RATE = ResultKey(
    "result_completed_samples_per_sec",
    "samples/s",
    "p99 within limit",
    summary=r"^Completed samples per second *: *([\d.]+(?:e\+?\d+)?)",
    summary_key="result_completed_samples_per_sec",
)
# Source: ``RESULT_FIELD_NEW`` of the official submission checkers.
FIRST_COMPLETED = "4.1"
_SCHEDULED = ResultKey(
    "result_scheduled_samples_per_sec",
    "samples/s",
    "p99 within limit",
    summary=r"^Scheduled samples per second *: *([\d.]+(?:e\+?\d+)?)",
    summary_key="result_scheduled_samples_per_sec",
)
RESULTS: Mapping[Scenario, ResultKey] = {
    SINGLE_STREAM: ResultKey(
        "early_stopping_latency_ss",
        "ms",
        "p90 latency",
        NS_PER_MS,
        "result_90.00_percentile_latency_ns",
        r"^90\.0*th percentile latency \(ns\) : *(\d+)",
        "result_90.00_percentile_latency_ns",
    ),
    MULTI_STREAM: ResultKey(
        "early_stopping_latency_ms",
        "ms",
        "p99 latency of 8",
        NS_PER_MS,
        "result_99.00_percentile_per_query_latency_ns",
        r"^99\.0*th percentile latency \(ns\) : *(\d+)",
        "result_99.00_percentile_per_query_latency_ns",
    ),
    SERVER: _RATE,
    INTERACTIVE: _RATE,
    OFFLINE: ResultKey(
        "result_samples_per_second",
        "samples/s",
        "throughput",
        summary=r"^Samples per second: *([\d.]+(?:e\+?\d+)?)",
        summary_key="result_samples_per_second",
    ),
}
# What counts for a benchmark whose answers are measured in tokens.
_TOKENS = ResultKey("result_completed_tokens_per_second", "tokens/s", "p99s in limits")
TOKEN_RESULTS: Mapping[Scenario, ResultKey] = {
    SERVER: _TOKENS,
    INTERACTIVE: _TOKENS,
    OFFLINE: ResultKey("result_tokens_per_second", "tokens/s", "throughput"),
}
# Where the tokens of an answer are not counted: LoadGen multiplies samples by a number of its
# configuration.
INFERRED_TOKENS: Mapping[Scenario, str] = {
    SERVER: "result_inferred_completed_tokens_per_second",
    OFFLINE: "result_inferred_tokens_per_second",
}
SUMMARY_VERDICT = re.compile(r"^Result is : (\w+)", re.MULTILINE)
SUMMARY_SCENARIO = re.compile(r"^Scenario : (\w+)", re.MULTILINE)


def of_log(text: object) -> Scenario | None:
    """Return the scenario that a log names (``effective_scenario``), or None."""
    return _BY_FOLDER.get(str(text or "").lower())
