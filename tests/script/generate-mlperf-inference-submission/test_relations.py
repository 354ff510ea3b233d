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
}
OFFLINE = COMMON | {
    "effective_scenario": "Offline",
    "power_end": "02-06-2025 04:42:51.169",
    "result_query_count": 1,
    "result_samples_per_second": 365.738,
    "result_tokens_per_second": 103_480,
    "result_max_latency_ns": 645_000_000_000,
}
SINGLE = COMMON | {
    "effective_scenario": "SingleStream",
    "power_end": "02-06-2025 04:42:06.369",
    "result_query_count": 2_857,
    "generated_query_count": 5_714,
    "result_qps_with_loadgen_overhead": 4.7610,
    "result_qps_without_loadgen_overhead": 4.7619,
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
        ("Server", {"requested_min_duration_ms": 60_000}, "what was asked for and what was used"),
        ("Server", {"result_perf_constraints_met": False}, VERDICT),
        ("Server", {"early_stopping_ttft_result": " * Run unsuccessful."}, VERDICT),
        ("Server", {"test_datetime": "2019-02-06T04:32:06Z"}, TIMES),
        ("Server", {"test_datetime": "2025-02-31T04:32:06Z"}, TIMES),
        ("Server", {"power_end": "02-06-2024 04:44:08.868"}, TIMES),
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
    ],
)
def test_one_edited_figure_does_not_fit(
    scenario: str, changed: Mapping[str, Any], relation: str
) -> None:
    assert relation in found(scenario, SUMMARY, **changed)


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
