"""Summarization: prompts of tokens in, the tokens of a summary out, ROUGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import HarnessError
from ..jobs import AccuracyFigure
from ..settings import MAIN, ModelSpec, TensorSpec
from .base import Array, Result
from .beams import BeamOptions, BeamSearch
from .prompts import PromptSet
from .samples import SingleSamples, StoreBackedBenchmark

TOKEN_BYTES = 4
# A step holds the cache as it was, every layer's new one, and all of them in one array.
CACHES = 3


class _Solver:
    """Prompts through the model once, then one token of every beam at a time with the cache."""

    def __init__(self, predictor: Predictor, benchmark: Summarization) -> None:
        self._predictor = predictor
        self._benchmark = benchmark

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``."""
        ids, mask = self._benchmark.padded(indices)
        search = BeamSearch(len(ids), self._benchmark.options)
        width = search.options.width
        logits, cache = self._call(ids, mask, self._benchmark.empty_cache(len(ids)))
        # The beams of a prompt have all of it in common.
        rows = search.advance(np.repeat(logits[:, None, -1], width, axis=1)) // width
        while not search.done:
            mask = np.concatenate([mask[rows], np.ones((len(rows), 1), mask.dtype)], axis=1)
            last = search.tokens[:, :, -1].reshape(-1, 1)
            cache = _rows_of(cache, rows)  # lets go of the old one before the model makes the next
            logits, cache = self._call(last, mask, cache)
            rows = search.advance(logits[:, -1].reshape(-1, width, logits.shape[-1]))
        for row, text in enumerate(search.best()):
            results[row, : len(text)] = text
            sizes[row] = TOKEN_BYTES * len(text)

    def _call(self, ids: Array, mask: Array, cache: Array) -> tuple[Array, Array]:
        names = self._benchmark.inputs
        logits, after = self._predictor.predict(dict(zip(names, (ids, mask, cache), strict=True)))
        return logits, after


def _rows_of(cache: Array, rows: Array) -> Array:
    """Return these rows of a cache, without a copy when they are all of them in order."""
    same = len(rows) == len(cache) and bool((rows == np.arange(len(rows))).all())
    return cache if same else cache[rows]


class Summarization(StoreBackedBenchmark[SingleSamples]):
    """Articles as prompts in tokens, and what people wrote about them.

    The data set is a ``PromptSet``. The model takes tokens, their mask and the cache of all layers,
    and gives scores and the new cache. Its options are ``beam_width``, ``min_new_tokens``,
    ``max_new_tokens``, ``eos_token_id``, ``pad_token_id`` and ``largest_prompt``.
    """

    feeds_back = True
    fills_up = True

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        vocabulary = model.outputs[0].shape[-1] if model.outputs else 0
        self._set = PromptSet(dataset, vocabulary)
        _check_model(model, self._set.own_vocabulary, self._set.lengths)
        self.options = _beam_options(model)
        self._pad = int(model.options["pad_token_id"])
        self.inputs = tuple(tensor.name for tensor in model.inputs)
        self._cache_shape = tuple(0 if size == -1 else size for size in model.inputs[2].shape)
        self.store = SingleSamples(TensorSpec("prompt", "int64", (-1,)), self._set.prompt)
        self.sample_count = len(self._set)
        self.outputs: Mapping[str, tuple[str, ...]] = {
            MAIN: tuple(tensor.name for tensor in model.outputs)
        }
        self.result = Result(np.dtype(np.int32), (self.options.most,), variable=True)
        prompts = self._set.lengths
        # Nearly all texts grow to about the greatest length, every token in every beam.
        self.costs: Array | None = prompts + self.options.width * self.options.most
        longest = int(prompts.max()) + self.options.most
        of_a_token = 4 * int(np.prod([size for size in self._cache_shape if size]))
        self.work_bytes = CACHES * self.options.width * longest * of_a_token

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> _Solver:
        """See ``base.Benchmark``."""
        return _Solver(predictors[MAIN], self)

    def padded(self, indices: Sequence[int] | Array) -> tuple[Array, Array]:
        """Tokens and mask [n, longest] of loaded prompts, with the padding on the left.

        Raises IndexError for one that is not loaded.
        """
        prompts = [self.store.get(index) for index in indices]
        longest = max(len(prompt) for prompt in prompts)
        ids = np.full((len(prompts), longest), self._pad, dtype=np.int64)
        mask = np.zeros((len(prompts), longest), dtype=np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = prompt
            mask[row, longest - len(prompt) :] = 1
        return ids, mask

    def empty_cache(self, count: int) -> Array:
        """The cache of ``count`` prompts before the first token: zeros float32 [count, *shape]."""
        return np.zeros((count, *self._cache_shape), dtype=np.float32)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """ROUGE in percent and the number of tokens; see ``base.Benchmark``."""
        return self._set.rouge(answers, samples, self.result.dtype)


def _beam_options(model: ModelSpec) -> BeamOptions:
    keys = ("beam_width", "min_new_tokens", "max_new_tokens", "eos_token_id")
    try:
        return BeamOptions(*(int(model.options[key]) for key in keys))
    except KeyError as error:
        raise HarnessError(f"the options of {model.name} lack {error}") from error


def _check_model(model: ModelSpec, vocabulary: int, lengths: Array) -> None:
    if len(model.inputs) != 3 or len(model.outputs) != 2:
        raise HarnessError(
            f"{model.name} has {len(model.inputs)} inputs and {len(model.outputs)} outputs; needed "
            "are tokens, mask and cache, and scores and cache"
        )
    if model.outputs[0].shape[-1] < vocabulary:
        raise HarnessError(
            f"{model.name} scores {model.outputs[0].shape[-1]} tokens, "
            f"the data set's vocabulary has {vocabulary}"
        )
    largest = int(model.options.get("largest_prompt", 0))
    if largest and lengths.max() > largest:
        raise HarnessError(
            f"the longest prompt has {lengths.max()} tokens, {model.name} takes {largest}"
        )
