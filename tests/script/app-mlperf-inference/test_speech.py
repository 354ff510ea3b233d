"""Speech recognition: word errors as jiwer counts them, features, decoding, short runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import benchmark_forms as forms
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks import speech, wer
from mlperf.harness.benchmarks.features import Extractor, FeatureSpec, mel_bank
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import GraphSpec, ModelSpec, SessionSettings, TensorSpec, WorkerShape

MODEL = forms.SCRIPT / "get-ml-model-rnnt" / "tiny"
WORDS = some.lists(some.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=9).map(" ".join)


def created(dataset: Path | None = None, **changes: Any) -> tuple[Any, Any, ModelSpec]:
    model = records.decode(ModelSpec, {**forms.model(MODEL), **changes})
    benchmark = benchmarks.create("rnnt", dataset or forms.speech_arrays(), model)
    backend = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, WorkerShape(1, 1, 32))
    return benchmark, solver, model


@settings(max_examples=60, deadline=None)
@given(some.lists(some.tuples(WORDS, some.one_of(WORDS, some.just(""))), min_size=1, max_size=5))
def test_word_errors_are_those_of_jiwer(pairs: list[tuple[str, str]]) -> None:
    jiwer = pytest.importorskip("jiwer")
    errors, words = wer.errors_and_words(pairs)
    said, recognized = ([*column] for column in zip(*pairs, strict=True))
    assert errors / words == pytest.approx(jiwer.wer(said, recognized))


def test_a_tone_is_loud_in_the_band_of_its_pitch() -> None:
    spec = FeatureSpec(stack=1, preemphasis=0.0)
    time = np.arange(8000) / spec.rate
    sound = np.concatenate([np.zeros(8000), 8000 * np.sin(2 * np.pi * 1000 * time)])
    features = Extractor(spec).features(sound.astype(np.int16))
    assert features.shape == (99, 80)
    centre = np.argmax(mel_bank(spec)[round(1000 / 8000 * 256)])
    assert abs(int(np.argmax(mel_bank(spec).T @ _spectrum(sound[8000:8320]))) - int(centre)) <= 1
    assert features[60, centre] > features[10, centre] + 1
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-2)


def test_mlperfs_features_are_those_of_torch_and_librosa() -> None:
    """The numbers were computed once with torch.stft and librosa.filters.mel."""
    bank = mel_bank(FeatureSpec(style="mlperf"))
    known = {(5, 3): 0.0215943, (20, 16): 0.0210366, (60, 42): 0.0109438, (250, 79): 0.00210356}
    for place, value in known.items():
        assert bank[place] == pytest.approx(value, rel=1e-5)
    time = np.arange(20001)
    wave = 6000 * np.sin(time * time / 90000.0) * np.sin(time / 2500.0) + 900 * np.sin(time * 1.7)
    features = Extractor(FeatureSpec(style="mlperf")).features(wave.astype(np.int16))
    assert features.shape == (42, 240)
    known = {(0, 0): 0.2246, (3, 40): -0.3169, (10, 100): -0.8053, (20, 170): 0.6559}
    for place, value in {**known, (41, 239): 6.0766, (41, 80): -0.679}.items():
        assert features[place] == pytest.approx(value, abs=5e-3)


@pytest.mark.parametrize(("samples", "vectors"), [(16000, 34), (15840, 33), (160, 1), (3, 1)])
def test_every_three_hops_that_begin_are_a_vector(samples: int, vectors: int) -> None:
    sound = np.random.default_rng(1).integers(-900, 900, samples).astype(np.int16)
    features = Extractor(FeatureSpec(style="mlperf")).features(sound)
    assert features.shape == (vectors, 240)
    assert np.isfinite(features).all()


def test_another_style_of_features_is_refused() -> None:
    with pytest.raises(HarnessError, match="no style loud; there are: plain, mlperf"):
        FeatureSpec(style="loud")


def _spectrum(sound: np.ndarray) -> np.ndarray:
    return np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 512)) ** 2


class Script:
    """A step that gives the letters it was told to, whatever it sees."""

    def __init__(self, letters: dict[float, list[int]]) -> None:
        self._letters = letters

    def predict(self, feeds: dict[str, Any]) -> list[Any]:
        count = len(feeds["letter"])
        scores = np.zeros((count, 4), dtype=np.float32)
        for row, (state, hidden) in enumerate(zip(feeds["state"], feeds["hidden"], strict=True)):
            letters = self._letters.get(float(state[0]), [])
            done = int(hidden[0]) - int(state[0]) * 10
            scores[row, letters[done] if 0 <= done < len(letters) else 3] = 1
        return [scores, feeds["hidden"] + 1, feeds["cell"]]


def test_decoding_stays_on_a_frame_until_blank_and_ends_with_each_utterance() -> None:
    def tensor(name: str, *shape: int) -> TensorSpec:
        return TensorSpec(name, "float32", shape)

    inputs = (tensor("state", 1), tensor("letter"), tensor("hidden", 1), tensor("cell", 1))
    step = GraphSpec("step", "", "", inputs, ())
    decoder = speech.GreedyDecoder(
        Script({0.0: [0, 1], 7.0: [2] * 99}), step, speech.DecoderOptions("abc", 3, 2)
    )
    states = np.zeros((2, 3, 1), dtype=np.float32)
    states[0, 1:] = 5.0
    states[1, :] = 5.0
    assert decoder.decode(states, np.asarray([3, 2])) == [[0, 1], []]
    states[:] = 0.0
    # Two letters are the most for a frame: the next one is asked for the frame after it.
    assert decoder.decode(states, np.asarray([1, 0])) == [[0, 1], []]


def test_the_held_out_figure_is_the_stated_one_in_any_batch() -> None:
    benchmark, solver, model = created()
    answers = forms.answers(benchmark, solver, 32)
    figure = benchmark.accuracy(answers, np.arange(benchmark.sample_count))
    # The stated figure is one of the same 400 utterances, each asked once.
    assert figure.value == pytest.approx(model.accuracy.reference, abs=0.05)
    assert 95 < figure.value < 100
    assert (
        figure.line == f"Word Error Rate: {100 - figure.value:.6f}%, accuracy={figure.value:.6f}%"
    )
    row, size = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    for sample in (0, 17, 399):
        solver.solve([sample], row, size)
        assert row[0].tobytes()[: size[0]] == answers[sample]


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="has no part step"):
        created(parts=[])
    with pytest.raises(HarnessError, match="lack 'blank'"):
        created(options={"labels": "ab"})
    with pytest.raises(HarnessError, match="16000 samples a second, rnnt_tiny takes 8000"):
        created(options={"rate": 8000})
    benchmark, solver, _ = created()
    with pytest.raises(IndexError, match="sample 3 was issued but never loaded"):
        solver.solve([3], benchmark.result.rows(1), np.zeros(1))


def test_every_file_of_the_model_counts(tmp_path: Path) -> None:
    wanted = forms.settings(tmp_path, "rnnt", MODEL, forms.speech_arrays(), "Offline")
    whole = records.decode(ModelSpec, wanted["model"])
    wanted["model"]["parts"][-1]["sha256"] = 64 * "0"
    other = records.decode(ModelSpec, wanted["model"])
    assert whole.sha256 == other.sha256
    assert whole.digest() != other.digest()
    assert replace(whole, parts=()).digest() == whole.sha256
    with pytest.raises(HarnessError, match=r"has sha256 .*, expected 0000"):
        sessions.MeasurementSession(records.decode(SessionSettings, wanted)).run()
    assert not list(tmp_path.rglob("mlperf_log_detail.txt"))


def test_single_stream_and_offline_reach_the_target(tmp_path: Path) -> None:
    wanted = forms.settings(
        tmp_path,
        "rnnt",
        MODEL,
        forms.speech_arrays(),
        "SingleStream",
        "Offline",
        attempts=10,
        overrides={"batch_size": 16},
    )
    results = sessions.MeasurementSession(records.decode(SessionSettings, wanted)).run()
    assert len(results.results) == 2
    for result in results.results:
        assert result.accuracy_reached, result
    assert next(r for r in results.results if r.scenario == "Offline").validity == "VALID"
