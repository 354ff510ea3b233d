"""The small form of Whisper's data: a recording and a voice, out of wheels that are made here."""

from __future__ import annotations

import io
import json
import wave
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import benchmark_forms as forms
import benchmark_lab as lab
import wheel_lab
from mlperf.harness.benchmarks.sounds import SoundSet
from mlperf.harness.benchmarks.transcription import NUMBERS
from modelzoo.datasets.librispeech import spoken
from modelzoo.program import ProgramError

SCRIPT = forms.SCRIPT / "get-dataset-whisper"
TEXTS = SCRIPT / "small" / "texts.json"
customize = lab.module_of(SCRIPT / "customize.py")
# Samples a second of the recording, and of the voice.
RECORDED, SPOKEN = 48_000, 8_000


def recording(seconds: float) -> bytes:
    """A tone of 440 Hz."""
    times = np.arange(round(seconds * RECORDED)) / RECORDED
    samples = (16_000 * np.sin(2 * np.pi * 440 * times)).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(RECORDED)
        written.writeframes(samples.tobytes())
    return file.getvalue()


def network() -> bytes:
    """A voice that makes a sample of a number, a tenth of it."""
    nodes = [
        helper.make_node("Cast", ["input"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "tenth"], ["small"]),
        helper.make_node("Unsqueeze", ["small", "axes"], ["output"]),
    ]
    inputs = [
        helper.make_tensor_value_info("input", TensorProto.INT64, ["n", "t"]),
        helper.make_tensor_value_info("input_lengths", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("scales", TensorProto.FLOAT, [3]),
    ]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["n", 1, 1, "t"])
    constants = [
        helper.make_tensor("tenth", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("axes", TensorProto.INT64, [2], [1, 2]),
    ]
    graph = helper.make_graph(nodes, "voice", inputs, [output], constants)
    opset = [helper.make_opsetid("", 17)]
    made: bytes = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    return made


def wheels(seconds: float) -> dict[spoken.PinnedWheel, dict[str, bytes]]:
    settings = {
        "audio": {"sample_rate": SPOKEN},
        "phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [3], "b": [4, 5]},
    }
    return {
        spoken.READING: {spoken.RECORDING: recording(seconds)},
        spoken.VOICE: {
            spoken.NETWORK: network(),
            spoken.SETTINGS: json.dumps(settings).encode(),
        },
    }


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to write into, with the wheels at hand."""
    wheel_lab.hand_out(monkeypatch, tmp_path, wheels(3.0))
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def written(folder: Path, sounds: str) -> Path:
    read = [
        {"begin": 0.0, "end": 1.0, "text": "One, two:"},
        {"begin": 1.0, "end": 2.5, "text": "well-read."},
    ]
    said = [[{"text": "The A.", "sounds": "a"}, {"text": "Then B!", "sounds": sounds}]]
    path = folder / "texts.json"
    path.write_text(json.dumps({"read": read, "spoken": said}))
    return path


def test_a_recording_is_cut_and_texts_are_spoken(out: Path, tmp_path: Path) -> None:
    words = ["--texts", str(written(tmp_path, "ab")), "--name", "test", "--out", str(out)]
    assert spoken.main(words) == 0
    sounds = SoundSet(out, spoken.RATE, "whisper")
    assert sounds.texts == ["one, two:", "well read.", "the a. then b!"]
    # A number of the voice is two samples; half a second lies between two sentences.
    numbers = ([1, 0, 3, 0, 2], [1, 0, 3, 0, 4, 5, 0, 2])
    lengths = [spoken.RATE, 1.5 * spoken.RATE, 2 * sum(map(len, numbers)) + spoken.RATE // 2]
    assert sounds.lengths.tolist() == lengths
    tone = sounds.sound(1)
    times = np.arange(len(tone)) / spoken.RATE
    expected = 16_000 * np.sin(2 * np.pi * 440 * (1 + times))
    assert np.abs(tone - expected)[100:-100].max() < 200
    facts = json.loads((out / "dataset.json").read_text())
    assert (facts["name"], facts["count"], facts["normalize"]) == ("test", 3, "english")


def test_a_sound_that_the_voice_lacks_is_named(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spoken.main(["--texts", str(written(tmp_path, "az")), "--name", "n", "--out", str(out)])
    assert "the voice has no sound z" in capsys.readouterr().err
    assert not (out / "dataset.json").exists()


def test_a_recording_that_is_too_short_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_lab.hand_out(monkeypatch, tmp_path, wheels(2.0))
    parts = json.loads(written(tmp_path, "a").read_text())["read"]
    with pytest.raises(ProgramError, match=r"ends after 2\.0 s, before 2\.5 s"):
        list(spoken.readings(parts))


def test_a_loud_sound_is_cut_off_and_keeps_its_length() -> None:
    samples = spoken.at_rate(np.full(2205, 2.0, np.float32), 22_050)
    assert samples.dtype == np.int16
    assert set(samples.tolist()) == {spoken.LOUDEST}
    assert len(samples) == 1600


def test_the_texts_are_in_the_letters_of_the_benchmark() -> None:
    known = json.loads(TEXTS.read_text(encoding="utf-8"))
    texts = [part["text"] for part in known["read"]]
    texts += [sentence["text"] for text in known["spoken"] for sentence in text]
    assert (len(known["read"]), len(known["spoken"])) == (2, 16)
    for text in texts:
        left = {letter for letter in spoken.as_compared(text) if letter not in NUMBERS}
        assert left <= set(",.?:")


def test_the_script_reads_its_own_texts(tmp_path: Path) -> None:
    env = {
        "CM_DATASET_FORM": "small",
        "CM_DATASET": "speech-small",
        "CM_DATASET_WHISPER_SOURCE": "librispeech",
        "CM_DATASET_WHISPER_COUNT": "1633",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT),
        "CM_TMP_RUN_DIR": str(tmp_path),
    }
    assert customize.preprocess({"env": env})["relies_on"] == [str(TEXTS)]
    words = (tmp_path / "arguments").read_text().split("\0")
    assert words == ["--texts", str(TEXTS), "--name", "speech-small", ""]
