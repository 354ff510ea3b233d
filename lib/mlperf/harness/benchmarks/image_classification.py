"""Image classification: preprocessed images in, one label per image out, top-1 accuracy."""

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
from .base import Array, OneCall, Result
from .samples import SampleReader, SampleStore, StoreBackedBenchmark


class ImageInputs:
    """Feeds the one input of the model."""

    def __init__(self, name: str, reader: SampleReader) -> None:
        self._name = name
        self._reader = reader

    def feeds(self, indices: Sequence[int] | Array) -> Mapping[str, Array]:
        """See ``base.Inputs``."""
        return {self._name: self._reader.read(indices)}


class ImageClassification(StoreBackedBenchmark[SampleStore]):
    """A labelled set of images in ``samples.npy`` and ``labels.npy``.

    The first output of the model is taken as the label, counted from ``label_offset`` as MLPerf's
    ResNet-50 counts from 1 (class 0 is the background), or as the scores of all classes: then the
    highest is the label. LoadGen logs it as one float32.
    """

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        self._samples, self._labels = _load_dataset(dataset, model.inputs)
        self.store = SampleStore(self._samples)
        self._input_name = model.inputs[0].name
        self._offset = int(model.options.get("label_offset", 0))
        self.sample_count = len(self._labels)
        self.outputs: Mapping[str, tuple[str, ...]] = {MAIN: (model.outputs[0].name,)}
        self.result = Result(np.dtype(np.float32), ())
        self.costs: Array | None = None

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> OneCall:
        """See ``base.Benchmark``."""
        shape, dtype = self._samples.shape[1:], self._samples.dtype
        predictor = predictors[MAIN]
        reader = SampleReader(self.store, predictor.buffer((capacity, *shape), dtype))
        return OneCall(ImageInputs(self._input_name, reader), predictor, self.postprocess)

    def postprocess(self, outputs: Sequence[Array], results: Array, sizes: Array) -> None:
        """Labels from the first output; see ``base.OneCall``."""
        labels = outputs[0] if outputs[0].ndim == 1 else outputs[0].argmax(axis=1)
        np.subtract(labels, self._offset, out=results, casting="unsafe")

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """Top-1 accuracy in percent; see ``base.Benchmark``.

        Raises HarnessError for an answer that is no class.
        """
        wrong = next((k for k, answer in enumerate(answers) if len(answer) != 4), None)
        if wrong is not None:
            size = len(answers[wrong])
            raise HarnessError(f"sample {wrong} was answered with {size} bytes, not 4")
        labels = np.frombuffer(b"".join(answers), dtype=np.float32)
        right = int((labels == self._labels[samples]).sum())
        value = 100.0 * right / len(answers)
        line = f"accuracy={value:.3f}%, good={right}, total={len(answers)}"
        return AccuracyFigure(value, line, len(answers))


def _load_dataset(folder: Path, inputs: Sequence[TensorSpec]) -> tuple[Array, Array]:
    facts = read_json(folder / "dataset.json")
    samples = np.load(folder / "samples.npy", mmap_mode="r")
    labels = np.load(folder / "labels.npy")
    if len(inputs) != 1:
        raise HarnessError(f"the model has {len(inputs)} inputs, image classification feeds one")
    shape = tuple(samples.shape[1:])
    if shape != inputs[0].shape or str(samples.dtype) != inputs[0].dtype:
        raise HarnessError(
            f"the model's input {inputs[0].name} is {inputs[0].dtype} {list(inputs[0].shape)}, "
            f"the images of {folder} are {samples.dtype} {list(shape)}"
        )
    if not len(samples) == len(labels) == facts["count"]:
        raise HarnessError(
            f"{folder} is damaged: {len(samples)} samples, {len(labels)} labels, "
            f"{facts['count']} expected"
        )
    return samples, labels
