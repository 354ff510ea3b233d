"""Pieces of up to half a minute, out of LibriSpeech or of MLCommons's manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo.datasets.librispeech.make_dataset import write_wave
from modelzoo.preprocessing.librispeech import repack

customize = lab.module_of(forms.SCRIPT / "get-dataset-whisper" / "customize.py")
SECOND = repack.RATE


def part(folder: Path, chapters: dict[str, list[float]]) -> Path:
    """A part of LibriSpeech: utterances of so many seconds, by chapter."""
    for name, lengths in chapters.items():
        chapter = folder / name.replace("-", "/")
        chapter.mkdir(parents=True)
        lines = []
        for number, seconds in enumerate(lengths):
            sound = np.full(round(seconds * SECOND), number + 1, np.int16)
            write_wave(chapter / f"{name}-{number:04d}.wav", sound)
            lines.append(f"{name}-{number:04d} WORD {number}\n")
        (chapter / f"{name}.trans.txt").write_text("".join(lines))
    return folder


def repacked(out: Path, *words: object) -> int:
    out.mkdir()
    return repack.main([*map(str, words), "--name", "test", "--out", str(out)])


def test_utterances_of_a_chapter_are_joined_up_to_thirty_seconds(tmp_path: Path) -> None:
    clean = part(tmp_path / "clean", {"1-10": [14.5, 15, 14, 31, 2], "1-11": [3]})
    other = part(tmp_path / "other", {"2-20": [30]})
    out = tmp_path / "out"
    assert repacked(out, "--parts", clean, other, "--expect", 4) == 0
    # 31 s are left out; half a second lies between two utterances; chapters stay apart.
    lengths = np.diff(np.load(out / "offsets.npy")) / SECOND
    assert lengths.tolist() == [30, 16.5, 3, 30]
    texts = json.loads((out / "texts.json").read_text())
    assert texts == ["word 0 word 1", "word 2 word 4", "word 0", "word 0"]
    samples = np.load(out / "samples.npy")
    assert samples[[0, round(14.7 * SECOND), round(15.2 * SECOND)]].tolist() == [1, 0, 2]
    assert json.loads((out / "dataset.json").read_text())["normalize"] == "english"


def test_another_number_of_pieces_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = part(tmp_path / "clean", {"1-10": [1]})
    assert repacked(tmp_path / "out", "--parts", clean, "--expect", 1633) == 1
    assert "there are 1 pieces, expected 1633" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_manifest_names_pieces_that_are_joined(tmp_path: Path) -> None:
    (tmp_path / "dev-all-repack").mkdir()
    write_wave(tmp_path / "dev-all-repack" / "1-10_0.wav", np.ones(800, np.int16))
    entry = {"transcript": "Hello World", "files": [{"fname": "data/dev-all-repack/1-10_0.wav"}]}
    manifest = tmp_path / "dev-all-repack.json"
    manifest.write_text(json.dumps([entry]))
    assert repacked(tmp_path / "out", "--manifest", manifest) == 0
    assert json.loads((tmp_path / "out" / "texts.json").read_text()) == ["hello world"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{}]", "lists no pieces"),
        ("[", "lists no pieces"),
        ('[{"transcript": "a", "files": [{"fname": "gone.wav"}]}]', "has no gone.wav"),
    ],
)
def test_another_manifest_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    manifest = tmp_path / "dev-all-repack.json"
    manifest.write_text(text)
    assert repacked(tmp_path / "out", "--manifest", manifest) == 1
    assert message in capsys.readouterr().err


def test_mlcommons_files_are_asked_for_before_anything_runs(tmp_path: Path) -> None:
    env: dict[str, Any] = {"CM_DATASET_WHISPER_SOURCE": "mlcommons"}
    with pytest.raises(Error, match="no --repacked=FOLDER") as raised:
        customize.refuse({"env": env})
    assert "r2-downloader" in raised.value.hint
    env |= {"CM_DATASET_WHISPER_PATH": str(tmp_path), "CM_DATASET_WHISPER_COUNT": "1633"}
    with pytest.raises(Error, match=r"there is no .*dev-all-repack\.json"):
        customize.preprocess({"env": env})
