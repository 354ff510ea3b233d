"""Object detection: preprocessed images in, boxes out, mean average precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import HarnessError
from ..jobs import AccuracyFigure
from ..records import read_json
from ..settings import MAIN, ModelSpec
from .average_precision import Detections, mean_average_precision
from .base import Array, Result
from .samples import SampleReader, SampleStore, StoreBackedBenchmark

# What LoadGen logs for a box: number of the sample; top, left, bottom and right as shares of the
# image's sides; score; label. All as float32, and nothing where there is no box.
FIELDS = 7
ROW_BYTES = 4 * FIELDS
# The order of the logged columns, out of left, top, right, bottom.
ROWS_FIRST = [1, 0, 3, 2]


@dataclass(frozen=True, slots=True)
class BoxFormat:
    """How a model gives its boxes.

    ``boxes``, ``labels``, ``scores`` and, for some models, ``count`` name its outputs: boxes
    [n, most, 4], labels and scores [n, most], surest first; without n where it takes one image.
    ``order`` is ``xyxy`` or ``yxyx``, ``extent`` what boxes are divided by: height and width of
    the input where they are in pixels. Boxes below ``least_score`` are left out. ``classes`` is
    ``category`` where a label is a category of the data set and ``position`` where it is its
    place in their list, counted from 1. ``images_per_call`` limits a call, 0 does not.
    """

    boxes: str
    labels: str
    scores: str
    most: int
    count: str = ""
    order: str = "xyxy"
    extent: tuple[float, float] = (1.0, 1.0)
    least_score: float = 0.0
    classes: str = "category"
    images_per_call: int = 0

    @classmethod
    def of(cls, model: ModelSpec) -> BoxFormat:
        """The format that the options of a model state; raises HarnessError when they do not."""
        try:
            box_format = cls(
                **{**model.options, "extent": tuple(model.options.get("extent", (1, 1)))}
            )
        except TypeError as error:
            raise HarnessError(f"the options of {model.name} do not describe boxes: {error}") from (
                error
            )
        known = {tensor.name for tensor in model.outputs}
        missing = [name for name in box_format.outputs if name not in known]
        if missing:
            raise HarnessError(f"{model.name} has no output {missing[0]}, which its options name")
        return box_format

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the outputs to ask for, the count last where there is one."""
        return (self.boxes, self.labels, self.scores, *((self.count,) if self.count else ()))


class DetectionSolver:
    """Calls the model for as many images as it takes and packs the detections."""

    def __init__(
        self, predictor: Predictor, reader: SampleReader, name: str, boxes: BoxFormat
    ) -> None:
        self._predictor = predictor
        self._reader = reader
        self._name = name
        self._format = boxes
        height, width = boxes.extent
        self._unit = np.asarray([height, width] * 2, dtype=np.float32)

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``; raises HarnessError for answers of another number of images."""
        step = self._format.images_per_call or len(indices)
        for begin in range(0, len(indices), step):
            part = indices[begin : begin + step]
            outputs = self._predictor.predict({self._name: self._reader.read(part)})
            boxes, labels, scores = self._batched(outputs[:3])
            if len(boxes) != len(part):
                raise HarnessError(
                    f"the model answered {len(part)} images with boxes {list(boxes.shape)}"
                )
            counts = outputs[3] if self._format.count else np.full(len(part), scores.shape[1])
            for k, index in enumerate(part):
                count = int(counts[k])
                row = results[begin + k]
                detections = (boxes[k, :count], labels[k, :count], scores[k, :count])
                sizes[begin + k] = ROW_BYTES * self._pack(int(index), *detections, row)

    def _batched(self, outputs: Sequence[Array]) -> Sequence[Array]:
        """Return the outputs with a first axis for images, which a model for one image lacks."""
        return [output[None] for output in outputs] if outputs[0].ndim == 2 else outputs

    def _pack(self, index: int, boxes: Array, labels: Array, scores: Array, row: Array) -> int:
        """Write the boxes of an image into ``row``; returns how many."""
        kept = np.flatnonzero(scores >= self._format.least_score)
        if len(kept) > self._format.most:
            kept = np.sort(kept[np.argsort(-scores[kept], kind="stable")[: self._format.most]])
        count = len(kept)
        target = row[:count]
        if self._format.order == "xyxy":
            boxes = boxes[:, ROWS_FIRST]
        target[:, 0] = index
        np.divide(boxes[kept], self._unit, out=target[:, 1:5])
        target[:, 5] = scores[kept]
        target[:, 6] = labels[kept]
        return count


class ObjectDetection(StoreBackedBenchmark[SampleStore]):
    """Annotated images in ``samples.npy`` and ``annotations.json`` (COCO's format).

    The options of the model are those of ``BoxFormat``.
    """

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        self._samples, self._annotations = _load_dataset(dataset, model)
        self.store = SampleStore(self._samples)
        self._input_name = model.inputs[0].name
        self.format = BoxFormat.of(model)
        self.sample_count = len(self._samples)
        self.outputs: Mapping[str, tuple[str, ...]] = {MAIN: self.format.outputs}
        self.result = Result(np.dtype(np.float32), (self.format.most, FIELDS), variable=True)
        self.costs: Array | None = None

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> DetectionSolver:
        """See ``base.Benchmark``."""
        shape, dtype = self._samples.shape[1:], self._samples.dtype
        capacity = min(capacity, self.format.images_per_call or capacity)
        predictor = predictors[MAIN]
        reader = SampleReader(self.store, predictor.buffer((capacity, *shape), dtype))
        return DetectionSolver(predictor, reader, self._input_name, self.format)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """Mean average precision in percent; see ``base.Benchmark``.

        An image counts as often as it is queried.
        """
        pairs = list(zip(samples.tolist(), answers, strict=True))
        # All queried equally often, with equal answers: counting them once is enough.
        distinct = list(dict.fromkeys(pairs))
        counts = np.unique(samples, return_counts=True)[1]
        if len(distinct) == len(counts) and counts.min() == counts.max():
            pairs = distinct
        images = [self._annotations["images"][sample] for sample, _ in pairs]
        detections = [self._detections(sample, answer) for sample, answer in pairs]
        value = 100.0 * mean_average_precision(self._annotations, images, detections)
        boxes = sum(len(image_detections.scores) for image_detections in detections)
        line = f"mAP={value:.3f}%, images={len(images)}, boxes={boxes}"
        return AccuracyFigure(value, line, len(answers))

    def _detections(self, sample: int, answer: bytes) -> Detections:
        """Return an answer in pixels of its image and categories of the data set."""
        if len(answer) % ROW_BYTES:
            raise HarnessError(
                f"sample {sample} was answered with {len(answer)} bytes, "
                f"which is not a multiple of {ROW_BYTES}"
            )
        rows = np.frombuffer(answer, dtype=np.float32).reshape(-1, FIELDS)
        if (rows[:, 0] != sample).any():
            other = int(rows[rows[:, 0] != sample][0, 0])
            raise HarnessError(f"the answer for sample {sample} says it is for sample {other}")
        image = self._annotations["images"][sample]
        scale = np.asarray([image["width"], image["height"]], dtype=np.float64)
        first, last = rows[:, [2, 1]] * scale, rows[:, [4, 3]] * scale
        labels = rows[:, 6].astype(np.int64)
        return Detections(
            np.concatenate([first, last - first], axis=1), rows[:, 5], self._categories(labels)
        )

    def _categories(self, labels: Array) -> Array:
        if self.format.classes == "category":
            return labels
        numbers = np.asarray([category["id"] for category in self._annotations["categories"]])
        if labels.size and not (labels.min() >= 1 and labels.max() <= len(numbers)):
            raise HarnessError(
                f"labels {labels.min()} to {labels.max()} were given, there are {len(numbers)} "
                "classes, counted from 1"
            )
        categories: Array = numbers[labels - 1]
        return categories


def _load_dataset(folder: Path, model: ModelSpec) -> tuple[Array, Mapping[str, Any]]:
    facts = read_json(folder / "dataset.json")
    samples = np.load(folder / "samples.npy", mmap_mode="r")
    annotations = read_json(folder / "annotations.json")
    if len(model.inputs) != 1:
        raise HarnessError(f"the model has {len(model.inputs)} inputs, object detection feeds one")
    tensor, shape = model.inputs[0], tuple(samples.shape[1:])
    if shape != tensor.shape or str(samples.dtype) != tensor.dtype:
        raise HarnessError(
            f"the model's input {tensor.name} is {tensor.dtype} {list(tensor.shape)}, "
            f"the images of {folder} are {samples.dtype} {list(shape)}"
        )
    if not len(samples) == len(annotations["images"]) == facts["count"]:
        raise HarnessError(
            f"{folder} is damaged: {len(samples)} samples, {len(annotations['images'])} "
            f"annotated images, {facts['count']} expected"
        )
    return samples, annotations
