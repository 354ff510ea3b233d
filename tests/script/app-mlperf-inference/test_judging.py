"""Logs, verdicts, targets and the table: what is concluded from what LoadGen says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf.catalog import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlperf.harness import host
from mlperf.harness.backends import registry as backends
from mlperf.harness.measuring import detail_log
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.measuring.verdict import QSL_SEEDS, judge, more_queries
from mlperf.harness.reporting import results
from mlperf.harness.settings import USUAL_SCENARIOS, Overrides, Targets, WorkerShape
from mlperf.harness.tuning import layout_probe, targets, tune
from mlperf.harness.tuning.profile import SpeedProfile, StreamLatency, ThroughputPoint
from mlperf.harness.wording import figures

SEED = QSL_SEEDS["6.1"]


def line(key: str, value: Any, **metadata: bool) -> str:
    return ":::MLLOG " + json.dumps({"key": key, "value": value, "metadata": metadata})


def log_of(errors: tuple[str, ...] = (), **values: Any) -> DetailLog:
    return DetailLog({"effective_qsl_rng_seed": SEED, **values}, errors)


# ---------------------------------------------------------------- the log


def test_values_errors_and_warnings_are_read() -> None:
    text = "\n".join(
        [
            "noise",
            line("result_validity", "INVALID"),
            line("error_runtime", "ran out", is_error=True),
            line("warning_generic", "slow", is_warning=True),
            line("result_90.00_percentile_latency_ns", 2_000_000),
            line("early_stopping_latency_ss", 2_500_000),
        ]
    )
    log = detail_log.parse(text)
    assert log.validity == "INVALID"
    assert log.errors == ("error_runtime: ran out",)
    assert log.warnings == ("warning_generic: slow",)
    assert log.latencies() == {"90.00": 2.0}
    assert log.result(SINGLE_STREAM) == 2.5
    assert log.result(OFFLINE) is None


@given(st.integers(min_value=0, max_value=400), st.text(max_size=30))
def test_a_cut_or_foreign_log_is_never_valid_nor_a_crash(length: int, tail: str) -> None:
    whole = "\n".join([line("a", 1), line("b", [1, 2]), line("c", {"d": "e"})] * 3)
    log = detail_log.parse(whole[:length] + tail)
    assert log.validity == ""
    assert not judge(log, OFFLINE, "6.1").valid


def test_a_missing_log_is_unfinished(tmp_path: Path) -> None:
    verdict = judge(detail_log.read(tmp_path / "none.txt"), "Offline", "6.1")
    assert [fault.rule for fault in verdict.faults] == ["unfinished"]


def test_a_run_too_short_for_early_stopping_still_reports_its_latency() -> None:
    percentiles = {
        "result_90.00_percentile_latency_ns": 2_000_000,
        "result_99.00_percentile_per_query_latency_ns": 3_000_000,
    }
    told = log_of(early_stopping_latency_ss=0, early_stopping_latency_ms=0, **percentiles)
    assert (told.result(SINGLE_STREAM), told.result(MULTI_STREAM)) == (2.0, 3.0)
    assert log_of(early_stopping_latency_ss=4e6, **percentiles).result(SINGLE_STREAM) == 4.0
    assert log_of(early_stopping_latency_ss=0).result(SINGLE_STREAM) is None


# ---------------------------------------------------------------- verdicts


def test_valid_is_what_loadgen_says() -> None:
    assert judge(log_of(result_validity="VALID"), OFFLINE, "6.1").valid


def test_valid_with_an_error_line_is_not_valid() -> None:
    verdict = judge(log_of(("x: y",), result_validity="VALID"), OFFLINE, "6.1")
    assert not verdict.valid
    assert verdict.faults[0].text == "LoadGen reports: x: y"


def test_the_loadgen_of_another_round_is_not_valid() -> None:
    (fault,) = judge(log_of(result_validity="VALID"), OFFLINE, "6.0").faults
    assert fault.rule == "seeds of the round"
    assert "install the LoadGen of round 6.0" in fault.advice


SHORT = {
    "result_validity": "INVALID",
    "result_min_duration_met": False,
    "effective_min_duration_ms": 10_000,
}


@pytest.mark.parametrize(
    ("scenario", "values", "text", "advice"),
    [
        (
            OFFLINE,
            {**SHORT, "result_max_latency_ns": 9.3e9, "result_samples_per_second": 1000},
            "the run lasted 9.3 s, at least 10 s are needed",
            "set --offline_target_qps to 1100",
        ),
        (
            SINGLE_STREAM,
            {**SHORT, "result_query_count": 4000, "result_mean_latency_ns": 2e6},
            "the run lasted 8 s",
            "set --singlestream_target_latency to 1 (ms)",
        ),
        (
            SINGLE_STREAM,
            {
                **SHORT,
                "result_query_count": 4000,
                "result_mean_latency_ns": 2e6,
                "result_qps_with_loadgen_overhead": 480,
            },
            "the run lasted 8.333 s",
            "set --singlestream_target_latency to 1 (ms)",
        ),
        (
            SERVER,
            {
                "result_validity": "INVALID",
                "result_perf_constraints_met": False,
                "effective_target_latency_ns": 15e6,
                "effective_target_latency_percentile": 0.99,
                "result_99.00_percentile_latency_ns": 18.2e6,
                "effective_target_qps": 50,
                "result_query_count": 500,
                "result_overlatency_query_count": 7,
            },
            "was 18.2 ms, over the limit of 15 ms (7 of 500 queries were late)",
            "set --server_target_qps to 40 (samples/s) or less",
        ),
        (
            SERVER,
            {
                "result_validity": "INVALID",
                "early_stopping_met": False,
                "early_stopping_result": "Would need to run at least 210 more queries, with",
                "effective_target_qps": 50,
                "result_query_count": 249,
                "result_overlatency_query_count": 0,
            },
            "with 99 % confidence; at least 210 more queries would be needed",
            "run longer",
        ),
        (
            SERVER,
            {
                "result_validity": "INVALID",
                "early_stopping_met": False,
                "effective_target_qps": 200_000,
                "effective_target_latency_percentile": 0.99,
                "result_completed_samples_per_sec": 13_000,
                "result_query_count": 200_000,
                "result_overlatency_query_count": 199_000,
            },
            "200000 queries with 199000 late ones",
            "set --server_target_qps to 10400 (samples/s) or less",
        ),
        (
            MULTI_STREAM,
            {
                "result_validity": "INVALID",
                "result_min_queries_met": False,
                "result_query_count": 10,
                "effective_min_query_count": 662,
            },
            "10 queries were made, at least 662 are needed",
            "--max_query_count",
        ),
    ],
)
def test_an_invalid_run_is_explained_with_numbers(
    scenario: str, values: dict[str, Any], text: str, advice: str
) -> None:
    verdict = judge(log_of(**values), scenario, "6.1")
    assert not verdict.valid
    (fault,) = verdict.faults
    assert text in fault.text
    assert advice in fault.advice


@given(
    st.sampled_from(USUAL_SCENARIOS),
    st.dictionaries(
        st.sampled_from(
            [
                "result_min_duration_met",
                "result_min_queries_met",
                "result_perf_constraints_met",
                "early_stopping_met",
                "result_query_count",
                "result_mean_latency_ns",
                "effective_target_qps",
                "result_samples_per_second",
                "early_stopping_result",
            ]
        ),
        st.booleans() | st.integers(0, 10**12) | st.text(max_size=5),
    ),
)
def test_any_invalid_log_is_explained_without_a_crash(
    scenario: str, values: dict[str, Any]
) -> None:
    assert not judge(log_of(**values, result_validity="INVALID"), scenario, "6.1").valid


# ---------------------------------------------------------------- targets


def calibration(rate: float, latency_s: float, batch_s: float = 0.001) -> SpeedProfile:
    point = ThroughputPoint(WorkerShape(2, 1, 8), rate, batch_s)
    latency = StreamLatency(WorkerShape(1, 1, 1), latency_s, latency_s)
    return SpeedProfile(
        cores=2,
        sample_count=540,
        offline=point,
        server=point,
        streams={SINGLE_STREAM: latency, MULTI_STREAM: latency},
        server_limit_s=0.015,
        service_times={"8": batch_s},
        points=(point,),
        versions={},
        seconds=1.0,
    )


@given(st.floats(1, 1e6), st.floats(1e-5, 10))
def test_first_targets_are_on_the_safe_side(rate: float, latency_s: float) -> None:
    measured = calibration(rate, latency_s)
    given_nothing = Overrides()
    aims = {
        scenario: targets.initial(measured, given_nothing, scenario, "performance", "test")
        for scenario in USUAL_SCENARIOS
    }
    assert (aims["Offline"].qps or 0) > rate
    assert 0 < (aims["Server"].qps or 0) < rate
    assert (aims["SingleStream"].latency_ms or 0) < 1000 * latency_s
    assert (aims["MultiStream"].latency_ms or 0) < 1000 * latency_s
    assert (aims["Server"].qps or 0) * (aims["Server"].min_duration_ms or 0) >= 1000 * 1399


def test_the_user_decides() -> None:
    given_all = Overrides(
        offline_target_qps=5,
        server_target_qps=6,
        singlestream_target_latency=7,
        multistream_target_latency=8,
        min_duration=9,
    )
    for scenario, wanted in zip(USUAL_SCENARIOS, (7, 8, 6, 5), strict=True):
        aim = targets.initial(calibration(1, 1), given_all, scenario, "performance", "valid")
        assert (aim.qps or aim.latency_ms, aim.min_duration_ms) == (wanted, 9)


def test_valid_runs_leave_the_duration_to_the_round() -> None:
    aim = targets.initial(calibration(1000, 1), Overrides(), SERVER, "performance", "valid")
    assert aim.min_duration_ms is None


def test_accuracy_runs_of_server_do_not_dawdle() -> None:
    aim = targets.initial(
        calibration(40, 1), Overrides(server_target_qps=1), SERVER, "accuracy", "test"
    )
    assert aim.qps == 40


def test_a_run_that_was_too_quick_expects_more_next_time() -> None:
    log = log_of(result_min_duration_met=False, result_samples_per_second=100)
    better = targets.adjusted(Targets(qps=50), log, OFFLINE)
    assert better is not None
    assert (better.qps or 0) > 100
    quick = log_of(result_min_duration_met=False, result_mean_latency_ns=1e6)
    better = targets.adjusted(Targets(latency_ms=5.0), quick, SINGLE_STREAM)
    assert better is not None
    assert (better.latency_ms or 0) < 1


@pytest.mark.parametrize(
    ("late", "answered", "qps", "duration"),
    [(60, 99.0, 80, 20_000), (600, 90.0, 72, 10_000), (1990, 12.5, 10, 10_000)],
    ids=["disturbed", "overloaded", "far overloaded"],
)
def test_a_server_that_was_late_gets_less_load(
    late: int, answered: float, qps: float, duration: int
) -> None:
    log = log_of(
        result_query_count=2000,
        result_overlatency_query_count=late,
        result_completed_samples_per_sec=answered,
    )
    better = targets.adjusted(Targets(qps=100.0, min_duration_ms=10_000), log, SERVER)
    assert better == Targets(qps=qps, min_duration_ms=duration)


def test_a_server_that_was_never_late_only_runs_longer() -> None:
    log = log_of(
        result_query_count=250,
        result_overlatency_query_count=0,
        early_stopping_result="at least 210 more queries",
    )
    assert more_queries(log) == 210
    better = targets.adjusted(Targets(qps=25.0, min_duration_ms=10_000), log, SERVER)
    assert better == Targets(qps=25.0, min_duration_ms=20_240)


def test_other_targets_are_not_tried_where_they_cannot_help() -> None:
    log = log_of(result_min_queries_met=False, result_mean_latency_ns=1e6)
    assert targets.adjusted(Targets(qps=5), log, OFFLINE) is None
    assert targets.adjusted(Targets(latency_ms=5), log, MULTI_STREAM) is None
    assert targets.hopeless(calibration(1, 1, batch_s=0.02), SERVER)
    assert not targets.hopeless(calibration(1, 1, batch_s=0.02), OFFLINE)


# ---------------------------------------------------------------- calibration's choices


@pytest.mark.parametrize(
    ("cores", "given_shape", "wanted"),
    [
        (2, Overrides(), [(2, 1), (1, 2)]),
        (1, Overrides(), [(1, 1)]),
        (16, Overrides(), [(16, 1), (8, 2), (4, 4), (1, 16)]),
        (16, Overrides(threads=3), [(5, 3)]),
        (16, Overrides(num_workers=32), [(32, 1)]),
        (2, Overrides(num_workers=3, threads=5), [(3, 5)]),
    ],
)
def test_layouts_use_the_cores(
    cores: int, given_shape: Overrides, wanted: list[tuple[int, int]]
) -> None:
    backend = backends.create("null", "cpu", "float32")
    assert backend.layouts(cores, given_shape.num_workers, given_shape.threads) == wanted


@given(st.integers(1, 5000))
def test_batch_sizes_end_at_the_users_largest(largest: int) -> None:
    sizes = layout_probe.batch_sizes(Overrides(batch_size=largest), 64)
    assert sizes[-1] == largest
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 1


def test_the_server_shape_leaves_time_to_wait() -> None:
    slow_big = ThroughputPoint(WorkerShape(2, 1, 64), 1000, 0.010)
    quick_small = ThroughputPoint(WorkerShape(2, 1, 4), 900, 0.002)
    assert tune.server_point([slow_big, quick_small], 0.015) == quick_small
    assert tune.server_point([slow_big, quick_small], 0.001) == quick_small
    times = tune.service_times([slow_big, quick_small], WorkerShape(2, 1, 4))
    assert times == {"4": 0.002}


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", None), ("", None), ("150000 100000", 1.5), ("-1 100000", None)],
)
def test_a_containers_quota_is_read(text: str, cores: float | None) -> None:
    assert host._quota(text) == cores


def test_the_least_quota_of_the_cgroups_around_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(host, "MEMBERSHIP", tmp_path / "membership")
    (tmp_path / "membership").write_text("0::/user.slice/session.scope\n")
    inner = tmp_path / "cgroup/user.slice/session.scope"
    inner.mkdir(parents=True)
    assert host.quota_cores() is None
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("50000 100000\n")
    assert (host.quota_cores(), host.usable_cores()) == (0.5, 1)
    (tmp_path / "cgroup/cpu").mkdir()
    (tmp_path / "cgroup/cpu/cpu.cfs_quota_us").write_text("25000\n")
    (tmp_path / "cgroup/cpu/cpu.cfs_period_us").write_text("100000\n")
    assert host.quota_cores() == 0.25


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_figures_are_short_and_close(value: float) -> None:
    text = figures(value)
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=1e-3, abs=1e-6)


def test_a_model_of_ones_own_has_no_accuracy_target() -> None:
    def target(of_run: float) -> float | None:
        figure: Any = SimpleNamespace(value=97.0, unit="%", target=of_run, reached=True, faults=())
        return results.scenario_result(OFFLINE, None, figure).accuracy_target

    assert target(0.0) is None
    assert target(75.7) == 75.7
