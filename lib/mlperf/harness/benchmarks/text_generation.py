"""Generated text: prompts of tokens in, answers out token after token, ROUGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..backends.generation import TOKEN, AnswerStream, TokenGenerator, Unheard
from ..errors import OTHER_MODEL, OTHER_TOKENIZER, HarnessError
from ..jobs import AccuracyFigure
from ..settings import MAIN, ModelSpec, TensorSpec
from .base import Array, Result
from .prompts import PromptSet
from .rouge import WITH_SENTENCES
from .samples import SingleSamples, StoreBackedBenchmark

ORACLE, TOKENIZER = "oracle", "tokenizer"


class _Solver:
    """Hands prompts to a generator; see ``base.StreamingSolver``."""

    def __init__(self, generator: TokenGenerator, store: SingleSamples) -> None:
        self._generator = generator
        self._store = store

    def stream(self, indices: Sequence[int] | Array, stream: AnswerStream) -> None:
        """See ``base.StreamingSolver``."""
        prompts = [self._store.get(index) for index in indices]
        self._generator.generate(prompts, stream)

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``."""
        self.stream(indices, AnswerStream(indices, results, sizes, Unheard(), False))


class TextGeneration(StoreBackedBenchmark[SingleSamples]):
    """Prompts, and what people answered them with.

    The data set is a ``PromptSet``. The options of the model are ``max_new_tokens``,
    ``stop_token_ids``, ``vocabulary`` and ``context``, the most tokens of a prompt with its
    answer; ``token_bytes`` are those of the keys and values of one. ``oracle`` names a file beside
    it with the answers of the reference implementation: ``tokens`` [all] and
    ``offsets`` [samples + 1]. ``tokenizer`` is the digest of the model's tokenizer: where the data
    set names one, it is the same.
    """

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        most = _option(model, "max_new_tokens")
        self._set = PromptSet(dataset, _option(model, "vocabulary"))
        _check(model, self._set, most)
        self.store = SingleSamples(TensorSpec("prompt", "int64", (-1,)), self._set.prompt)
        self.sample_count = len(self._set)
        self.outputs: Mapping[str, tuple[str, ...]] = {MAIN: ("tokens",)}
        self.result = Result(TOKEN, (most,), variable=True)
        # A prompt goes through the model at once, answers take a step for a token.
        self.costs: Array | None = self._set.lengths + most
        # Keys and values of a prompt and its answer, which a backend keeps for each in work.
        self.work_bytes = _option(model, "context") * int(model.options.get("token_bytes", 0))
        self._oracle = _oracle(model, self.sample_count)

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> _Solver:
        """See ``base.Benchmark``; raises HarnessError for a backend that generates no tokens."""
        generator = predictors[MAIN]
        if not isinstance(generator, TokenGenerator):
            raise HarnessError("the backend generates no tokens", "choose --backend=llamacpp")
        return _Solver(generator, self.store)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """ROUGE, the lengths of answers, and how many are the oracle's; see ``base.Benchmark``.

        The reference implementation calls the number of characters gen_len.
        """
        figure = self._set.rouge(answers, samples, TOKEN, WITH_SENTENCES, in_characters=True)
        tokens = sum(len(answer) for answer in answers) / TOKEN.itemsize
        further = {**figure.further, "tokens_per_sample": round(tokens / max(1, len(answers)), 4)}
        return replace(figure, further=further, oracle=self._agreement(answers, samples))

    def _agreement(self, answers: Sequence[bytes], samples: Array) -> tuple[int, ...] | None:
        """Return how many answers equal the oracle's, and of how many; None without an oracle."""
        if self._oracle is None:
            return None
        pairs = zip(answers, samples.tolist(), strict=True)
        return sum(answer == self._oracle[sample] for answer, sample in pairs), len(answers)


def _option(model: ModelSpec, name: str) -> int:
    try:
        return int(model.options[name])
    except (KeyError, TypeError, ValueError) as error:
        raise HarnessError(f"the options of {model.name} lack {name}", OTHER_MODEL) from error


def _check(model: ModelSpec, prompts: PromptSet, most: int) -> None:
    """Raise HarnessError where the prompts are not for this model."""
    if prompts.own_vocabulary > (known := _option(model, "vocabulary")):
        raise HarnessError(
            f"{model.name} knows {known} tokens, the data set's tokenizer has "
            f"{prompts.own_vocabulary}: it is of another model",
            OTHER_TOKENIZER,
        )
    own = str(model.options.get(TOKENIZER) or "")
    if own and prompts.tokenizer and own != prompts.tokenizer:
        raise HarnessError(
            f"the data set was made with another tokenizer ({prompts.tokenizer[:12]}) than that of "
            f"{model.name} ({own[:12]}): their tokens, merges or special tokens differ",
            OTHER_TOKENIZER,
        )
    longest, context = int(prompts.lengths.max()), _option(model, "context")
    if longest + most > context:
        raise HarnessError(
            f"the longest prompt has {longest} tokens and its answer up to {most}, "
            f"{model.name} holds {context}",
            OTHER_MODEL,
        )


def _oracle(model: ModelSpec, count: int) -> list[bytes] | None:
    """Return the reference's answers, as they would be logged; None where the model has none."""
    if not (name := model.options.get(ORACLE)):
        return None
    path = Path(model.path).with_name(str(name))
    try:
        with np.load(path) as arrays:
            tokens, offsets = arrays["tokens"].astype(TOKEN), arrays["offsets"].tolist()
    except (OSError, KeyError, ValueError) as error:
        raise HarnessError(f"{path} holds no answers: {error}", OTHER_MODEL) from error
    if len(offsets) != count + 1:
        return None
    return [tokens[start:end].tobytes() for start, end in pairwise(offsets)]
