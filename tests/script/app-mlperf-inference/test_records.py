"""Settings and results as JSON: nothing is lost, nothing misspelt is taken."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmark_lab as lab
from mlperf.catalog import OFFLINE, SERVER, SINGLE_STREAM
from mlperf.harness import records
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import (
    ModelSpec,
    Overrides,
    RunSettings,
    SessionSettings,
    Targets,
    WorkerShape,
    user_conf,
)
from mlperf.harness.tuning.profile import ThroughputPoint
from support import run

positive = st.floats(min_value=1e-5, max_value=1e8)


def example(**changes: Any) -> dict[str, Any]:
    return lab.settings(Path("results"), dataset="data", **changes)


def test_settings_survive_the_way_through_a_file(tmp_path: Path) -> None:
    settings = records.decode(SessionSettings, lab.settings(tmp_path))
    records.write(tmp_path / "settings.json", settings)
    assert records.read(SessionSettings, tmp_path / "settings.json") == settings


@given(
    st.builds(Overrides, offline_target_qps=st.none() | positive, threads=st.none() | st.integers())
)
def test_overrides_survive(overrides: Overrides) -> None:
    assert records.decode(Overrides, json.loads(json.dumps(records.encode(overrides)))) == overrides


@given(st.builds(ThroughputPoint, st.builds(WorkerShape, *[st.integers()] * 3), positive, positive))
def test_nested_records_survive(point: ThroughputPoint) -> None:
    assert records.decode(ThroughputPoint, json.loads(json.dumps(records.encode(point)))) == point


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"senario": []}, "unknown key 'senario'"),
        ({"scenarios": "Offline"}, "scenarios: expected a list"),
        ({"scenarios": ["Online"]}, "found Online"),
        ({"modes": []}, "found nothing"),
        ({"style": "slow"}, "expected one of test, fast, valid"),
        ({"reuse": 1}, "reuse: expected bool"),
        ({"overrides": {"threads": 1.5}}, "overrides.threads: expected int"),
        ({"overrides": {"thread": 1}}, "overrides: unknown key 'thread'"),
        ({"model": {}}, "model: .*missing"),
        ({"round": None}, "round: expected str"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        records.decode(SessionSettings, {**example(), **change})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"cannot read .*nothing\.json"):
        records.read(SessionSettings, tmp_path / "nothing.json")


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    records.write_text(tmp_path / "a.txt", "old")
    records.write_text(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_system_under_test_is_named_for_folders() -> None:
    settings = records.decode(SessionSettings, example(hw_name="my box/1"))
    assert settings.sut("1.31.1") == "my_box_1-cmbench-cpu-onnxruntime-v1.31.1-default_config"


# ---------------------------------------------------------------- user.conf


def run_settings(**changes: Any) -> RunSettings:
    values: dict[str, Any] = {
        "benchmark": "resnet50",
        "backend": "null",
        "device": "cpu",
        "model": records.decode(ModelSpec, lab.model()),
        "dataset": "data",
        "scenario": OFFLINE,
        "mode": "performance",
        "style": "test",
        "shape": WorkerShape(1, 1, 1),
        "targets": Targets(qps=2500.0, min_duration_ms=10_000),
        "overrides": Overrides(),
        "folder": "folder",
    }
    return RunSettings(**{**values, **changes})


def conf(run: RunSettings) -> dict[str, float]:
    lines = user_conf(run, "resnet50", 540).splitlines()
    return {key: float(value) for key, _, value in (line.partition(" = ") for line in lines)}


def test_user_conf_says_only_what_differs_from_the_round() -> None:
    assert conf(run_settings()) == {
        "resnet50.Offline.target_qps": 2500,
        "resnet50.Offline.min_duration": 10_000,
        "resnet50.Offline.min_query_count": 1,
        "resnet50.Offline.performance_sample_count_override": 540,
    }


def test_valid_runs_keep_the_minimum_of_the_round() -> None:
    found = conf(run_settings(style="valid", targets=Targets(qps=10.0)))
    assert found == {
        "resnet50.Offline.target_qps": 10,
        "resnet50.Offline.performance_sample_count_override": 540,
    }


@given(positive)
def test_numbers_are_written_without_an_exponent(value: float) -> None:
    run = run_settings(scenario=SINGLE_STREAM, targets=Targets(latency_ms=value))
    text = user_conf(run, "resnet50", 1).split("target_latency = ")[1].split("\n")[0]
    assert "e" not in text
    assert float(text) == pytest.approx(value, abs=1e-6)


RULES = """
import sys
import sys
from pathlib import Path
from mlperf.harness import records
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.measuring import loadgen_run
from mlperf.harness.settings import RunSettings
run = records.read(RunSettings, Path(sys.argv[1]))
benchmark = benchmarks.create(run.benchmark, Path(run.dataset), run.model)
found = loadgen_run._test_settings(run, benchmark)
print(found.min_duration_ms, found.server_target_latency_ns, found.server_target_qps,
      found.qsl_rng_seed, found.performance_sample_count_override)
"""


@pytest.mark.parametrize(
    ("style", "duration", "wanted"), [("valid", None, 600_000), ("test", 10_000, 10_000)]
)
def test_loadgen_gets_the_rules_of_the_round(
    tmp_path: Path, style: str, duration: int | None, wanted: int
) -> None:
    """By LoadGen's own reading of its built-in rules and of our user.conf."""
    config = tmp_path / "run.json"
    aim = Targets(qps=40.0, min_duration_ms=duration)
    made = run_settings(
        scenario=SERVER, style=style, targets=aim, folder=str(tmp_path), dataset=str(lab.arrays())
    )
    records.write(config, made)
    words = [sys.executable, "-c", RULES, str(config)]
    done = run(words, env=lab.harness_environment()).ok()
    assert done.stdout.split() == [str(wanted), "15000000", "40.0", "2085463073848966840", "540"]
