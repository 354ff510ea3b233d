"""Cleaning the scratch space: shown first, removed on demand, nothing else touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from steps import Step

ALIAS = "clean-nvidia-mlperf-inference-scratch-space"


@pytest.fixture
def space(tmp_path: Path) -> Path:
    root = tmp_path / "space"
    for name in ("data/squad", "data/imagenet", "models/bert", "preprocessed_data/squad_tokenized"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("x")
    return root


def clean(space: Path, **given: Any) -> Step:
    env = {"CM_NVIDIA_SCRATCH_PATH": str(space), **given}
    step = Step(ALIAS, space.parent / "entry", env)
    step.call("preprocess")
    return step


def left(space: Path) -> set[str]:
    return {path.parent.relative_to(space).as_posix() for path in space.rglob("file")}


def test_it_is_only_shown_first(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clean(space, CM_NVIDIA_BENCHMARK="bert")
    assert len(left(space)) == 4
    told = capsys.readouterr().out
    assert told.count("would remove") == 3
    assert "nothing is removed without --apply" in told


def test_what_is_asked_for_goes_and_nothing_else(space: Path) -> None:
    clean(space, CM_NVIDIA_BENCHMARK="bert", CM_NVIDIA_APPLY="yes")
    assert left(space) == {"data/imagenet"}
    clean(space, CM_NVIDIA_SCRATCH_PART="data", CM_NVIDIA_APPLY="yes")
    assert left(space) == set()
    assert (space / "data").is_dir()


def test_of_a_link_only_the_link_goes(space: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    (space / "data/coco").symlink_to(outside)
    clean(space, CM_NVIDIA_APPLY="yes")
    assert (outside / "file").read_text() == "x"
    assert not (space / "data/coco").is_symlink()


@pytest.mark.parametrize(
    ("folder", "given", "told"),
    [
        ("entry", {}, "it is not a scratch space"),
        ("nowhere", {}, "is not there"),
        ("space", {"CM_NVIDIA_BENCHMARK": "brt"}, "there is no benchmark brt"),
    ],
)
def test_what_cannot_be_is_refused(
    folder: str, given: dict[str, str], told: str, space: Path
) -> None:
    (space.parent / "entry").mkdir(exist_ok=True)
    with pytest.raises(Error, match=told):
        clean(space.parent / folder, **given)
