"""Summarization: prompts of tokens in, the tokens of a summary out, ROUGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import HarnessError
from ..jobs import AccuracyFigure
from ..records import read_json
from ..settings import MAIN, ModelSpec, TensorSpec
from . import rouge
from .base import Array, Result
from .beams import BeamOptions, BeamSearch
from .samples import SingleSamples, Stored

TOKEN_BYTES = 4
# A step holds the cache as it was, every layer's new one, and all of them in one array.
CACHES = 3
NAMES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "gen_len": "gen_len"}


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


class Summarization(Stored[SingleSamples]):
    """Articles as prompts in tokens, and what people wrote about them.

    The data set holds ``prompts.npy`` int32 [tokens], ``offsets.npy`` int64 [prompts + 1],
    ``references.json`` and ``pieces.json`` (the bytes of every token, as Latin-1). The model takes
    tokens, their mask and the cache of all layers, and gives scores and the new cache. Its options
    are ``beam_width``, ``min_new_tokens``, ``max_new_tokens``, ``eos_token_id``, ``pad_token_id``
    and ``largest_prompt``.
    """

    feeds_back = True

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        facts = read_json(dataset / "dataset.json")
        self._prompts = np.load(dataset / "prompts.npy", mmap_mode="r")
        self._offsets = np.load(dataset / "offsets.npy")
        self._references: list[str] = read_json(dataset / "references.json")
        self._pieces: list[str] = read_json(dataset / "pieces.json")
        _check(dataset, facts["count"], self._offsets, self._prompts, self._references)
        _check_model(model, len(self._pieces), np.diff(self._offsets))
        # A network may score more tokens than its tokenizer has; those spell nothing.
        self._pieces += [""] * (model.outputs[0].shape[-1] - len(self._pieces))
        self.options = _beam_options(model)
        self._pad = int(model.options["pad_token_id"])
        self.inputs = tuple(tensor.name for tensor in model.inputs)
        self._cache_shape = tuple(0 if size == -1 else size for size in model.inputs[2].shape)
        self.store = SingleSamples(TensorSpec("prompt", "int64", (-1,)), self._prompt)
        self.sample_count = len(self._references)
        self.outputs: Mapping[str, tuple[str, ...]] = {
            MAIN: tuple(tensor.name for tensor in model.outputs)
        }
        self.result = Result(np.dtype(np.int32), (self.options.most,), variable=True)
        prompts = np.diff(self._offsets)
        # Nearly all texts grow to about the greatest length, every token in every beam.
        self.costs: Array | None = prompts + self.options.width * self.options.most
        longest = int(prompts.max()) + self.options.most
        of_a_token = 4 * int(np.prod([size for size in self._cache_shape if size]))
        self.work_bytes = CACHES * self.options.width * longest * of_a_token

    def _prompt(self, index: int) -> Array:
        part = self._prompts[self._offsets[index] : self._offsets[index + 1]]
        return np.asarray(part, dtype=np.int64)

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

    def text(self, tokens: Array) -> str:
        """What these tokens [t] spell."""
        spelled = "".join(self._pieces[token] for token in tokens.tolist())
        return spelled.encode("latin-1").decode("utf-8", errors="replace").strip()

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """ROUGE in percent and the number of tokens; see ``base.Benchmark``."""
        known: dict[tuple[int, bytes], tuple[float, ...]] = {}
        scores = []
        for answer, sample in zip(answers, samples.tolist(), strict=True):
            key = (sample, answer)
            if key not in known:  # a tiny set is asked several times over
                known[key] = rouge.scores(self._references[sample], self._read(sample, answer))
            scores.append(known[key])
        means = 100 * np.asarray(scores).mean(axis=0)
        figures = dict(zip(rouge.METRICS, (round(float(mean), 4) for mean in means), strict=True))
        figures["gen_len"] = sum(len(answer) for answer in answers) // TOKEN_BYTES
        line = repr({**figures, "gen_num": len(answers)})
        further = {NAMES[name]: float(value) for name, value in figures.items()}
        return AccuracyFigure(figures["rouge1"], line, len(answers), further=further)

    def _read(self, sample: int, answer: bytes) -> str:
        if len(answer) % TOKEN_BYTES:
            raise HarnessError(f"sample {sample} was answered with {len(answer)} bytes, no tokens")
        tokens = np.frombuffer(answer, dtype=np.int32)
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(self._pieces):
            raise HarnessError(f"sample {sample} was answered with tokens that there are not")
        return self.text(tokens)


def _beam_options(model: ModelSpec) -> BeamOptions:
    keys = ("beam_width", "min_new_tokens", "max_new_tokens", "eos_token_id")
    try:
        return BeamOptions(*(int(model.options[key]) for key in keys))
    except KeyError as error:
        raise HarnessError(f"the options of {model.name} lack {error}") from error


def _check(
    folder: Path, count: int, offsets: Array, prompts: Array, references: Sequence[str]
) -> None:
    if len(offsets) != count + 1 or len(references) != count or offsets[-1] != len(prompts):
        raise HarnessError(
            f"{folder} is damaged: {len(offsets) - 1} prompts with {len(prompts)} tokens, "
            f"{len(references)} references, {count} expected"
        )


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
