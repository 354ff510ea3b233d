"""A calibration is used again on the same machine, and only there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import benchmark_lab as lab
from mlperf.catalog import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM, Scenario
from mlperf.harness import host, records
from mlperf.harness.jobs import Probe
from mlperf.harness.session import estimate, preparation
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import Overrides, SessionSettings, Targets, WorkerShape
from mlperf.harness.tuning import layout_probe, one_round, stored_profiles
from mlperf.harness.tuning.profile import SpeedProfile, StreamLatency, ThroughputPoint

PROBE = Probe({"onnxruntime": "1.0", "numpy": "2.0"}, 1, 540, 300_000_000)


def settings(folder: Path, **changes: Any) -> SessionSettings:
    """A session whose targets and calibrations are kept below ``folder``."""
    wanted = lab.settings(folder / "results", sut_dir=str(folder / "sut"), **changes)
    return records.decode(SessionSettings, wanted)


def calibration() -> SpeedProfile:
    """One that was never measured."""
    point = ThroughputPoint(WorkerShape(1, 1, 8), 1000.0, 0.008)
    latency = StreamLatency(WorkerShape(1, 1, 1), 0.001, 0.002)
    streams = {SINGLE_STREAM: latency, MULTI_STREAM: latency}
    return SpeedProfile(2, 540, point, point, streams, 0.015, {}, (point,), {}, 1.0)


def mark_of(wanted: SessionSettings, data: str = "data", probe: Probe = PROBE) -> dict[str, str]:
    """The fingerprint of a profile for the session's own model."""
    return stored_profiles.fingerprint(wanted, data, probe, wanted.model)


def test_the_same_machine_gets_the_same_calibration_back(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    path = stored_profiles.path_of(wanted, wanted.model)
    assert path is not None
    assert path.name == "resnet50-tiny.json"
    mark = mark_of(wanted)
    assert stored_profiles.find(path, mark) is None
    stored_profiles.store(path, mark, calibration())
    found = stored_profiles.find(path, mark)
    assert found is not None
    assert found.calibration == calibration()
    assert found.measured_at.startswith("20")
    path.write_text("{", encoding="utf-8")
    assert stored_profiles.find(path, mark) is None


def test_nothing_is_kept_without_a_folder_for_it(tmp_path: Path) -> None:
    nowhere = replace(settings(tmp_path), sut_dir="")
    assert stored_profiles.path_of(nowhere, nowhere.model) is None
    stored_profiles.store(None, {}, calibration())
    stored_profiles.forget(None)
    assert stored_profiles.find(None, {}) is None


def test_whatever_speed_depends_on_makes_it_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(tmp_path)
    mark = mark_of(wanted)
    others = [
        mark_of(wanted, "other"),
        mark_of(wanted, probe=replace(PROBE, versions={"numpy": "3"})),
        mark_of(replace(wanted, model=replace(wanted.model, sha256="0"))),
        mark_of(replace(wanted, overrides=Overrides(threads=7))),
        mark_of(replace(wanted, backend_options={"protocol": "grpc"})),
        mark_of(wanted, probe=replace(PROBE, device_facts={"name": "a card"})),
    ]
    machine = host.facts()
    for change in ({"cpu_model": "other"}, {"cores_usable": 99}, {"memory_bytes": 1}):
        changed = replace(machine, **change)  # type: ignore[arg-type]
        monkeypatch.setattr(host, "facts", lambda changed=changed: changed)
        others.append(mark_of(wanted))
    assert all(other != mark for other in others)
    monkeypatch.setattr(host, "facts", lambda: machine)
    longer = replace(wanted.overrides, min_duration=900)
    same = mark_of(replace(wanted, overrides=longer))
    assert same == mark


def test_a_second_session_measures_only_when_it_is_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, reuse in enumerate((True, True, False)):
        wanted = settings(
            tmp_path,
            reuse=reuse,
            scenarios=["SingleStream"],
            modes=["performance"],
            attempts=10,
        )
        own = replace(wanted, results_dir=str(tmp_path / f"results-{number}"))
        results = sessions.MeasurementSession(own).run()
        assert results.results[0].validity == "VALID"
        told = capsys.readouterr().out
        assert "tuned on" in told
        assert ("kept from" in told) == (number == 1), told


@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_busy_machine_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_quiet: bool
) -> None:
    wanted = settings(tmp_path)
    monkeypatch.setattr(preparation, "measure_profile", lambda context, model: calibration())
    patience = SimpleNamespace(wait=lambda: is_quiet)
    context: Any = SimpleNamespace(
        settings=wanted, dataset={"sha256": "data"}, probe=PROBE, patience=patience
    )
    preparation.load_or_measure_profile(context, wanted.model)
    assert (
        stored_profiles.find(stored_profiles.path_of(wanted, wanted.model), mark_of(wanted))
        is not None
    ) == is_quiet


def test_large_answers_keep_batches_small() -> None:
    assert layout_probe.batch_sizes(Overrides(), 64)[-1] == 64
    assert layout_probe.batch_sizes(Overrides(), 64, 1 << 20)[-1] == 16
    assert layout_probe.batch_sizes(Overrides(), 64, 1 << 30) == [1]
    assert layout_probe.batch_sizes(Overrides(batch_size=3), 64, 1 << 30)[-1] == 3


def of_20_a_second(samples: int) -> SpeedProfile:
    point = ThroughputPoint(WorkerShape(1, 1, 1), samples_per_s=20.0, batch_s=0.05)
    return SpeedProfile(
        cores=1,
        sample_count=samples,
        offline=point,
        server=point,
        streams={},
        server_limit_s=1.0,
        service_times={},
        points=(point,),
        versions={},
        seconds=1.0,
    )


@pytest.mark.parametrize(
    ("benchmark", "scenario", "loaded", "expected"),
    [
        ("gptj-99", OFFLINE, None, 500 / 20),
        ("gptj-99", OFFLINE, 100, 100 / 20),
        ("resnet50", OFFLINE, None, 1.1),
        ("gptj-99", SERVER, None, 500 / 9.996),
        ("resnet50", SERVER, None, 100 / 9.996),
    ],
)
def test_a_benchmark_of_equal_issue_takes_all_loaded_samples_at_least_once(
    tmp_path: Path, benchmark: str, scenario: Scenario, loaded: int | None, expected: float
) -> None:
    given = {"min_duration": 1, "performance_sample_count": loaded}
    asked = lab.settings(tmp_path, benchmark=benchmark, overrides=given)
    found = replace(records.decode(SessionSettings, asked), style="fast")
    seconds = estimate.seconds(found, of_20_a_second(500), scenario, "performance")
    assert seconds - estimate.START_S == pytest.approx(expected, abs=1.2)


@pytest.mark.parametrize("scenario", [OFFLINE, SERVER])
def test_a_test_run_of_equal_issue_is_no_longer_on_a_slow_machine(
    tmp_path: Path, scenario: Scenario
) -> None:
    """LoadGen fills every run up to whole rounds: GPT-J's 13368 articles here took 11 minutes."""
    given = {"min_duration": 1000}
    asked = lab.settings(tmp_path, benchmark="gptj-99", overrides=given)
    found, slow = records.decode(SessionSettings, asked), of_20_a_second(13368)
    assert found.style == "test"
    assert estimate.seconds(found, slow, scenario, "performance") < 60
    aim = Targets(qps=10.0)
    count = one_round.shortened(found, slow, scenario, aim).performance_sample_count
    assert count == int(one_round.LONGEST_S * (10 if scenario is SERVER else 20))
    # What somebody has asked for, and what is quick enough, stays as it is.
    for other in (
        replace(found, overrides=replace(found.overrides, performance_sample_count=5000)),
        replace(found, benchmark="resnet50"),
    ):
        assert one_round.shortened(other, slow, scenario, aim) == other.overrides
    quick = of_20_a_second(300)
    assert one_round.shortened(found, quick, scenario, aim) == found.overrides
    assert estimate.seconds(replace(found, style="valid"), slow, scenario, "performance") > 600
