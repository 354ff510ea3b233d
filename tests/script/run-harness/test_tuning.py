"""The tuning guide as code: how long a run takes, what to change in one, which fields are best."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlperf.catalog import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM, Scenario
from nvidia_flow_lab import Hands, a_flow, read
from nvidia_mlperf.make import advice, options, tune, work
from nvidia_mlperf.make.advice import Length


def the_item(tmp_path: Path, line: str, **given: Any) -> work.PlannedRun:
    (item,) = work.plan(a_flow(tmp_path, line, **given)).items
    return item


# ---- before the run

FORMULA: dict[str, tuple[Scenario, Length, float]] = {
    # 1.1 x duration x expected / reached: eight times too high a rate, eight times the time.
    "offline": (OFFLINE, Length(60, 0, 48800, 6100), 1.1 * 60 * 8),
    "offline by its samples": (OFFLINE, Length(60, 24576, 10, 10), 2457.6),
    "offline unknown": (OFFLINE, Length(600), 660),
    "server": (SERVER, Length(60, 0, 4650, 2325), 120),
    "server by its queries": (SERVER, Length(60, 270336, 1000, 1000), 270.336),
    "single": (SINGLE_STREAM, Length(60, 0, 1e6, 2e6), 120),
    "single by its queries": (SINGLE_STREAM, Length(60, 1024, 1e9, 1e9), 1024),
    "multi": (MULTI_STREAM, Length(600, 0, 8e6, 4e6), 300),
}


@pytest.mark.parametrize("case", FORMULA)
def test_run_times_follow_the_guides_formula(case: str) -> None:
    scenario, length, seconds = FORMULA[case]
    assert advice.seconds(scenario, length)[0] == pytest.approx(seconds)


def logged(folder: Path, keys: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = (f":::MLLOG {json.dumps({'key': k, 'value': v})}\n" for k, v in keys.items())
    (folder / "mlperf_log_detail.txt").write_text("".join(lines))


def test_what_the_last_run_has_reached_counts(tmp_path: Path) -> None:
    line = "--benchmarks=resnet50 --scenarios=offline --offline_expected_qps=1000"
    flow_ = a_flow(tmp_path, line, execution_mode="valid")
    plan = work.plan(flow_)
    assert advice.run_times(flow_, plan)[0] == (
        "run time: resnet50 Offline default: 660 s (600 s at least, and 1.1 of it)"
    )
    place = "valid_results/sut/resnet50/offline/performance/run_1"
    logged(flow_.results / place, {"result_samples_per_second": 250.0})
    told, whole = advice.run_times(flow_, plan)
    assert told.startswith("run time: resnet50 Offline default: 2640 s (600 s at least")
    assert told.endswith("1000 samples/s expected, 250 reached last)")
    assert whole.startswith("run time: at least 2640 s for 1 runs")


# ---- after the run

Told = Mapping[str, Any]
INVALID: dict[str, tuple[str, Told, str]] = {
    "late": (
        "--scenarios=server --server_target_qps=50 --gpu_batch_size=8",
        {"effective_target_qps": 50, "result_perf_constraints_met": False},
        "--server_target_qps=45; where that does not help, --gpu_batch_size=4",
    ),
    "in time, and too few": (
        "--scenarios=server",
        {
            "effective_target_qps": 50,
            "result_perf_constraints_met": True,
            "early_stopping_met": False,
            "result_query_count": 500,
        },
        "--min_query_count=750",
    ),
    "a stream of too few": (
        "--scenarios=singlestream",
        {"early_stopping_met": False, "result_query_count": 40},
        "--min_query_count=60",
    ),
    "too fast": (
        "--scenarios=offline",
        {"result_samples_per_second": 100.0, "early_stopping_met": True},
        "--offline_expected_qps=110",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_why_invalid_names_what_helps(case: str, tmp_path: Path) -> None:
    line, keys, wanted = INVALID[case]
    item = the_item(tmp_path, f"--benchmarks=resnet50 {line}")
    logged(tmp_path / "performance/run_1", keys)
    result = {"performance_run": {"a": 1}, "validity": "INVALID", "reasons": ["x"]}
    (told,) = advice.problems(a_flow(tmp_path), item, result, tmp_path)
    assert told == f"{item.name} is INVALID: x: {wanted}"
    for typed in wanted.replace("; where that does not help,", "").split():
        assert read(typed).fields, "what is advised can be typed"


# ---- autotune


def test_the_best_fields_are_found_in_few_tries(tmp_path: Path) -> None:
    item = the_item(tmp_path, "--benchmarks=bert --scenarios=server")
    seen: list[Mapping[str, int]] = []

    def attempt(fields: Mapping[str, int]) -> float | None:
        seen.append(fields)
        if fields.get("gpu_batch_size") == 64:
            return None
        best = {"gpu_batch_size": 16, "gpu_inference_streams": 2, "deque_timeout_usec": 500}
        return 100.0 - sum(abs(fields.get(name, 0) - value) for name, value in best.items())

    assert tune.search(item, attempt) == {
        "gpu_batch_size": 16,
        "gpu_inference_streams": 2,
        "deque_timeout_usec": 500,
    }
    assert seen[0] == {}
    assert len(seen) == 11 <= tune.MAX_TRIES


def test_a_search_ends_whatever_it_finds(tmp_path: Path) -> None:
    item = the_item(tmp_path, "--benchmarks=bert --scenarios=offline")
    count = [0]

    def attempt(fields: Mapping[str, int]) -> float | None:
        count[0] += 1
        return float(count[0])

    assert tune.search(item, attempt) is not None
    assert count[0] <= tune.MAX_TRIES
    assert tune.search(item, lambda fields: None) is None
    assert tune.search(item, lambda fields: 5.0) == {}, "what is not better is left out"


def test_what_run_args_fix_is_not_searched(tmp_path: Path) -> None:
    line = "--benchmarks=bert --scenarios=server --gpu_batch_size=2"
    assert list(tune.space(the_item(tmp_path, line))) == [
        "gpu_inference_streams",
        "deque_timeout_usec",
    ]
    stream = the_item(tmp_path, "--benchmarks=bert --scenarios=singlestream")
    assert tune.space(stream) == {}
    assert tune.better(stream, 1.0, 2.0), "less is better"


def test_a_try_of_autotune_is_short_and_apart(tmp_path: Path) -> None:
    line = "--benchmarks=bert --scenarios=offline --gpu_inference_streams=3"
    flow_ = a_flow(tmp_path, line, execution_mode="valid")
    plan = work.plan(flow_)
    assert tune.tried(flow_, plan, plan.items[0], {"gpu_batch_size": 16}) is None
    assert isinstance(flow_.runner, Hands)
    (typed,) = flow_.runner.lines
    assert {"--batch_size=16", "--min_duration=5000", "--execution_mode=test"} <= set(typed)
    assert "--num_workers=3" in typed
    assert f"--results_dir={tmp_path / 'build/autotune'}" in typed
    assert len([word for word in typed if word.startswith("--results_dir=")]) == 1


def test_every_searched_field_becomes_an_option(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, "--benchmarks=bert --scenarios=server --deque_timeout_usec=0")
    plan = work.plan(flow_)
    assert set(tune.SPACE) == set(tune.ONLY) <= set(options.inputs(plan.fields))
    assert dict(options.of_run(plan.fields, plan.items[0].overrides)) == {}, "0 is not to wait"
