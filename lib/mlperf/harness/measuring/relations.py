"""Which figures of a run must agree with which others: a table, and what breaks it.

One source alone can be edited in any way that its rules allow; two of them seldom agree then. The
figures are those of mlperf_log_detail.txt by their keys, and those of other files (``DERIVED``).
The bounds were tried on runs that were published in the rounds 2.1 to 6.0: no valid one breaks
them, but for those that are called doubtful.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mlperf.catalog import Scenario
from mlperf.catalog.scenario import MULTI_STREAM, NS_PER_MS, OFFLINE, SINGLE_STREAM

NS_PER_S = 1e9
# Figures are logged with six digits, in summaries of some rounds with two decimals.
LOGGED, DECIMALS = 1e-4, 0.0051
ONLINE = (Scenario.SERVER,)
STREAMS = (SINGLE_STREAM, MULTI_STREAM)

# Figures that no key of the detailed log holds: the seconds from its first to its last line, the
# seconds between power_begin and power_end, and the tokens of a sample by accuracy.txt.
LOG_S, POWER_S, ACCURACY_TOKENS = "log_s", "power_s", "accuracy_tokens_per_sample"
DERIVED = (LOG_S, POWER_S, ACCURACY_TOKENS)

TIME_MS = re.compile(r'"time_ms": *([\d.]+)')


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Figures that do not fit each other: the relation that is broken, and the figures.

    Runs with a ``doubtful`` one have been accepted.
    """

    relation: str
    text: str
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Ratio:
    """Figures whose product, divided by that of others and ``unit``, lies in between two bounds.

    It holds in ``scenarios``, where all of the figures are there and above zero.
    """

    name: str
    scenarios: tuple[Scenario, ...]
    over: tuple[str, ...]
    under: tuple[str, ...]
    low: float
    high: float
    unit: float = 1.0


# What a summary calls a figure, and its key in the detailed log. A query of MultiStream has several
# samples, whose latencies the detailed log has too.
SUMMARY: Mapping[str, str] = {
    "Samples per second": "result_samples_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
    "Min First Token latency (ns)": "result_first_token_min_latency_ns",
    "Max First Token latency (ns)": "result_first_token_max_latency_ns",
    "Mean First Token latency (ns)": "result_first_token_mean_latency_ns",
    "Min Time per Output Token (ns)": "result_time_to_output_token_min",
    "Max Time per Output Token (ns)": "result_time_to_output_token_max",
    "Mean Time per Output Token (ns)": "result_time_to_output_token_mean",
}
# Lines of a summary that are words or seeds, and their key in the detailed log.
WORDS: Mapping[str, str] = {
    "SUT name": "sut_name",
    "Mode": "effective_test_mode",
    "qsl_rng_seed": "effective_qsl_rng_seed",
    "sample_index_rng_seed": "effective_sample_index_rng_seed",
    "schedule_rng_seed": "effective_schedule_rng_seed",
    "accuracy_log_rng_seed": "effective_accuracy_log_rng_seed",
    "accuracy_log_sampling_target": "effective_accuracy_log_sampling_target",
}
# What the summary of a valid run says of the conditions for it.
CONDITION = re.compile(
    r"^ *((?:Min duration|Min queries|Early stopping) satisfied) *: *(?!yes\b)(\w+)",
    re.MULTILINE | re.IGNORECASE,
)
ERROR_COUNT = re.compile(r"^(no|\d+) errors? encountered", re.MULTILINE | re.IGNORECASE)
# Texts of early stopping, in both logs, and the keys of their figures. With token latencies the
# estimates are those of first tokens.
PROCESSED = re.compile(r"Processed at least \d+ queries \((\d+)\)")
ESTIMATE = re.compile(r"\b(90|99)(?:\.0)?th percentile estimate: (\d+)")
ESTIMATES: Mapping[str, str] = {
    "90": "early_stopping_latency_ss",
    "99": "early_stopping_latency_ms",
}
# The same of settings, which summaries of a few accepted runs have as the user gave them.
SETTINGS: Mapping[str, str] = {
    "min_duration (ms)": "effective_min_duration_ms",
    "max_duration (ms)": "effective_max_duration_ms",
    "samples_per_query": "effective_samples_per_query",
    "min_query_count": "effective_min_query_count",
    "max_query_count": "effective_max_query_count",
    "performance_sample_count": "effective_performance_sample_count",
    "target_qps": "effective_target_qps",
}
SAMPLES: Mapping[str, str] = {
    "Min latency (ns)": "result_min_latency_ns",
    "Max latency (ns)": "result_max_latency_ns",
    "Mean latency (ns)": "result_mean_latency_ns",
}
QUERIES: Mapping[str, str] = {
    "Min latency (ns)": "result_min_query_latency_ns",
    "Max latency (ns)": "result_max_query_latency_ns",
    "Mean latency (ns)": "result_mean_query_latency_ns",
}
# The same of percentiles, of which LoadGen logs several.
PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
SUMMARY_PERCENTILES: Mapping[str, str] = {
    "{} percentile first token latency (ns)": "result_first_token_{}_percentile_latency_ns",
    "{} percentile time to output token (ns)": "result_time_per_output_token_{}_percentile_ns",
}
SAMPLE_PERCENTILES = ("{} percentile latency (ns)", "result_{}_percentile_latency_ns")
QUERY_PERCENTILES = ("{} percentile latency (ns)", "result_{}_percentile_per_query_latency_ns")

# Least, middle and greatest of one distribution: the first is the least, the percentiles rise, and
# the mean is in between.
DISTRIBUTIONS: Mapping[str, tuple[str, str, str, str]] = {
    "latency": (
        *("result_min_latency_ns", "result_mean_latency_ns", "result_max_latency_ns"),
        "result_{}_percentile_latency_ns",
    ),
    "latency of a query": (
        "result_min_query_latency_ns",
        "result_mean_query_latency_ns",
        "result_max_query_latency_ns",
        "result_{}_percentile_per_query_latency_ns",
    ),
    "time to the first token": (
        "result_first_token_min_latency_ns",
        "result_first_token_mean_latency_ns",
        "result_first_token_max_latency_ns",
        "result_first_token_{}_percentile_latency_ns",
    ),
    "time per output token": (
        "result_time_to_output_token_min",
        "result_time_to_output_token_mean",
        "result_time_to_output_token_max",
        "result_time_per_output_token_{}_percentile_ns",
    ),
}
# One figure that is never above another one.
AT_MOST: tuple[tuple[str, str], ...] = (
    ("result_first_token_mean_latency_ns", "result_mean_latency_ns"),
    ("result_first_token_max_latency_ns", "result_max_latency_ns"),
    ("result_completed_samples_per_sec", "result_completed_tokens_per_second"),
    ("result_overlatency_query_count", "result_query_count"),
    ("result_query_count", "generated_query_count"),
)
# What no valid run says of itself: a key and its value.
NEVER: tuple[tuple[str, object], ...] = (("result_perf_constraints_met", False),)
# How an error begins that LoadGen logs, and what it says last of a run that it ended.
ERROR_KEY, ENDED, ENDED_EARLY = "error_", "generic_message", "Ending early"
# A text of LoadGen next to the flag that it explains, and what it does not say where that is true.
EXPLAINED: tuple[tuple[str, str, str], ...] = (
    ("early_stopping_met", "early_stopping_result", "unsuccessful"),
    ("early_stopping_met", "early_stopping_ttft_result", "unsuccessful"),
    ("early_stopping_met", "early_stopping_tpot_result", "unsuccessful"),
)
# Times of one run: the first is not after the second, and no further from it than so many days.
# Some are local times, whatever they say, so that a day more or less is none. A machine whose clock
# was two years behind when it built LoadGen had its results accepted: those orders are doubtful.
TIMES: tuple[tuple[str, str, float, bool], ...] = (
    ("loadgen_git_commit_date", "loadgen_build_date_utc", math.inf, True),
    ("loadgen_build_date_local", "loadgen_build_date_utc", 1.0, False),
    ("loadgen_build_date_utc", "test_datetime", math.inf, True),
    ("test_datetime", "power_begin", 1.0, False),
    ("power_begin", "power_end", math.inf, False),
)
SLACK_DAYS = 1.0
# Both times are of one clock: they need no slack.
OF_ONE_CLOCK = ("power_begin",)
# A summary of an accuracy run has no verdict.
VERDICT = re.compile(r"^Result is *: *(\w+)", re.MULTILINE)
# Percent of right answers beside how many were right, by accuracy.txt, in so many decimals.
SHARE = re.compile(r"accuracy=([\d.]+)%, good=(\d+), total=(\d+)")
SHARE_DECIMALS = 0.0006
# Lines of a verification of which it has one alone.
OPPOSITES: tuple[tuple[str, str], ...] = (
    ("TEST PASS", "TEST FAIL"),
    ("First token check pass: True", "First token check pass: False"),
    ("EOS check pass: True", "EOS check pass: False"),
    ("Sample length check pass: True", "Sample length check pass: False"),
)
# What was requested, and what LoadGen went by.
REQUESTED: Mapping[str, str] = {
    "requested_scenario": "effective_scenario",
    "requested_test_mode": "effective_test_mode",
    "requested_max_query_count": "effective_max_query_count",
    "requested_performance_issue_same": "effective_performance_issue_same",
    "requested_performance_issue_same_index": "effective_performance_issue_same_index",
    "requested_performance_issue_unique": "effective_performance_issue_unique",
    "requested_accuracy_log_rng_seed": "effective_accuracy_log_rng_seed",
    "requested_accuracy_log_probability": "effective_accuracy_log_probability",
    "requested_accuracy_log_sampling_target": "effective_accuracy_log_sampling_target",
    "requested_offline_expected_qps": "effective_target_qps",
    "requested_min_duration_ms": "effective_min_duration_ms",
    "requested_max_duration_ms": "effective_max_duration_ms",
    "requested_server_target_qps": "effective_target_qps",
    "requested_qsl_rng_seed": "effective_qsl_rng_seed",
    "requested_sample_index_rng_seed": "effective_sample_index_rng_seed",
    "requested_schedule_rng_seed": "effective_schedule_rng_seed",
}

# What all runs of one result have in common, and what its performance runs have besides. The data
# sets of a performance run and an accuracy run may be two.
OF_RESULT = ("sut_name", "qsl_name")
OF_PERFORMANCE = (*OF_RESULT, "qsl_reported_total_count", "effective_performance_sample_count")
# The tokens of a sample by its latencies, as a share of those by the rates: the first token and
# the time of each further one make the latency of a sample.
TOKENS_BY_LATENCY = (0.5, 2.0)
# Scores of accuracy.txt, of which the first is never above the second, and their greatest value.
SCORE = re.compile(r"'(rouge\w+)': *'?(?:np\.float64\()?([\d.]+)")
SCORES: tuple[tuple[str, str], ...] = (
    ("rouge2", "rouge1"),
    ("rougeL", "rouge1"),
    ("rougeL", "rougeLsum"),
)
MOST_SCORE = 100.0
# The mean of kits19 and the two figures that it is the mean of, in so many decimals.
MEAN = re.compile(r"mean = ([\d.]+), kidney = ([\d.]+), tumor = ([\d.]+)")
MEAN_DECIMALS = 0.002

# The mean power of a run as a share of that of its ranging run, which does the same work.
POWER_OF_RANGING = (0.5, 2.0)

RATIOS: tuple[Ratio, ...] = (
    Ratio(
        "the rate at which queries were scheduled and its target",
        ONLINE,
        ("result_scheduled_samples_per_sec",),
        ("effective_target_qps",),
        *(0.9, 1.1),
    ),
    Ratio(
        "the rate at which queries were finished and scheduled",
        ONLINE,
        ("result_completed_samples_per_sec",),
        ("result_scheduled_samples_per_sec",),
        *(0.0, 1.001),
    ),
    Ratio(
        "samples that were issued, and their least number",
        (OFFLINE,),
        ("effective_min_sample_count",),
        ("effective_samples_per_query",),
        *(0.0, 1.0),
    ),
    Ratio(
        "queries in a second with and without LoadGen's overhead",
        (SINGLE_STREAM,),
        ("result_qps_with_loadgen_overhead",),
        ("result_qps_without_loadgen_overhead",),
        *(0.5, 1.01),
    ),
    Ratio(
        "queries in a second and their mean latency",
        (SINGLE_STREAM,),
        ("result_qps_without_loadgen_overhead", "result_mean_latency_ns"),
        (),
        *(1 - 1e-3, 1 + 1e-3),
        NS_PER_S,
    ),
    Ratio(
        "time that the queries took and the shortest duration",
        (SINGLE_STREAM,),
        ("result_query_count", "result_mean_latency_ns"),
        ("effective_min_duration_ms",),
        *(0.4, math.inf),
        NS_PER_MS,
    ),
    Ratio(
        "time that the queries took and the shortest duration",
        (MULTI_STREAM,),
        ("result_query_count", "result_mean_query_latency_ns"),
        ("effective_min_duration_ms",),
        *(0.4, math.inf),
        NS_PER_MS,
    ),
    Ratio(
        "time that the run took and the shortest duration",
        (OFFLINE,),
        ("result_max_latency_ns",),
        ("effective_min_duration_ms",),
        *(0.99, math.inf),
        NS_PER_MS,
    ),
    Ratio(
        "time that the queries took and the shortest duration",
        ONLINE,
        ("result_query_count",),
        ("result_scheduled_samples_per_sec", "effective_min_duration_ms"),
        *(0.99, math.inf),
        1e-3,
    ),
    Ratio(
        "time that the log says and that its figures say",
        (OFFLINE,),
        ("result_max_latency_ns",),
        (LOG_S,),
        *(0.0, 1.01),
        NS_PER_S,
    ),
    Ratio(
        "time that the log says and that its figures say",
        ONLINE,
        ("result_query_count",),
        ("result_completed_samples_per_sec", LOG_S),
        *(0.0, 1.01),
    ),
    Ratio(
        "time that the log says and that its figures say",
        STREAMS,
        ("result_query_count", "result_mean_query_latency_ns"),
        (LOG_S,),
        *(0.0, 1.01),
        NS_PER_S,
    ),
    Ratio(
        "time that the log says and that its figures say",
        (SINGLE_STREAM,),
        ("result_query_count", "result_mean_latency_ns"),
        (LOG_S,),
        *(0.0, 1.01),
        NS_PER_S,
    ),
    Ratio(
        "time that power_begin and power_end say and that the figures say",
        (OFFLINE,),
        ("result_max_latency_ns",),
        (POWER_S,),
        *(0.5, 1.01),
        NS_PER_S,
    ),
    Ratio(
        "time that power_begin and power_end say and that the figures say",
        ONLINE,
        ("result_query_count",),
        ("result_completed_samples_per_sec", POWER_S),
        *(0.5, 1.01),
    ),
    Ratio(
        "tokens of a sample in the performance and in the accuracy run",
        (OFFLINE,),
        ("result_tokens_per_second",),
        ("result_samples_per_second", ACCURACY_TOKENS),
        *(0.5, 1.5),
    ),
    Ratio(
        "tokens of a sample in the performance and in the accuracy run",
        ONLINE,
        ("result_completed_tokens_per_second",),
        ("result_completed_samples_per_sec", ACCURACY_TOKENS),
        *(0.5, 1.5),
    ),
)


def summary_keys(queries: bool) -> dict[str, str]:
    """Every label of a summary and its key; of latencies of ``queries``, or of samples."""
    label, key = QUERY_PERCENTILES if queries else SAMPLE_PERCENTILES
    patterns = {**SUMMARY_PERCENTILES, label: key}
    return {
        **SUMMARY,
        **SETTINGS,
        **(QUERIES if queries else SAMPLES),
        **{a.format(p): b.format(p) for a, b in patterns.items() for p in PERCENTILES},
    }
