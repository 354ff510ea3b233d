"""Any model with any inputs: arrays in, the strongest class of the first output as the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec
from mlperf.harness.backends.base import Predictor
from mlperf.harness.benchmarks.base import Array, OneCall, Result
from mlperf.harness.benchmarks.samples import SampleReader, SampleStore
from mlperf.harness.jobs import AccuracyFigure
from mlperf.harness.records import read_json
from mlperf.harness.settings import MAIN, ModelSpec


class ArrayInputs:
    """Feeds every input of the model from an array of its own."""

    def __init__(self, readers: Mapping[str, SampleReader]) -> None:
        self._readers = readers

    def feeds(self, indices: Sequence[int] | Array) -> Mapping[str, Array]:
        """See ``base.Inputs``."""
        return {name: reader.read(indices) for name, reader in self._readers.items()}


class OwnModel:
    """``input-N.npy`` for the inputs in their order, and ``labels.npy`` where there are any.

    LoadGen logs one float32 per sample: the number of the greatest value of the first output,
    or the output itself where that is a single number.
    """

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        self._stores = {
            tensor.name: SampleStore(np.load(dataset / f"input-{number}.npy", mmap_mode="r"))
            for number, tensor in enumerate(model.inputs)
        }
        self._inputs = {tensor.name: tensor for tensor in model.inputs}
        facts = read_json(dataset / "dataset.json")
        self._labels = np.load(dataset / "labels.npy") if facts["judged"] else None
        self.sample_count = int(facts["count"])
        self.outputs: Mapping[str, tuple[str, ...]] = {MAIN: (model.outputs[0].name,)}
        self.result = Result(np.dtype(np.float32), ())
        self.costs: Array | None = None

    def load(self, indices: Sequence[int]) -> None:
        """See ``base.Benchmark``."""
        for store in self._stores.values():
            store.load(indices)

    def unload(self) -> None:
        """See ``base.Benchmark``."""
        for store in self._stores.values():
            store.unload()

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> OneCall:
        """See ``base.Benchmark``."""
        predictor = predictors[MAIN]
        readers = {
            name: SampleReader(
                store,
                predictor.buffer(
                    (capacity, *self._inputs[name].shape), np.dtype(self._inputs[name].dtype)
                ),
            )
            for name, store in self._stores.items()
        }
        return OneCall(ArrayInputs(readers), predictor, self.postprocess)

    def postprocess(self, outputs: Sequence[Array], results: Array, sizes: Array) -> None:
        """See ``base.OneCall``."""
        rows = outputs[0].reshape(len(results), -1)
        results[:] = rows[:, 0] if rows.shape[1] == 1 else rows.argmax(axis=1)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """Top-1 accuracy in percent, 0 where there are no labels; see ``base.Benchmark``."""
        labels = np.frombuffer(b"".join(answers), dtype=np.float32)
        right = 0 if self._labels is None else int((labels == self._labels[samples]).sum())
        value = 100.0 * right / len(answers)
        line = f"accuracy={value:.3f}%, good={right}, total={len(answers)}"
        return AccuracyFigure(value, line, len(answers))
