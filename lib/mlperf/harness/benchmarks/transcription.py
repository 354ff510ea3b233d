"""Transcription: samples of sound in, the letters of a text out, word error rate.

Features, encoder and the decoding loop are all inside the timed part. A text is logged as the
numbers of its letters in the reference's list, and LoadGen counts the tokens of the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import OTHER_MODEL, HarnessError
from ..jobs import AccuracyFigure
from ..records import read_json
from ..settings import MAIN, GraphSpec, ModelSpec, TensorSpec
from . import wer
from .base import Array, Result
from .log_mel import RATE, LogMelExtractor, LogMelSpec
from .samples import SingleSamples, StoreBackedBenchmark
from .sounds import SoundSet

STEP = "step"
# Source: speech2text/reference_SUT.py of MLPerf's reference implementation.
LETTERS = " abcdefghijklmnopqrstuvwxyz'0123456789$%+-"
NUMBERS = {letter: number for number, letter in enumerate(LETTERS)}
# The most letters of an answer; half a minute of speech has about 500.
LONGEST_TEXT = 1024
NORMALIZER = "whisper-normalizer"


@dataclass(frozen=True, slots=True)
class TextOptions:
    """``starts`` begin every text and ``end`` ends it; ``most`` is the greatest number of tokens.

    ``pieces`` are the bytes of every token, as Latin-1.
    """

    starts: tuple[int, ...]
    end: int
    most: int
    pieces: tuple[str, ...]

    def letters(self, tokens: Sequence[int]) -> list[int]:
        """Return the numbers of the letters that tokens spell; others are left out."""
        spelled = "".join(self.pieces[token] for token in tokens)
        text = spelled.encode("latin-1").decode("utf-8", errors="replace").lower().strip()
        return [NUMBERS[letter] for letter in text if letter in NUMBERS][:LONGEST_TEXT]


class TextDecoder:
    """Takes the likeliest token each time, for all sounds of a batch together.

    ``step`` is the part of the model with the inputs token, cache, keys and values, and the
    outputs scores and cache.
    """

    def __init__(self, predictor: Predictor, step: GraphSpec, options: TextOptions) -> None:
        self._predictor = predictor
        self._names = tuple(tensor.name for tensor in step.inputs)
        self._cache_shape = tuple(0 if size == -1 else size for size in step.inputs[1].shape)
        self._options = options

    def decode(self, keys: Array, values: Array) -> list[list[int]]:
        """Return the tokens of every sound [n, ...], with the one that ends a text."""
        count, options = len(keys), self._options
        texts: list[list[int]] = [[] for _ in range(count)]
        cache = np.zeros((count, *self._cache_shape), dtype=np.float32)
        for start in options.starts:
            tokens = np.full(count, start, dtype=np.int64)
            scores, cache = self._predict(tokens, cache, keys, values)
        rows = np.arange(count)
        while len(rows):
            tokens = scores.argmax(axis=1).astype(np.int64)
            for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
                texts[row].append(token)
            goes_on = np.asarray([len(texts[row]) < options.most for row in rows.tolist()])
            left = np.flatnonzero((tokens != options.end) & goes_on)
            if len(left) < len(rows):
                rows, tokens, cache = rows[left], tokens[left], cache[left]
                keys, values = keys[left], values[left]
            if len(rows):
                scores, cache = self._predict(tokens, cache, keys, values)
        return texts

    def _predict(self, *feeds: Array) -> tuple[Array, Array]:
        scores, cache = self._predictor.predict(dict(zip(self._names, feeds, strict=True)))
        return scores, cache


class _Solver:
    def __init__(self, benchmark: Transcription, encoder: Predictor, decoder: TextDecoder) -> None:
        self._benchmark = benchmark
        self._encoder = encoder
        self._decoder = decoder
        self._extractor = LogMelExtractor(benchmark.features)

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``."""
        benchmark, spec = self._benchmark, self._benchmark.features
        features = np.empty((len(indices), spec.bands, spec.vectors), dtype=np.float32)
        for row, index in enumerate(indices):
            self._extractor.write(benchmark.store.get(index), features[row])
        keys, values = self._encoder.predict({benchmark.feature_input: features})
        for row, tokens in enumerate(self._decoder.decode(keys, values)):
            letters = benchmark.decoding.letters(tokens)
            results[row, : len(letters)] = letters
            results[row, -1] = len(tokens)
            sizes[row] = results.itemsize * len(letters)


class Transcription(StoreBackedBenchmark[SingleSamples]):
    """Sounds and what was said in them.

    The data set is a ``SoundSet``; where its facts say ``"normalize": "english"``, texts are
    compared as Whisper's authors do. The main graph of the model turns features
    [bands, vectors] into keys and values; its part ``step`` is the decoder. Options:
    ``start_tokens``, ``end_token``, ``max_new_tokens`` and ``pieces``, a file beside the model.
    """

    feeds_back = True

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        self._set = SoundSet(dataset, RATE, model.name)
        self._normalize = read_json(dataset / "dataset.json").get("normalize", "")
        self._step = _step(model)
        self.decoding = _text_options(model)
        self.feature_input = model.inputs[0].name
        self.features = LogMelSpec(*model.inputs[0].shape)
        self._check_lengths(model)
        tensor = TensorSpec("sound", self._set.dtype, (-1,))
        self.store = SingleSamples(tensor, self._set.sound)
        self.sample_count = len(self._set)
        self.outputs: Mapping[str, tuple[str, ...]] = {
            MAIN: tuple(tensor.name for tensor in model.outputs),
            STEP: tuple(tensor.name for tensor in self._step.outputs),
        }
        self.result = Result(np.dtype(np.int64), (LONGEST_TEXT + 1,), variable=True, counted=True)
        # Every sound is padded to the window; what differs is the length of its text.
        self.costs: Array | None = self._set.lengths
        looked_up = sum(int(np.prod(tensor.shape)) for tensor in model.outputs)
        self.work_bytes = 2 * np.dtype(np.float32).itemsize * looked_up

    def _check_lengths(self, model: ModelSpec) -> None:
        if (longest := int(self._set.lengths.max())) > self.features.samples:
            raise HarnessError(
                f"the longest sound has {longest / RATE:.1f} s, {model.name} takes "
                f"{self.features.samples / RATE:.1f} s",
                OTHER_MODEL,
            )

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> _Solver:
        """See ``base.Benchmark``."""
        decoder = TextDecoder(predictors[STEP], self._step, self.decoding)
        return _Solver(self, predictors[MAIN], decoder)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """100 % less the word error rate; see ``base.Benchmark``."""
        normalize = _normalizer(self._normalize)
        known: dict[tuple[int, bytes], tuple[int, int]] = {}
        errors = words = 0
        for answer, sample in zip(answers, samples.tolist(), strict=True):
            key = (sample, answer)
            if key not in known:  # a tiny set is asked several times over
                said = normalize(_known_letters(self._set.texts[sample])).split()
                heard = normalize(text_of(sample, answer)).split()
                known[key] = wer.distance(*wer.with_joined_words(said, heard)), len(said)
            errors, words = errors + known[key][0], words + known[key][1]
        rate = 100.0 * errors / max(1, words)
        line = f"Word Error Rate: {rate:.6f}%, accuracy={100 - rate:.6f}%"
        return AccuracyFigure(100.0 - rate, line, len(answers))


def text_of(sample: int, answer: bytes) -> str:
    """Return the text of a logged answer; raise HarnessError for one that is no letters."""
    if len(answer) % 8:
        raise HarnessError(f"sample {sample} was answered with {len(answer)} bytes, no letters")
    letters = np.frombuffer(answer, dtype=np.int64)
    if letters.size and not 0 <= letters.min() <= letters.max() < len(LETTERS):
        raise HarnessError(f"sample {sample} was answered with letters that there are not")
    return "".join(LETTERS[letter] for letter in letters.tolist())


def _known_letters(text: str) -> str:
    return "".join(letter for letter in text if letter in NUMBERS)


def _normalizer(kind: str) -> Callable[[str], str]:
    """Return what both texts go through before they are compared."""
    if not kind:
        return str
    try:
        from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError as error:
        hint = f"install it where the benchmark runs: `pip install {NORMALIZER}`"
        raise HarnessError(f"texts cannot be compared without {NORMALIZER}", hint) from error
    normalizer: Callable[[str], str] = EnglishTextNormalizer()
    return normalizer


def _step(model: ModelSpec) -> GraphSpec:
    for part in model.parts:
        if part.name == STEP and len(part.inputs) == 4 and len(part.outputs) == 2:
            return part
    raise HarnessError(
        f"{model.name} has no part {STEP} with the inputs token, cache, keys and values and the "
        "outputs scores and cache",
        OTHER_MODEL,
    )


def _text_options(model: ModelSpec) -> TextOptions:
    options = model.options
    try:
        pieces = read_json(Path(model.path).with_name(options["pieces"]))
        most, end = int(options["max_new_tokens"]), int(options["end_token"])
        return TextOptions(tuple(map(int, options["start_tokens"])), end, most, tuple(pieces))
    except KeyError as error:
        raise HarnessError(f"the options of {model.name} lack {error}", OTHER_MODEL) from error
