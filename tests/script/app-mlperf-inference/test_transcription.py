"""Whisper in the harness: features, decoding, tokens that LoadGen counts, word errors."""

from __future__ import annotations

import json
import shutil
import sys
import types
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
from mlperf.harness.benchmarks import transcription, wer
from mlperf.harness.benchmarks.base import Result
from mlperf.harness.benchmarks.log_mel import LogMelExtractor, LogMelSpec
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.completion import Completer
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import GraphSpec, ModelSpec, SessionSettings, TensorSpec, WorkerShape

MODEL = forms.SCRIPT / "get-ml-model-whisper" / "tiny"
# Computed once with the feature extractor of transformers.
KNOWN = {(0, 0): -0.7852, (3, 40): -0.44375, (20, 100): -0.15133, (60, 150): -0.7852}
WORDS = some.lists(some.sampled_from(["a", "b", "ab", "abb"]), max_size=7)


def created(dataset: Path | None = None, **changes: Any) -> Any:
    model = records.decode(ModelSpec, {**forms.model(MODEL), **changes})
    benchmark = benchmarks.create("whisper", dataset or forms.speech_arrays(), model)
    opened = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(opened, model, benchmark, WorkerShape(1, 1, 32))
    return benchmark, solver, model


def test_features_are_those_of_the_reference_implementation() -> None:
    time = np.arange(30000)
    wave = 6000 * np.sin(time * time / 90000.0) * np.sin(time / 2500.0) + 900 * np.sin(time * 1.7)
    features = np.empty((80, 200), np.float32)
    LogMelExtractor(LogMelSpec(80, 200)).write(wave.astype(np.int16), features)
    for place, value in KNOWN.items():
        assert features[place] == pytest.approx(value, abs=2e-4)


def test_a_longer_sound_is_cut_to_the_window() -> None:
    extractor, sound = LogMelExtractor(LogMelSpec(40, 50)), np.arange(9000, dtype=np.int16)
    whole, cut = (np.empty((40, 50), np.float32) for _ in range(2))
    extractor.write(sound, whole)
    extractor.write(sound[:8000], cut)
    np.testing.assert_array_equal(whole, cut)


class Script:
    """A decoder that says the tokens of a list for each sound, which its keys name."""

    def __init__(self, texts: list[list[int]]) -> None:
        self._texts = texts
        self.batches: list[int] = []

    def predict(self, feeds: dict[str, Any]) -> list[Any]:
        keys, cache = feeds["keys"], feeds["cache"]
        self.batches.append(len(keys))
        scores = np.zeros((len(keys), 9), np.float32)
        for row, key in enumerate(keys[:, 0].astype(int)):
            scores[row, self._texts[key][cache.shape[1] - 1]] = 1
        return [scores, np.concatenate([cache, feeds["token"][:, None]], axis=1)]


def test_every_text_ends_with_its_end_or_with_the_most_tokens() -> None:
    tensors = tuple(
        TensorSpec(name, "float32", (-1,) if name == "cache" else (1,))
        for name in ("token", "cache", "keys", "values")
    )
    options = transcription.TextOptions((7, 8), 0, 4, ("",) * 9)
    script = Script([[0], [5, 0], [5, 5, 5, 5, 5]])
    decoder = transcription.TextDecoder(script, GraphSpec("step", "", "", tensors, ()), options)
    sounds = np.arange(3, dtype=np.float32)[:, None]
    assert decoder.decode(sounds, sounds) == [[0], [5, 0], [5, 5, 5, 5]]
    # Whose text has ended is no longer computed.
    assert script.batches == [3, 3, 2, 1, 1]


def test_letters_are_those_of_the_reference() -> None:
    pieces = (" He", "l\xc3", "\xa9o", "!", " W-2")
    options = transcription.TextOptions((0,), 3, 9, pieces)
    said = options.letters([0, 1, 2, 3, 4])
    assert transcription.text_of(0, np.asarray(said, np.int64).tobytes()) == "helo w-2"
    with pytest.raises(HarnessError, match="letters that there are not"):
        transcription.text_of(3, np.asarray([99], np.int64).tobytes())
    with pytest.raises(HarnessError, match="7 bytes, no letters"):
        transcription.text_of(3, b"1234567")


@settings(max_examples=60, deadline=None)
@given(WORDS, WORDS)
def test_joining_words_changes_no_letters_and_never_adds_errors(
    said: list[str], heard: list[str]
) -> None:
    one, other = wer.with_joined_words(said, heard)
    assert ("".join(one), "".join(other)) == ("".join(said), "".join(heard))
    assert wer.distance(one, other) <= max(len(said), len(heard))


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [
        ("any one here", "anyone here", 0),
        ("anyone here", "any one here", 0),
        ("an y one", "anyone", 0),
        ("a b c d", "abcd", 4),
        ("good day", "good night", 1),
        ("", "noise", 1),
        ("word", "", 1),
    ],
)
def test_words_that_are_written_apart_are_no_errors(said: str, heard: str, errors: int) -> None:
    assert wer.distance(*wer.with_joined_words(said.split(), heard.split())) == errors


def test_the_held_out_figure_is_the_stated_one_in_any_batch() -> None:
    benchmark, solver, model = created()
    answers = forms.answers(benchmark, solver, 32)
    figure = benchmark.accuracy(answers, np.arange(benchmark.sample_count))
    assert figure.value == pytest.approx(model.accuracy.reference, abs=0.05)
    rate = 100 - figure.value
    assert figure.line == f"Word Error Rate: {rate:.6f}%, accuracy={figure.value:.6f}%"
    row, size = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    for sample in (0, 17, 399):
        solver.solve([sample], row, size)
        assert row[0].tobytes()[: size[0]] == answers[sample]


def test_english_texts_are_normalized_by_the_package_of_its_authors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "english"
    shutil.copytree(forms.speech_arrays(), folder)
    facts = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**facts, "normalize": "english"}))
    benchmark, _, _ = created(folder)
    answers, samples = [b""] * benchmark.sample_count, np.arange(benchmark.sample_count)
    monkeypatch.setitem(sys.modules, "whisper_normalizer", None)
    with pytest.raises(HarnessError, match="cannot be compared without whisper-normalizer"):
        benchmark.accuracy(answers, samples)
    english = types.ModuleType("whisper_normalizer.english")
    monkeypatch.setattr(english, "EnglishTextNormalizer", lambda: lambda _: "same", raising=False)
    monkeypatch.setitem(sys.modules, "whisper_normalizer", types.ModuleType("whisper_normalizer"))
    monkeypatch.setitem(sys.modules, "whisper_normalizer.english", english)
    assert benchmark.accuracy(answers, samples).value == 100


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(HarnessError, match="has no part step"):
        created(parts=[])
    with pytest.raises(HarnessError, match="lack 'end_token'"):
        created(options={"pieces": "pieces.json", "max_new_tokens": 3})
    inputs = [{"name": "features", "dtype": "float32", "shape": [40, 20]}]
    with pytest.raises(HarnessError, match=r"longest sound has \d.\d s, whisper_tiny takes 0.2 s"):
        created(inputs=inputs)


def test_loadgen_is_given_the_number_of_tokens_of_every_answer() -> None:
    class Response:
        def __init__(self, query: int, data: int, size: int) -> None:
            self.id, self.data, self.size, self.n_tokens = query, data, size, 0

    sent: list[Response] = []
    loadgen = types.SimpleNamespace(QuerySampleResponse=Response, QuerySamplesComplete=sent.extend)
    completer = Completer(loadgen, 3, Result(np.dtype(np.int64), (5,), True, counted=True))
    completer.results[:2, -1] = (4, 9)
    completer.sizes[:2] = (16, 0)
    completer.answer([70, 71])
    assert [(answer.id, answer.size, answer.n_tokens) for answer in sent] == [
        (70, 16, 4),
        (71, 0, 9),
    ]


def test_an_offline_run_is_valid_and_its_result_is_in_tokens(tmp_path: Path) -> None:
    wanted = forms.settings(
        tmp_path,
        "whisper",
        MODEL,
        forms.speech_arrays(),
        "Offline",
        overrides={"batch_size": 16},
    )
    (result,) = sessions.MeasurementSession(records.decode(SessionSettings, wanted)).run().results
    assert result.validity == "VALID", result
    assert result.accuracy_reached
    assert result.unit == "tokens/s"
