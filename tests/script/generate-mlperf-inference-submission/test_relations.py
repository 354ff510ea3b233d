"""Figures that do not fit each other, although each one alone is as the rules want it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import submission_lab as lab
from mlperf.harness.measuring import agreement, relations
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.submission import checks

COMMON = {
    "result_validity": "VALID",
    "effective_min_duration_ms": 600_000,
    "requested_min_duration_ms": 600_000,
    "loadgen_build_date_utc": "2025-02-03T10:46:22.922059",
    "test_datetime": "2025-02-06T04:32:06Z",
    "power_begin": "02-06-2025 04:32:06.169",
    "result_min_latency_ns": 159_000_000,
    "result_50.00_percentile_latency_ns": 200_000_000,
    "result_99.00_percentile_latency_ns": 300_000_000,
    "result_max_latency_ns": 400_000_000,
    "result_mean_latency_ns": 210_000_000,
}
SERVER = COMMON | {
    "effective_scenario": "Server",
    "power_end": "02-06-2025 04:44:08.868",
    "result_query_count": 196_608,
    "generated_query_count": 196_608,
    "result_scheduled_samples_per_sec": 287.193,
    "result_completed_samples_per_sec": 275.043,
    "result_completed_tokens_per_second": 77_377.9,
    "result_first_token_min_latency_ns": 23_124_959,
    "result_first_token_50.00_percentile_latency_ns": 61_976_064,
    "result_first_token_99.00_percentile_latency_ns": 116_622_301,
    "result_first_token_max_latency_ns": 168_745_452,
    "result_first_token_mean_latency_ns": 62_264_352,
    "result_perf_constraints_met": True,
    "early_stopping_met": True,
    "early_stopping_ttft_result": " * Run successful.",
    "requested_test_mode": "PerformanceOnly",
    "effective_test_mode": "PerformanceOnly",
    "requested_performance_issue_same": False,
    "effective_performance_issue_same": False,
    "effective_target_qps": 287,
    "requested_use_token_latencies": True,
    "result_mean_latency_ns": 210_000_000,
    "result_time_to_output_token_mean": 526_000,
}
OFFLINE = COMMON | {
    "effective_scenario": "Offline",
    "power_end": "02-06-2025 04:42:51.169",
    "result_query_count": 1,
    "result_samples_per_second": 365.738,
    "result_tokens_per_second": 103_480,
    "result_max_latency_ns": 645_000_000_000,
    "requested_offline_expected_qps": 380.0,
    "effective_target_qps": 380,
    "effective_samples_per_query": 235_901,
    "effective_min_sample_count": 235_901,
    "loadgen_build_date_local": "2025-02-03T05:46:22.922059",
    "loadgen_git_commit_date": "2025-01-03T10:46:22-05:00",
    "loaded_qsl_set": [3, 1, 0, 2, 4],
    "qsl_reported_total_count": 24_576,
    "effective_performance_sample_count": 5,
    "generic_message": "Ending naturally: Minimum query count and test duration met.",
}
SINGLE = COMMON | {
    "effective_scenario": "SingleStream",
    "power_end": "02-06-2025 04:42:06.369",
    "result_query_count": 2_857,
    "generated_query_count": 5_714,
    "result_qps_with_loadgen_overhead": 4.7610,
    "result_qps_without_loadgen_overhead": 4.7619,
    "early_stopping_latency_ss": 260_000_000,
    "early_stopping_result": " * Processed at least 64 queries (2857)."
    "  * Early stopping 90th percentile estimate: 260000000",
}
LOGS = {"Server": SERVER, "Offline": OFFLINE, "SingleStream": SINGLE}
MORE = {relations.ACCURACY_TOKENS: 281.8, relations.LOG_S: 725.0, relations.POWER_S: 722.7}
ADDED = {
    "Server": MORE,
    "Offline": {**MORE, relations.LOG_S: 646.0, relations.POWER_S: 645.0},
    "SingleStream": {relations.LOG_S: 601.0},
}
SUMMARY = "Completed samples per second    : 275.04\nCompleted tokens per second: 77377.90\n"


def found(scenario: str, summary: str = "", **changed: Any) -> set[str]:
    more = dict(ADDED[scenario])
    more.update({key: changed.pop(key) for key in list(changed) if key in relations.DERIVED})
    log = DetailLog({**LOGS[scenario], **changed})
    return {each.relation for each in agreement.contradictions(log, summary, more)}


@pytest.mark.parametrize("scenario", LOGS)
def test_what_loadgen_writes_fits(scenario: str) -> None:
    assert found(scenario, SUMMARY if scenario == "Server" else "") == set()


TIME_OF_QUERIES = "time that the queries took and the shortest duration"
BY_LOG = "time that the log says and that its figures say"
BY_POWER = "time that power_begin and power_end say and that the figures say"
TOKENS = "tokens of a sample in the performance and in the accuracy run"
TTFT = "time to the first token"
TIMES = "times of the run"
REQUESTED = "what was asked for and what was used"
STOPPING = "early stopping and its text"
VERDICT = "verdict and its reasons"


@pytest.mark.parametrize(
    ("scenario", "changed", "relation"),
    [
        ("Server", {"result_completed_tokens_per_second": 773_779}, "summary and detailed log"),
        ("Server", {"result_completed_tokens_per_second": 773_779}, TOKENS),
        ("Offline", {"result_tokens_per_second": 1_034_800}, TOKENS),
        ("Server", {"result_completed_samples_per_sec": 2750.43}, BY_POWER),
        ("Server", {"result_first_token_99.00_percentile_latency_ns": 434}, TTFT),
        ("Server", {"result_first_token_99.00_percentile_latency_ns": 40_000_000}, TTFT),
        ("Server", {"result_first_token_mean_latency_ns": 5}, TTFT),
        ("Server", {"result_query_count": 19_660}, TIME_OF_QUERIES),
        ("Server", {"result_query_count": 300_000}, "result_query_count and generated_query_count"),
        ("Server", {"requested_min_duration_ms": 60_000}, REQUESTED),
        ("Server", {"result_perf_constraints_met": False}, VERDICT),
        ("Server", {"early_stopping_ttft_result": " * Run unsuccessful."}, VERDICT),
        ("Server", {"test_datetime": "2019-02-06T04:32:06Z"}, TIMES),
        ("Server", {"test_datetime": "2025-02-31T04:32:06Z"}, TIMES),
        ("Server", {"power_end": "02-06-2024 04:44:08.868"}, TIMES),
        ("Server", {"power_end": "02-06-2025 04:32:06.168"}, TIMES),
        (
            "Offline",
            {"result_max_latency_ns": 67e9},
            "time that the run took and the shortest duration",
        ),
        ("Offline", {relations.LOG_S: 6.0}, BY_LOG),
        ("Offline", {relations.POWER_S: 6.0}, BY_POWER),
        ("SingleStream", {relations.LOG_S: 6.0}, BY_LOG),
        (
            "SingleStream",
            {"result_mean_latency_ns": 161_000_000},
            "queries in a second and their mean latency",
        ),
        ("SingleStream", {"result_query_count": 285}, TIME_OF_QUERIES),
        ("SingleStream", {"result_50.00_percentile_latency_ns": 310_000_000}, "latency"),
        (
            "Server",
            {"effective_target_qps": 84},
            "the rate at which queries were scheduled and its target",
        ),
        ("Server", {"result_first_token_mean_latency_ns": 23_200_000_000}, "tokens"),
        ("Server", {"result_time_to_output_token_mean": 5_000}, "tokens"),
        ("Server", {"requested_performance_issue_same": True}, REQUESTED),
        ("Server", {"requested_test_mode": "AccuracyOnly"}, REQUESTED),
        ("Offline", {"requested_offline_expected_qps": 38.0}, REQUESTED),
        (
            "Offline",
            {"effective_min_sample_count": 300_000},
            "samples that were issued, and their least number",
        ),
        ("Offline", {"loaded_qsl_set": [0, 1, 2, 3, 3]}, "loaded samples"),
        ("Offline", {"loaded_qsl_set": [0, 1, 2, 3, 24_576]}, "loaded samples"),
        ("Offline", {"loadgen_git_commit_date": "2026-02-03T10:46:22-05:00"}, TIMES),
        ("Offline", {"loadgen_build_date_local": "2024-02-03T10:46:22.922059"}, TIMES),
        ("Offline", {"generic_message": "Ending early: too many queries"}, VERDICT),
        ("Offline", {"error_runtime": "Ending early"}, "errors"),
        ("SingleStream", {"early_stopping_latency_ss": 250_000_000}, STOPPING),
        (
            "SingleStream",
            {"early_stopping_result": "Processed at least 64 queries (285)."},
            STOPPING,
        ),
        (
            "SingleStream",
            {"result_qps_with_loadgen_overhead": 9.5},
            "queries in a second with and without LoadGen's overhead",
        ),
    ],
)
def test_one_edited_figure_does_not_fit(
    scenario: str, changed: Mapping[str, Any], relation: str
) -> None:
    assert relation in found(scenario, SUMMARY, **changed)


@pytest.mark.parametrize(
    "line",
    [
        "SUT name : Other",
        "Mode     : AccuracyOnly",
        "qsl_rng_seed : 1",
        "  Min duration satisfied : NO",
        "  Early stopping satisfied: NO",
        "2 ERRORS encountered. See detailed log.",
        " * Processed at least 64 queries (11).",
        " * Early stopping 90.0th percentile estimate: 1",
    ],
)
def test_a_line_of_the_summary_that_the_log_contradicts(line: str) -> None:
    named = {
        "sut_name": "Box",
        "effective_test_mode": "PerformanceOnly",
        "effective_qsl_rng_seed": 7,
    }
    right = (
        "SUT name : Box\nMode     : PerformanceOnly\nqsl_rng_seed : 7\n"
        "  Min duration satisfied : Yes\n * Processed at least 64 queries (2857).\n"
        " * Early stopping 90.0th percentile estimate: 260000000\nNo errors encountered\n"
    )
    assert found("SingleStream", right, **named) == set()
    assert found("SingleStream", f"{line}\n", **named)


def test_runs_of_one_result_are_of_one_system() -> None:
    one, other = DetailLog({"sut_name": "A"}), DetailLog({"sut_name": "B", "qsl_name": "C"})
    assert [each.relation for each in agreement.of_one_result(one, other)] == ["runs of one result"]
    assert not list(agreement.of_one_result(one, one))


def test_an_accuracy_run_has_times_and_errors_too() -> None:
    assert not list(agreement.of_accuracy(DetailLog(OFFLINE), "No errors encountered"))
    of_2099 = DetailLog({"test_datetime": "2099-02-06T04:32:06Z"})
    assert [each.doubtful for each in agreement.of_accuracy(of_2099, "")] == [False]
    counted = agreement.of_accuracy(DetailLog({}), "3 ERRORS encountered")
    assert [each.doubtful for each in counted] == [True]
    assert list(agreement.of_accuracy(DetailLog({"result_validity": "INVALID"}), ""))
    other = agreement.of_accuracy(DetailLog({}), "Result is : VALID")
    assert [each.doubtful for each in other] == [True]


def test_a_run_of_the_day_after_tomorrow() -> None:
    later = datetime.now() + timedelta(days=3)
    told = {"test_datetime": f"{later:%Y-%m-%dT%H:%M:%SZ}"}
    told |= {f"power_{word}": f"{later:%m-%d-%Y %H:%M:%S}.000" for word in ("begin", "end")}
    assert TIMES in found("Server", **told)


def test_settings_that_a_summary_has_otherwise_are_doubtful() -> None:
    (each,) = agreement.contradictions(DetailLog(SERVER), "min_duration (ms) : 0\n")
    assert each.doubtful


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("accuracy=76.078%, good=38039, total=50000", True),
        ("accuracy=76.078%, good=30000, total=50000", False),
        ("accuracy=120.000%, good=60000, total=50000", False),
        ("accuracy=0.000%, good=0, total=0", False),
        ("mAP=37.5%", True),
    ],
)
def test_a_share_and_its_numbers(text: str, fits: bool) -> None:
    assert (list(agreement.share(text)) == []) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("{'rouge1': '38.4', 'rouge2': '15.8', 'rougeL': '24.3', 'rougeLsum': '35.5'}", True),
        ("{'rouge1': np.float64(38.4), 'rougeL': np.float64(54.3)}", False),
        ("{'rouge1': 138.4}", False),
        ("Accuracy: mean = 0.86170, kidney = 0.9347, tumor = 0.7887", True),
        ("Accuracy: mean = 0.99999, kidney = 0.9347, tumor = 0.7887", False),
    ],
)
def test_scores_of_one_text(text: str, fits: bool) -> None:
    assert (list(agreement.scores(text)) == []) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("TEST PASS\n", True),
        ("TEST PASS\nTEST FAIL: Test score invalid\n", False),
        ("First token check pass: Skipped\nEOS check pass: True\n", True),
        ("EOS check pass: False\nEOS check pass: True\n", False),
    ],
)
def test_a_verification_says_one_thing(text: str, fits: bool) -> None:
    assert (list(agreement.opposites(text)) == []) is fits


def test_a_tree_with_such_figures_is_refused(tmp_path: Path) -> None:
    example = lab.Example("6.0", "closed", ("llama2-70b-99",), ("Server", "Offline"), "datacenter")
    tree = lab.make(tmp_path / "tree", example)
    before = {each.rule for each in checks.check(tree)}
    path = next(tree.root.rglob("Server/performance/run_1/mlperf_log_detail.txt"))
    told = path.read_text()
    key = "result_completed_tokens_per_second"
    (line,) = (each for each in told.splitlines() if f'"{key}"' in each)
    path.write_text(told.replace(line, lab.line(key, 1e7)))
    (broken,) = [each for each in checks.check(tree) if each.rule not in before]
    assert (broken.rule, broken.severity) == ("performance.consistent", "error")
    assert key in broken.found
