"""Extractive question answering: word pieces in, a start and an end logit per token out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import HarnessError
from ..jobs import AccuracyFigure
from ..records import read_json
from ..settings import MAIN, ModelSpec, TensorSpec
from . import squad
from .base import Array, OneCall, Result
from .samples import LoadedRows, Samples, StoreBackedBenchmark, copy_rows

INPUTS = ("input_ids", "input_mask", "segment_ids")
# What LoadGen logs for tokens that were never computed, because they are padding.
NO_LOGIT = -10_000.0


class QuestionInputs:
    """Feeds the three inputs, cut to the longest sample of the batch.

    That length is filled up to a multiple of what ``predictor`` likes, or to the only one that
    the model takes. Numbers have the model's own type.
    """

    def __init__(self, benchmark: QuestionAnswering, capacity: int, predictor: Predictor) -> None:
        self._benchmark = benchmark
        self._step = benchmark.length if benchmark.fixed_length else predictor.length_step
        self._buffers = [
            predictor.buffer((capacity * benchmark.length,), dtype)
            for dtype in benchmark.input_types
        ]

    def feeds(self, indices: Sequence[int] | Array) -> Mapping[str, Array]:
        """See ``base.Inputs``."""
        benchmark = self._benchmark
        rows = benchmark.store.rows(indices)
        longest = int(benchmark.store.lengths[np.asarray(indices)].max())
        width = min(benchmark.length, -(-longest // self._step) * self._step)
        fed = {}
        for name, loaded, buffer in zip(
            benchmark.input_names, benchmark.store.loaded, self._buffers, strict=True
        ):
            batch = buffer[: len(rows) * width].reshape(len(rows), width)
            batch[:] = loaded[rows, :width]
            fed[name] = batch
        return fed


class FeatureStore(LoadedRows):
    """The loaded rows of the three arrays of features [samples, tokens].

    ``lengths`` [samples] are those without padding, which is not passed to another machine.
    """

    def __init__(self, arrays: Sequence[Array], lengths: Array) -> None:
        super().__init__(len(lengths))
        self._arrays = arrays
        self.lengths = lengths
        self.tensors = tuple(
            TensorSpec(name, str(array.dtype), (-1,))
            for name, array in zip(INPUTS, arrays, strict=True)
        )
        self.loaded: list[Array] = []

    def load(self, indices: Sequence[int]) -> None:
        """Load these samples, in the order of their numbers."""
        wanted = np.unique(np.asarray(indices, dtype=np.int64))
        self.loaded = [copy_rows(array, wanted) for array in self._arrays]
        self.fill(wanted)

    def unload(self) -> None:
        """Forget the loaded samples."""
        self.clear()
        self.loaded = []

    def gathered(self, indices: Sequence[int] | Array) -> Iterator[Mapping[str, Array]]:
        """Return these samples one by one, without padding; IndexError for one not loaded."""
        for index, row in zip(indices, self.rows(indices), strict=True):
            length = self.lengths[index]
            parts = [array[row : row + 1, :length] for array in self.loaded]
            yield dict(zip(INPUTS, parts, strict=True))

    def hold(self, indices: Sequence[int] | Array, samples: Samples) -> None:
        """Have these samples [n, tokens] instead of all others."""
        self.replace(indices)
        self.loaded = [self._padded([part[name] for part in samples]) for name in INPUTS]
        widths = [part[INPUTS[0]].shape for part in samples]
        self.lengths[np.asarray(indices)] = np.repeat(
            [w for _, w in widths], [n for n, _ in widths]
        )

    def _padded(self, parts: Sequence[Array]) -> Array:
        """Return parts [n, tokens] as one array [all n, length], with zeros at the ends."""
        room = np.zeros((sum(map(len, parts)), self._arrays[0].shape[1]), parts[0].dtype)
        start = 0
        for part in parts:
            room[start : start + len(part), : part.shape[1]] = part
            start += len(part)
        return room


class QuestionAnswering(StoreBackedBenchmark[FeatureStore]):
    """Features of SQuAD; LoadGen logs float32 [384, 2] (start, end) for each.

    The model's inputs are token numbers, mask and segments in this order, its first two outputs
    the start and the end logits, or its only one both side by side [384, 2].
    """

    fills_up = True

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        joined = [tensor.shape[-1:] for tensor in model.outputs] == [(2,)]
        if len(model.inputs) != len(INPUTS) or not (joined or len(model.outputs) >= 2):
            raise HarnessError(
                f"question answering needs 3 inputs and 2 outputs, the model {model.name} has "
                f"{len(model.inputs)} and {len(model.outputs)}"
            )
        facts = read_json(dataset / "dataset.json")
        self.rules = rules
        self._folder = dataset
        arrays = [np.load(dataset / f"{name}.npy", mmap_mode="r") for name in INPUTS]
        self.store = FeatureStore(arrays, np.load(dataset / "lengths.npy").astype(np.int64))
        self.sample_count, self.length = arrays[0].shape
        if not self.sample_count == len(self.store.lengths) == facts["count"]:
            raise HarnessError(f"{dataset} is damaged: its arrays are not equally long")
        self.input_names = tuple(tensor.name for tensor in model.inputs)
        self.input_types = tuple(tensor.dtype for tensor in model.inputs)
        self.fixed_length = model.inputs[0].shape[0] != -1
        self.costs: Array | None = None if self.fixed_length else self.store.lengths
        if self.fixed_length and model.inputs[0].shape[0] != self.length:
            raise HarnessError(
                f"the model {model.name} takes {model.inputs[0].shape[0]} tokens, and the features "
                f"of {dataset} have {self.length}"
            )
        self.outputs: Mapping[str, tuple[str, ...]] = {
            MAIN: tuple(tensor.name for tensor in model.outputs[:2])
        }
        self.result = Result(np.dtype(np.float32), (self.length, 2))

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> OneCall:
        """See ``base.Benchmark``."""
        predictor = predictors[MAIN]
        return OneCall(QuestionInputs(self, capacity, predictor), predictor, self.postprocess)

    def postprocess(self, outputs: Sequence[Array], results: Array, sizes: Array) -> None:
        """Both logits side by side, padding filled up; see ``base.OneCall``."""
        width = outputs[0].shape[1]
        if len(outputs) == 1:
            results[:, :width] = outputs[0]
        else:
            results[:, :width, 0] = outputs[0]
            results[:, :width, 1] = outputs[1]
        results[:, width:] = NO_LOGIT

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """F1 in percent; see ``base.Benchmark``. Every feature counts once, however often asked.

        Raises HarnessError for answers of another size.
        """
        size = 4 * 2 * self.length
        wrong = next((k for k, answer in enumerate(answers) if len(answer) != size), None)
        if wrong is not None:
            raise HarnessError(
                f"sample {wrong} was answered with {len(answers[wrong])} bytes, not {size}"
            )
        _, places = np.unique(samples, return_index=True)
        logits = (
            np.frombuffer(answers[place], dtype=np.float32).reshape(self.length, 2)
            for place in places
        )
        rows = [int(samples[place]) for place in places]
        examples = squad.read_examples(self._folder)
        texts = squad.answers(logits, rows, squad.Spans.read(self._folder), examples)
        exact, value = squad.score(texts, examples)
        line = json.dumps({"exact_match": exact, "f1": value})
        return AccuracyFigure(value, line, len(answers))
