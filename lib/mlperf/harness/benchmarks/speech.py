"""Speech recognition: samples of sound in, text out, word error rate.

Features, encoder and the decoding loop are all inside the timed part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import HarnessError
from ..jobs import AccuracyFigure
from ..settings import MAIN, GraphSpec, ModelSpec, TensorSpec
from . import wer
from .base import Array, Result
from .features import Extractor, FeatureSpec
from .samples import SingleSamples, StoreBackedBenchmark
from .sounds import SoundSet

STEP = "step"
# The longest text that is answered, in bytes; what comes after it is cut off.
LONGEST_TEXT = 1024


@dataclass(frozen=True, slots=True)
class DecoderOptions:
    """``labels`` are the letters by number; ``blank`` is the number that stands for none."""

    labels: str
    blank: int
    most_letters_per_frame: int


@dataclass(slots=True)
class _Progress:
    """Where each utterance of a batch is: its frame, how much it wrote there, its last letter."""

    frame: Array
    written: Array
    letter: Array
    texts: list[list[int]]


class GreedyDecoder:
    """Takes the likeliest letter each time, for all utterances of a batch together.

    ``step`` is the part of the model with the inputs state, letter, hidden and cell, and the
    outputs scores, hidden and cell.
    """

    def __init__(self, predictor: Predictor, step: GraphSpec, options: DecoderOptions) -> None:
        self._predictor = predictor
        self._names = tuple(tensor.name for tensor in step.inputs)
        self._widths = tuple(tensor.shape[0] for tensor in step.inputs[2:])
        self._options = options

    def decode(self, states: Array, lengths: Array) -> list[list[int]]:
        """Letters of every utterance, given ``states`` [n, t, width] and true ``lengths`` [n]."""
        count, blank = len(states), self._options.blank
        zero = np.zeros(count, dtype=np.int64)
        now = _Progress(zero, zero.copy(), np.full(count, blank, dtype=np.int64), [])
        now.texts = [[] for _ in range(count)]
        memory = [np.zeros((count, width), dtype=np.float32) for width in self._widths]
        active = np.flatnonzero(lengths > 0)
        while len(active):
            feeds = [states[active, now.frame[active]], now.letter[active]]
            feeds += [part[active] for part in memory]
            scores, *after = self._predictor.predict(dict(zip(self._names, feeds, strict=True)))
            symbols = scores.argmax(axis=1)
            self._write(now, active, symbols)
            letters = symbols != blank
            for part, new in zip(memory, after, strict=True):
                part[active[letters]] = new[letters]
            active = active[now.frame[active] < lengths[active]]
        return now.texts

    def _write(self, now: _Progress, active: Array, symbols: Array) -> None:
        letters = symbols != self._options.blank
        writers, written = active[letters], symbols[letters]
        now.letter[writers] = written
        now.written[writers] += 1
        for utterance, letter in zip(writers.tolist(), written.tolist(), strict=True):
            now.texts[utterance].append(letter)
        full = writers[now.written[writers] >= self._options.most_letters_per_frame]
        onward = np.concatenate([active[~letters], full])
        now.frame[onward] += 1
        now.written[onward] = 0


class _Solver:
    def __init__(
        self, benchmark: SpeechRecognition, encoder: Predictor, decoder: GreedyDecoder
    ) -> None:
        self._benchmark = benchmark
        self._encoder = encoder
        self._decoder = decoder
        self._extractor = Extractor(benchmark.features)

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``."""
        utterances = [self._extractor.features(sound) for sound in self._benchmark.sounds(indices)]
        lengths = np.asarray([len(features) for features in utterances])
        batch = np.zeros((len(utterances), lengths.max(), utterances[0].shape[1]), dtype=np.float32)
        for row, features in enumerate(utterances):
            batch[row, : len(features)] = features
        (states,) = self._encoder.predict(self._benchmark.feeds(batch, lengths))
        texts = self._decoder.decode(states, self._benchmark.state_lengths(lengths))
        labels = self._benchmark.decoding.labels
        for row, letters in enumerate(texts):
            text = "".join(labels[letter] for letter in letters).encode()[:LONGEST_TEXT]
            results[row, : len(text)] = np.frombuffer(text, dtype=np.uint8)
            sizes[row] = len(text)


class SpeechRecognition(StoreBackedBenchmark[SingleSamples]):
    """Utterances and what was said in them.

    The data set is a ``SoundSet``. The main graph of the model is the encoder, its part ``step``
    the prediction network with the joint. An encoder that stacks states has a second input, the
    true lengths of the utterances in feature vectors. Options: ``labels``, ``blank``,
    ``most_letters_per_frame``, ``stride`` (feature vectors for one state, 1 where it is not given)
    and those of ``FeatureSpec``.
    """

    feeds_back = True
    fills_up = True

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        self._step = _step(model)
        self.features = FeatureSpec.of(model.options)
        self._set = SoundSet(dataset, self.features.rate, model.name)
        self.decoding = _decoder_options(model)
        self._stride = int(model.options.get("stride", 1))
        self._inputs = tuple(tensor.name for tensor in model.inputs)
        tensor = TensorSpec("sound", self._set.dtype, (-1,))
        self.store = SingleSamples(tensor, self._set.sound)
        self.sample_count = len(self._set)
        self.outputs: Mapping[str, tuple[str, ...]] = {
            MAIN: (model.outputs[0].name,),
            STEP: tuple(tensor.name for tensor in self._step.outputs),
        }
        self.result = Result(np.dtype(np.uint8), (LONGEST_TEXT,), variable=True)
        self.costs: Array | None = self._set.lengths

    def sounds(self, indices: Sequence[int] | Array) -> list[Array]:
        """The sound [t] of each of these utterances; raises IndexError for one not loaded."""
        return [self.store.get(index) for index in indices]

    def feeds(self, batch: Array, lengths: Array) -> dict[str, Array]:
        """The encoder's inputs for padded feature vectors [n, t, width] and their numbers [n]."""
        values = (batch, lengths.astype(np.int64))
        return dict(zip(self._inputs, values, strict=False))

    def state_lengths(self, lengths: Array) -> Array:
        """Return how many states of the encoder [n] belong to so many feature vectors [n]."""
        state_lengths: Array = -(-lengths // self._stride)
        return state_lengths

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> _Solver:
        """See ``base.Benchmark``."""
        decoder = GreedyDecoder(predictors[STEP], self._step, self.decoding)
        return _Solver(self, predictors[MAIN], decoder)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """100 % less the word error rate; see ``base.Benchmark``."""
        known: dict[tuple[int, bytes], tuple[int, int]] = {}
        errors = words = 0
        for answer, sample in zip(answers, samples.tolist(), strict=True):
            key = (sample, answer)
            if key not in known:  # a tiny set is asked several times over
                recognized = answer.decode("utf-8", errors="replace")
                known[key] = wer.errors_and_words([(self._set.texts[sample], recognized)])
            errors, words = errors + known[key][0], words + known[key][1]
        rate = 100.0 * errors / max(1, words)
        line = f"Word Error Rate: {rate:.6f}%, accuracy={100 - rate:.6f}%"
        return AccuracyFigure(100.0 - rate, line, len(answers))


def _step(model: ModelSpec) -> GraphSpec:
    for part in model.parts:
        if part.name == STEP and len(part.inputs) == 4 and len(part.outputs) == 3:
            return part
    raise HarnessError(
        f"{model.name} has no part {STEP} with the inputs state, letter, hidden and cell and the "
        "outputs scores, hidden and cell"
    )


def _decoder_options(model: ModelSpec) -> DecoderOptions:
    try:
        return DecoderOptions(
            labels=model.options["labels"],
            blank=int(model.options["blank"]),
            most_letters_per_frame=int(model.options["most_letters_per_frame"]),
        )
    except KeyError as error:
        raise HarnessError(f"the options of {model.name} lack {error}") from error
