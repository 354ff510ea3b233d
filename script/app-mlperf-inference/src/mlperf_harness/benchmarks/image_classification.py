"""Image classification: preprocessed images in, one label per image out, top-1 accuracy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import HarnessError
from ..outcome import AccuracyFigure
from ..records import read_json
from ..settings import ModelSpec, TensorSpec
from .base import Array, Rules
from .samples import SampleReader, SampleStore

RESNET50 = Rules(loadgen_key="resnet50", server_limit_s=0.015, loaded_samples=1024)


class ImageInputs:
    """Feeds the one input of the model."""

    def __init__(self, name: str, reader: SampleReader) -> None:
        self._name = name
        self._reader = reader

    def feeds(self, indices: Sequence[int] | Array) -> Mapping[str, Array]:
        """See ``base.Inputs``."""
        return {self._name: self._reader.read(indices)}


class ImageClassification:
    """A labelled set of images in ``samples.npy`` and ``labels.npy``.

    The first output of the model is taken as the label, counted from ``label_offset`` as MLPerf's
    ResNet-50 counts from 1 (class 0 is the background). LoadGen logs it as one float32.
    """

    def __init__(self, dataset: Path, model: ModelSpec, rules: Rules) -> None:
        self.rules = rules
        self._samples, self._labels = _load_dataset(dataset, model.inputs)
        self._store = SampleStore(self._samples)
        self._input_name = model.inputs[0].name
        self._offset = model.label_offset
        self.sample_count = len(self._labels)
        self.output_names: tuple[str, ...] = (model.outputs[0].name,)
        self.result_dtype = np.dtype(np.float32)
        self.result_shape: tuple[int, ...] = ()

    def load(self, indices: Sequence[int]) -> None:
        """See ``base.Benchmark``."""
        self._store.load(indices)

    def unload(self) -> None:
        """See ``base.Benchmark``."""
        self._store.unload()

    def inputs(self, capacity: int) -> ImageInputs:
        """See ``base.Benchmark``."""
        shape, dtype = self._samples.shape[1:], self._samples.dtype
        return ImageInputs(self._input_name, SampleReader(self._store, capacity, shape, dtype))

    def postprocess(self, outputs: Sequence[Array], results: Array) -> None:
        """See ``base.Benchmark``."""
        np.subtract(outputs[0], self._offset, out=results, casting="unsafe")

    def accuracy(self, log: Path) -> AccuracyFigure:
        """Top-1 accuracy in percent; see ``base.Benchmark``."""
        found, duplicates = read_labels(log, self.sample_count)
        right = int((found == self._labels).sum())
        value = 100.0 * right / self.sample_count
        line = f"accuracy={value:.3f}%, good={right}, total={self.sample_count}"
        return AccuracyFigure(value, line, self.sample_count, duplicates)


def read_labels(log: Path, count: int) -> tuple[npt.NDArray[np.float32], int]:
    """The logged label of each of ``count`` samples, and how many answers came twice.

    LoadGen fills the last MultiStream query of an accuracy run up with samples it has had
    already. Raises HarnessError when a sample is missing, unknown, empty or answered differently.
    """
    try:
        entries = json.loads(log.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"cannot read {log}: {error}") from error
    labels = np.full(count, np.nan, dtype=np.float32)
    duplicates = 0
    for entry in entries:
        index, label = int(entry["qsl_idx"]), _label(entry)
        if not 0 <= index < count:
            raise HarnessError(f"{log} has an answer for sample {index}, there are {count}")
        if not np.isnan(labels[index]):
            duplicates += 1
            if labels[index] != label:
                raise HarnessError(f"{log} has two different answers for sample {index}")
        labels[index] = label
    missing = int(np.isnan(labels).sum())
    if missing:
        raise HarnessError(f"{log} lacks the answers for {missing} of {count} samples")
    return labels, duplicates


def _label(entry: Mapping[str, Any]) -> np.float32:
    data = bytes.fromhex(entry["data"])
    if len(data) != 4:
        raise HarnessError(f"sample {entry['qsl_idx']} was answered with {len(data)} bytes, not 4")
    label: np.float32 = np.frombuffer(data, dtype=np.float32)[0]
    return label


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
