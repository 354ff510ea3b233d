"""Two folders with results of the same system: no tree is made of one of them in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import submission_lab as lab
from mlperf.submission import build, claims, intake, runs
from mlperf.submission.errors import SubmissionError


@pytest.fixture
def own(measured: Path, tmp_path: Path) -> Path:
    """Results of our harness, which may be changed; the folder of its only system."""
    (system,) = (path.parent.parent for path in measured.glob("*_results/*/*/results.json"))
    target = tmp_path / "RES" / system.parent.name / system.name
    shutil.copytree(system, target)
    return target


@pytest.mark.parametrize(
    "name", ["{}.bak", "{}-old", "{}~", "{} (copy)", "a-second-system", "old/{}", "{}/{}", "a/b/{}"]
)
def test_a_copy_beside_the_results_is_refused_with_both_paths(own: Path, name: str) -> None:
    copy = own.parent / name.format(own.name, own.name)
    shutil.copytree(shutil.copytree(own, own.parent.parent / "aside"), copy)
    with pytest.raises(SubmissionError) as raised:
        runs.collect(own.parents[1])
    told = str(raised.value)
    for place in (own, copy):
        assert f"{own.parent.name}/{place.relative_to(own.parent)}" in told, told
    assert "--results_dir" in raised.value.hint
    assert "--hw_name" in raised.value.hint


def test_a_benchmark_copied_within_its_system_is_refused(own: Path) -> None:
    (benchmark,) = (path for path in own.iterdir() if path.is_dir())
    shutil.copytree(benchmark, own / f"{benchmark.name}.bak")
    with pytest.raises(SubmissionError, match=f"{benchmark.name}.* both hold results of resnet"):
        runs.collect(own.parents[1])


def test_another_style_of_run_is_no_second_system_unless_both_are_read(own: Path) -> None:
    other = own.parents[1] / "fast_results" / own.name
    shutil.copytree(own, other)
    with pytest.raises(SubmissionError, match="both hold results"):
        runs.collect(own.parents[1])
    own.parent.rename(own.parents[1] / "valid_results")
    found = runs.collect(own.parents[1])
    assert len(found.runs) == 1
    (note,) = (each for each in found.notes if "only valid_results is read" in each)
    assert "fast_results" in note


def test_a_renamed_folder_alone_keeps_its_system_and_a_note_says_so(own: Path) -> None:
    own.rename(own.with_name("box.bak"))
    found = runs.collect(own.parents[1])
    assert [run.sut for run in found.runs] == [own.name]
    assert f"the results in box.bak are of the system {own.name}" in " ".join(found.notes)


def test_what_a_killed_call_left_and_a_copied_test_do_not_count(own: Path) -> None:
    shutil.copytree(own, own.with_name(f".{own.name}.4711"))
    (run,) = runs.collect(own.parents[1]).runs
    sources = next(iter(run.scenarios.values()))
    (sources.home / "TEST01.bak").mkdir()
    (again,) = runs.collect(own.parents[1]).runs
    assert all(not each.tests for each in again.scenarios.values())


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A system in the layout of MLC, in one scenario."""
    system = tmp_path / "mlc" / "valid_results" / "box-reference-cpu-v1"
    lab.performance(
        system / "resnet50/offline/performance/run_1", "Offline", lab.Example("5.1"), 50000
    )
    info = {"system_name": "box", "implementation": "reference", "run_config": "default"}
    lab.put(system / "mlc-sut-info.json", json.dumps(info))
    return system


def described(folder: Path) -> intake.RunOverrides:
    lab.put(folder / "model.json", json.dumps(dict.fromkeys(build.MEASUREMENT_KEYS, "fp32")))
    return intake.RunOverrides(division="open", measurements=folder / "model.json")


@pytest.mark.parametrize("name", ["{}.bak", "{}~", "{} (2)", "old-{}", "{}_20251130", "machine-7"])
def test_a_copy_of_results_of_mlc_is_refused(upstream: Path, name: str) -> None:
    shutil.copytree(upstream, upstream.with_name(name.format(upstream.name)))
    with pytest.raises(SubmissionError, match="both hold results of the system box-reference"):
        runs.collect(upstream.parents[1], described(upstream.parents[2]))


def test_two_spellings_of_a_benchmark_are_one(upstream: Path) -> None:
    shutil.copytree(upstream / "resnet50", upstream / "resnet")
    with pytest.raises(SubmissionError, match="both hold results of resnet Offline"):
        runs.collect(upstream.parents[1], described(upstream.parents[2]))


def test_other_systems_stay_apart(upstream: Path) -> None:
    other = upstream.with_name("box-reference-cpu-v1.2")
    shutil.copytree(upstream, other)
    found = runs.collect(upstream.parents[1], described(upstream.parents[2]))
    assert {run.sut for run in found.runs} == {upstream.name, other.name}


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("box.bak", True),
        ("box - Copy (2)", True),
        ("Copy of box", True),
        ("box-old2", True),
        ("box.2025-11-30", True),
        ("box", False),
        ("box2", False),
        ("box-gpu", False),
        ("box.1.2", False),
        ("toolbox", False),
    ],
)
def test_names_of_copies(name: str, copied: bool) -> None:
    assert claims.is_copy(name, "box") is copied
