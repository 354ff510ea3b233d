"""What the cache holds is shown in the scratch space: nobody writes into the cache there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from common.problems import Problem
from nvidia_flow_lab import Hands, a_flow
from nvidia_mlperf.flow import space
from nvidia_mlperf.make import data, flow, shown


@dataclass
class Cache(Hands):
    """Answers for the scripts of models and data; ``told`` keeps what is said."""

    entry: Path = Path()
    calls: list[list[str]] = field(default_factory=list)
    failure_of_data: str = ""
    one_file: bool = False

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        self.calls.append(list(line))
        tags = line[2]
        if line[0] == "plan":
            original = {"tags": "get,dataset,original,x", "children": []}
            # As where its arrays are in the cache: then a plan shows nothing below them.
            step = {"tags": "get,dataset,preprocessed,x", "children": []}
            model = {"tags": "get,ml-model,x", "children": []}
            if "--new" in line:
                return {"root": {**step, "children": [original]}}
            return {"root": {"tags": "run", "children": [step, model]}}
        if "scratch,space" in tags:
            for name in space.FOLDERS:
                (self.entry.parents[4] / "scratch" / name).mkdir(parents=True, exist_ok=True)
            return {"env": {"MLPERF_SCRATCH_PATH": str(self.entry.parents[4] / "scratch")}}
        if self.failure_of_data:
            raise Problem(self.failure_of_data, "no images", "--imagenet_path=FOLDER")
        if self.one_file:
            return {"env": {data.SQUAD: str(self.entry / "m.onnx")}}
        return {
            "env": {
                "CM_ML_MODEL_FILE_WITH_PATH": str(self.entry / "m.onnx"),
                "CM_DATASET_PATH": str(self.entry / "val"),
                "CM_DATASET_PREPROCESSED_PATH": str(self.entry / "val"),
            }
        }


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    path = tmp_path / "CM" / "cmbench" / "v1" / "store" / "get-dataset_1"
    (path / "val" / "below").mkdir(parents=True)
    for name in ("val/one.jpg", "val/below/two.jpg", "m.onnx"):
        (path / name).write_text("of the cache")
    return path


def at_work(tmp_path: Path, entry: Path, **given: Any) -> tuple[flow.Flow, Cache]:
    hands = Cache(entry=entry, **{k: given.pop(k) for k in ("failure_of_data",) if k in given})
    made = a_flow(tmp_path / "closed", hands=hands, allow_root=True, **given)
    return flow.Flow(
        made.folder, made.settings, {"BENCHMARKS": "resnet50"}, made.vendor, hands
    ), hands


WORDS = {
    "download_model": "models/ResNet50",
    "download_data": "data/imagenet",
    "preprocess_data": "preprocessed_data/imagenet",
}


@pytest.mark.parametrize("form", ["full", "tiny", "synthetic"])
@pytest.mark.parametrize("word", WORDS)
def test_what_is_written_beside_what_is_shown_outlives_the_cache(
    word: str, form: str, tmp_path: Path, entry: Path
) -> None:
    work, _ = at_work(tmp_path, entry, form=form)
    getattr(data, word)(work)
    (tmp_path / "scratch" / "data" / "imagenet").mkdir(exist_ok=True)
    for folder in (tmp_path / "scratch").rglob("*"):
        assert not (folder.is_symlink() and folder.is_dir()), folder
        if folder.is_dir():
            (folder / "ILSVRC2012_val_00000001.JPEG").write_text("the user's")
    before = sorted((tmp_path / "scratch").rglob("ILSVRC*"))
    assert before
    assert not list(entry.rglob("ILSVRC*"))
    shutil.rmtree(entry)
    assert sorted((tmp_path / "scratch").rglob("ILSVRC*")) == before


@pytest.mark.parametrize("form", space.STAND_INS)
@pytest.mark.parametrize("word", WORDS)
def test_what_stands_in_has_places_of_its_own(
    word: str, form: str, tmp_path: Path, entry: Path
) -> None:
    work, _ = at_work(tmp_path, entry, form=form)
    getattr(data, word)(work)
    assert not (tmp_path / "scratch" / WORDS[word]).exists()
    assert list((tmp_path / "scratch" / f"{WORDS[word]}_{form}").iterdir())


def test_places_of_every_benchmark_and_form_differ() -> None:
    for name in space.FOLDERS:
        for word, own in space.places().items():
            for scratch, form in product(own, space.STAND_INS):
                first = getattr(space.of_form(scratch, form), name).split("/")[0]
                assert first != getattr(scratch, name).split("/")[0], word


def test_a_link_of_an_earlier_version_is_replaced(tmp_path: Path, entry: Path) -> None:
    target = tmp_path / "scratch" / "data" / "squad"
    target.parent.mkdir(parents=True)
    target.symlink_to(entry / "val")
    assert "links to 2 files" in shown.show(Hands(), target, entry / "val")
    assert not target.is_symlink()
    assert (target / "below" / "two.jpg").read_text() == "of the cache"


def test_what_the_user_has_put_there_stays_and_old_links_are_renewed(
    tmp_path: Path, entry: Path
) -> None:
    target = tmp_path / "scratch" / "data" / "squad"
    shown.show(Hands(), target, entry / "val")
    (target / "mine").write_text("the user's")
    newer = entry.with_name("get-dataset_2")
    entry.rename(newer)
    (newer / "val" / "below" / "two.jpg").unlink()
    assert "links to 1 files" in shown.show(Hands(), target, newer / "val")
    assert (target / "mine").read_text() == "the user's"
    assert (target / "one.jpg").read_text() == "of the cache"
    assert not (target / "below" / "two.jpg").is_symlink()
    own = tmp_path / "scratch" / "data" / "own"
    own.mkdir()
    (own / "one.jpg").write_text("the user's")
    assert shown.show(Hands(), own, newer / "val") == "there already"
    assert [path.name for path in own.iterdir()] == ["one.jpg"]


def test_files_of_the_cache_that_are_shown_cannot_be_written(tmp_path: Path, entry: Path) -> None:
    mine = tmp_path / "mine.onnx"
    mine.write_text("the user's")
    (entry / "own.onnx").symlink_to(mine)
    for name in ("m.onnx", "own.onnx"):
        assert shown.show(Hands(), tmp_path / "models" / name, entry / name).startswith("-> ")
    assert (entry / "m.onnx").stat().st_mode & 0o222 == 0
    assert mine.stat().st_mode & 0o200


def test_a_link_into_the_cache_is_not_the_users_data(tmp_path: Path, entry: Path) -> None:
    work, _ = at_work(tmp_path, entry, form="full")
    target = work.build / "data" / "imagenet"
    target.parent.mkdir(parents=True)
    target.symlink_to(entry / "val")
    assert data.by_hand(work, "resnet50") == []
    target.unlink()
    target.mkdir()
    assert data.by_hand(work, "resnet50") == [f"--imagenet_path={target.resolve()}"]


@pytest.mark.parametrize("kind", data.OF_DATA)
def test_data_that_lack_are_asked_for_at_their_place(
    kind: str, tmp_path: Path, entry: Path
) -> None:
    work, _ = at_work(tmp_path, entry, form="full", failure_of_data=kind)
    for word in (data.download_data, data.preprocess_data):
        with pytest.raises(Problem, match="no images") as caught:
            word(work)
        assert caught.value.code == kind
        assert caught.value.hint == f"put the data into {tmp_path / 'scratch/data/imagenet'}"
        # The next call meets the link of an earlier version at this target.
        (tmp_path / "scratch/data/imagenet").symlink_to(entry / "val")


@pytest.mark.parametrize("word", WORDS)
def test_links_are_made_where_they_lack(word: str, tmp_path: Path, entry: Path) -> None:
    work, hands = at_work(tmp_path, entry)
    getattr(data, word)(work)
    getattr(data, word)(work)
    assert sum("scratch,space" in line[2] for line in hands.calls) == 1
    assert sorted(path.name for path in work.build.iterdir()) == sorted(space.FOLDERS)


def test_a_data_set_of_one_file_is_shown_too(tmp_path: Path, entry: Path) -> None:
    work, hands = at_work(tmp_path, entry)
    hands.one_file = True
    data.download_data(work)
    assert (tmp_path / "scratch/data/imagenet_tiny/m.onnx").read_text() == "of the cache"
