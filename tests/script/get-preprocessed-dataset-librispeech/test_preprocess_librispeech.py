"""Arrays of sound: the longest first, none above 15 s, and what is refused."""

from __future__ import annotations

import hashlib
import json
import wave
from pathlib import Path

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from support import LIB

preprocess = lab.module_of(LIB / "modelzoo/preprocessing/librispeech" / "preprocess.py")


def write_wave(path: Path, samples: np.ndarray, rate: int = 16_000) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


@pytest.fixture
def part(tmp_path: Path) -> Path:
    folder = tmp_path / "dev-clean" / "1" / "2"
    folder.mkdir(parents=True)
    for number, size in enumerate((1600, 15 * 16_000, 15 * 16_000 + 1)):
        write_wave(folder / f"1-2-{number:04d}.wav", np.arange(size) % 100)
    lines = "1-2-0000 SHORT ONE\n1-2-0001 IT'S LONG\n1-2-0002 TOO LONG\n"
    (folder / "1-2.trans.txt").write_text(lines)
    return tmp_path / "dev-clean"


def test_the_longest_comes_first_and_what_is_too_long_stays_out(part: Path, tmp_path: Path) -> None:
    words = ["--part", str(part), "--name", "x", "--expect", "2", "--out", str(tmp_path)]
    assert preprocess.main(words) == 0
    assert json.loads((tmp_path / "texts.json").read_text()) == ["it's long", "short one"]
    assert np.load(tmp_path / "offsets.npy").tolist() == [0, 240_000, 241_600]
    samples = np.load(tmp_path / "samples.npy")
    np.testing.assert_array_equal(samples[240_000:], np.arange(1600) % 100)
    facts = json.loads((tmp_path / "dataset.json").read_text())
    assert (facts["count"], facts["left_out"], facts["rate"]) == (2, 1, 16_000)
    for name, file in facts["files"].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == file["sha256"]


def test_what_is_wrong_is_said(
    part: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--part", str(part), "--name", "x", "--out", str(tmp_path)]
    assert preprocess.main([*words, "--expect", "2513"]) == 1
    assert "has 2 utterances of up to 15 s, expected 2513" in capsys.readouterr().err
    write_wave(part / "1" / "2" / "1-2-0000.wav", np.zeros(10), rate=8000)
    assert preprocess.main(words) == 1
    assert "8000 samples a second, expected 16000" in capsys.readouterr().err
    (part / "1" / "2" / "1-2-0000.wav").unlink()
    assert preprocess.main(words) == 1
    assert "names 1-2-0000, but there is no such sound file" in capsys.readouterr().err
    assert preprocess.main(["--part", str(tmp_path / "no"), "--name", "x", "--out", "."]) == 1
    assert "is it a part of LibriSpeech?" in capsys.readouterr().err


def test_the_tiny_set_keeps_its_texts() -> None:
    texts = json.loads((forms.speech_arrays() / "texts.json").read_text())
    assert len(texts) == 400
    assert all(2 <= len(text.split()) <= 4 for text in texts)


def test_synthetic_sounds_are_as_long_as_utterances(tmp_path: Path) -> None:
    program = "modelzoo/preprocessing/librispeech/synthetic.py"
    forms._program(program, "--qsl-count", 2513, "--out", tmp_path)
    facts = json.loads((tmp_path / "dataset.json").read_text())
    lengths = np.diff(np.load(tmp_path / "offsets.npy")) / facts["rate"]
    assert (facts["count"], facts["qsl_count"], facts["name"]) == (
        512,
        2513,
        "librispeech-synthetic",
    )
    assert 5 < lengths.mean() < 7
    assert 1.5 <= lengths.min() < lengths.max() <= 15.0
    assert (np.diff(lengths) <= 0).all()
