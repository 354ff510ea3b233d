"""The scratch space of NVIDIA's flow: which folder it is, what is made, what there is room for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmbench.errors import Error
from nvidia_mlperf.flow import space
from steps import Step

ALIAS = "get-mlperf-inference-nvidia-scratch-space"
KEYS = ("MLPERF_SCRATCH_PATH", "CM_MLPERF_SCRATCH_PATH", "CM_NVIDIA_MLPERF_SCRATCH_PATH")


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLPERF_SCRATCH_PATH", raising=False)


def test_the_three_folders_are_made_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = tmp_path / "a b" / "scratch"
    env = {"CM_NVIDIA_SCRATCH_PATH": str(wanted), "CM_NVIDIA_ALLOW_ROOT": "yes"}
    step = Step(ALIAS, tmp_path / "entry", env)
    step.call("preprocess")
    step.call("preprocess")
    assert sorted(path.name for path in wanted.iterdir()) == sorted(space.FOLDERS)
    assert {step.env[key] for key in KEYS} == {str(wanted)}
    assert "GB free" in capsys.readouterr().out


def test_the_variable_of_the_guides_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(tmp_path / "space"))
    step = Step(ALIAS, tmp_path / "entry", {"CM_NVIDIA_ALLOW_ROOT": "yes"})
    step.call("preprocess")
    assert step.env["MLPERF_SCRATCH_PATH"] == str(tmp_path / "space")


def test_nobody_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "FALLBACK", str(tmp_path / "none"))
    with pytest.raises(Error, match="the scratch space is not named"):
        Step(ALIAS, tmp_path / "entry", {}).call("preprocess")
    (tmp_path / "fixed").mkdir()
    monkeypatch.setattr(space, "FALLBACK", str(tmp_path / "fixed"))
    assert space.scratch_path("", {}) == str(tmp_path / "fixed")


@pytest.mark.parametrize("told", ["/path/to/scratch/space", "<path/to/scratch/space>", "DIR"])
def test_nothing_is_made_of_a_placeholder(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    env = {"CM_NVIDIA_SCRATCH_PATH": told, "CM_NVIDIA_ALLOW_ROOT": "yes"}
    with pytest.raises(Error, match="is a placeholder of the guide") as caught:
        Step(ALIAS, tmp_path / "entry", env).call("preprocess")
    assert caught.value.hint.startswith("export MLPERF_SCRATCH_PATH=")
    assert list(here.iterdir()) == []


def test_root_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    env = {"CM_NVIDIA_SCRATCH_PATH": str(tmp_path / "space")}
    with pytest.raises(Error) as caught:
        Step(ALIAS, tmp_path / "entry", env).call("preprocess")
    assert "--allow_root" in caught.value.hint
    assert not (tmp_path / "space").exists()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "space").write_text("")
    env = {"CM_NVIDIA_SCRATCH_PATH": str(tmp_path / "space"), "CM_NVIDIA_ALLOW_ROOT": "yes"}
    with pytest.raises(Error, match="cannot be made: Not a directory"):
        Step(ALIAS, tmp_path / "entry", env).call("preprocess")


def test_room_is_compared_by_benchmark() -> None:
    """Without the 24 days of clicks, everything fits into the 400 GB that are free."""
    assert space.too_large(400 * 10**9) == ["dlrm (1200 GB)", "dlrm-v2 (6100 GB)"]
    assert space.too_large(10**13) == []


def test_links_to_folders_of_the_cache_are_removed_and_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = tmp_path / "CM" / "cmbench" / "v1" / "store" / "get-dataset-digits_1"
    (entry / "val").mkdir(parents=True)
    (entry / "m.onnx").touch()
    own, data = tmp_path / "own", tmp_path / "scratch" / "data"
    own.mkdir()
    (data / "BraTS").mkdir(parents=True)
    (data / "imagenet").symlink_to(entry / "val")
    (data / "BraTS" / "train").symlink_to(entry / "gone")
    (data / "criteo").symlink_to(own)
    (data / "m.onnx").symlink_to(entry / "m.onnx")
    env = {"CM_NVIDIA_SCRATCH_PATH": str(tmp_path / "scratch"), "CM_NVIDIA_ALLOW_ROOT": "yes"}
    Step(ALIAS, tmp_path / "entry", env).call("preprocess")
    assert sorted(path.name for path in data.iterdir()) == ["BraTS", "criteo", "m.onnx"]
    assert not (data / "BraTS" / "train").is_symlink()
    assert (entry / "val").is_dir()
    assert f"{data / 'imagenet'}: the link" in capsys.readouterr().out


def test_a_scratch_space_whose_folder_lies_in_the_cache_is_refused(tmp_path: Path) -> None:
    entry = tmp_path / "CM" / "cmbench" / "v1" / "store" / "x_1"
    entry.mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "data").symlink_to(entry)
    env = {"CM_NVIDIA_SCRATCH_PATH": str(tmp_path / "scratch"), "CM_NVIDIA_ALLOW_ROOT": "yes"}
    with pytest.raises(Error, match="removed with it by cm rm cache"):
        Step(ALIAS, tmp_path / "entry", env).call("preprocess")
    assert list(entry.iterdir()) == []
