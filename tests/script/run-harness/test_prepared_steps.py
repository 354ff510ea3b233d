"""What is prepared is what runs read: both hand a script the same Python, and the same folders."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from aws_neuron import artifact
from nvidia_flow_lab import Hands, a_flow
from nvidia_mlperf.make import build, calibrate, data, flow, generate, inferentia, steps, targets

LINE = "--benchmarks=resnet50 --scenarios=offline"


class StoppedError(Exception):
    """The line is recorded, and nothing is made of its answer."""


@dataclass
class Recorder(Hands):
    """Keeps the lines, answers plans, and stops where the answer of a script is read."""

    calls: list[list[str]] = field(default_factory=list)

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        if line[0] == "plan":
            original = {"tags": "get,dataset,original,x", "children": []}
            step = {"tags": "get,dataset,preprocessed,x", "children": []}
            if "--new" in line:
                return {"root": {**step, "children": [original]}}
            return {
                "root": {
                    "tags": "run",
                    "children": [step, {"tags": "get,ml-model", "children": []}],
                }
            }
        if "scratch,space" in line[2]:
            return {"env": {"MLPERF_SCRATCH_PATH": "/scratch"}}
        self.calls.append(list(line))
        raise StoppedError


def at_work(tmp_path: Path, vendor: str = targets.NVIDIA, **given: Any) -> flow.Flow:
    made = a_flow(tmp_path, LINE, vendor, hands=Recorder(), allow_root=True, **given)
    return replace(made, variables={"RUN_ARGS": LINE, "BENCHMARKS": "resnet50"})


@pytest.mark.parametrize(
    "word",
    [
        data.download_model,
        data.download_data,
        data.preprocess_data,
        generate.generate_engines,
        calibrate.calibrate,
        build.build,
    ],
)
@pytest.mark.parametrize("form", ["full", "tiny"])
def test_every_step_that_is_prepared_has_the_python_of_runs(
    word: Callable[[flow.Flow], None], form: str, tmp_path: Path
) -> None:
    work = at_work(tmp_path, form=form)
    hands = work.runner
    assert isinstance(hands, Recorder)
    with contextlib.suppress(StoppedError):
        word(work)
    assert [*hands.calls, *hands.lines]
    for line in (*hands.calls, *hands.lines):
        assert hands.python("")[0] in line


def test_so_have_those_for_inferentia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "usual_scratch", lambda: tmp_path / "none")
    work = at_work(tmp_path, targets.INFERENTIA)
    hands = work.runner
    assert isinstance(hands, Recorder)
    inferentia.build_inferentia(work)
    assert {line[2].split(",")[0] for line in hands.lines} == {"--tags=get", "--tags=compile"}
    for line in hands.lines:
        assert hands.python("")[0] in line
        assert "--adr.python.name=mlperf" not in line


def test_all_lines_have_the_python_that_a_folder_is_made_for(tmp_path: Path) -> None:
    work = at_work(tmp_path, python="/opt/conda")
    hands = work.runner
    assert isinstance(hands, Recorder)
    build.build(work)
    assert "--env.CM_PYTHON_BIN_WITH_PATH=/opt/conda/bin/python3" in hands.lines[0]
    assert "--python=/opt/conda" in steps.base(work, "resnet50")
    assert not [word for word in steps.base(at_work(tmp_path), "resnet50") if "python" in word]


def test_a_run_reads_the_files_that_the_guide_for_inferentia_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact, "usual_scratch", lambda: tmp_path / "scratch")
    work = at_work(tmp_path / "flow", targets.INFERENTIA, form="full")
    (tmp_path / "scratch").mkdir()
    assert data.of_run(work, "resnet50", "resnet50") == []
    (tmp_path / "scratch" / "preprocessed_data" / "imagenet").mkdir(parents=True)
    word = f"--adr.dataset-preprocessed.scratch_path={tmp_path / 'scratch'}"
    assert data.of_run(work, "resnet50", "resnet50") == [word]
    tiny = replace(work, settings=replace(work.settings, form="tiny"))
    assert data.of_run(tiny, "resnet50", "resnet50") == []
