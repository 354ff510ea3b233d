"""Segmentation of volumes: a window slides over each, labels of its voxels come out, mean Dice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import HarnessError
from ..jobs import AccuracyFigure
from ..records import read_json
from ..settings import MAIN, ModelSpec, TensorSpec
from .base import Array, Result
from .samples import SingleSamples, StoreBackedBenchmark, cut_out

OVERLAP = 0.5
# The width of the weights of a window, as a share of its side.
SIGMA = 0.125
# Keeps the figure of a region that is nowhere defined: nothing found of nothing is right.
SMOOTH = 1e-6
# About what a network of this task takes in memory per voxel of a window that it works on.
WORK_BYTES = 800
# The label of voxels that no answer is judged by, such as those that fill up a window.
NOT_COUNTED = 255
# What a model's rules may do with a region that neither a volume nor its answer has.
ABSENT_REGIONS = ("right", "left out")


def window_weights(window: Sequence[int]) -> Array:
    """Weights float32 [d, h, w] of a window's voxels: the cube root of a Gaussian, 1 at most."""
    sides = []
    for side in window:
        places = np.arange(side) - (side - 1) / 2
        sides.append(np.exp(-((places / (SIGMA * side)) ** 2) / 2))
    product = np.cbrt(np.einsum("i,j,k->ijk", *sides))
    weights: Array = (product / product.max()).astype(np.float32)
    return weights


def starts(size: int, window: int, overlap: float) -> range:
    """Where windows begin along a side of ``size`` voxels that they fill without a rest."""
    stride = max(1, int(window * (1 - overlap)))
    return range(0, size - window + 1, stride)


def dice(prediction: Array, truth: Array, labels: Sequence[int]) -> float:
    """Twice the common voxels by the sum of both, 0 to 1, for the region of these ``labels``.

    ``prediction`` and ``truth`` are labels [d, h, w] of the same shape.
    """
    mine, real = np.isin(prediction, labels), np.isin(truth, labels)
    common = np.count_nonzero(mine & real)
    both = np.count_nonzero(mine) + np.count_nonzero(real)
    return (2.0 * common + SMOOTH) / (both + SMOOTH)


class Slider:
    """One worker's way over volumes, ``windows_per_call`` windows at a time.

    Scores are summed in a slab as deep as a window, because what lies before the next window is
    final. They are not divided by the sum of the weights: the greatest stays the greatest.
    """

    def __init__(self, benchmark: Segmentation, predictor: Predictor) -> None:
        self._benchmark = benchmark
        self._predictor = predictor
        self._weights = window_weights(benchmark.window)
        shape = (benchmark.windows_per_call, benchmark.channels, *benchmark.window)
        self._batch = predictor.buffer(shape, np.float32)

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``."""
        for row, index in enumerate(indices):
            volume = self._benchmark.volume(int(index))
            voxels = volume[0].size
            self._segment(volume, results[row, :voxels].reshape(volume.shape[1:]))
            sizes[row] = voxels

    def _segment(self, volume: Array, labels: Array) -> None:
        """Write the labels uint8 [d, h, w] of ``volume`` [channels, d, h, w]."""
        if volume.shape[1:] == self._benchmark.window:
            self._decide_at_once(volume, labels)
            return
        depth = self._benchmark.window[0]
        slab = np.zeros((self._benchmark.classes, depth, *volume.shape[2:]), dtype=np.float32)
        planes = starts(len(labels), depth, self._benchmark.overlap)
        for z in planes:
            self._add(volume[:, z : z + depth], slab)
            last = z == planes[-1]
            final = depth if last else planes.step
            for plane in range(final):
                labels[z + plane] = slab[:, plane].argmax(axis=0)
            if not last:
                slab[:, :-final] = slab[:, final:].copy()
                slab[:, -final:] = 0

    def _decide_at_once(self, volume: Array, labels: Array) -> None:
        """A volume of one window needs neither weights nor sums, which for the full size cost."""
        (scores,) = self._predictor.predict({self._benchmark.input_name: volume[None]})
        for plane in range(len(labels)):
            labels[plane] = scores[0][:, plane].argmax(axis=0)

    def _add(self, volume: Array, slab: Array) -> None:
        """Add the weighted scores of all windows of a part that is one window deep."""
        corners = list(self._corners(volume.shape[2:]))
        for begin in range(0, len(corners), len(self._batch)):
            chosen = corners[begin : begin + len(self._batch)]
            batch = self._batch[: len(chosen)]
            for row, place in enumerate(chosen):
                batch[row] = volume[:, :, place[0], place[1]]
            feeds = {self._benchmark.input_name: batch}
            (scores,) = self._predictor.predict(feeds)
            for row, place in enumerate(chosen):
                slab[:, :, place[0], place[1]] += scores[row] * self._weights

    def _corners(self, sides: Sequence[int]) -> Iterator[tuple[slice, slice]]:
        _, height, width = self._benchmark.window
        for y in starts(sides[0], height, self._benchmark.overlap):
            for x in starts(sides[1], width, self._benchmark.overlap):
                yield slice(y, y + height), slice(x, x + width)


class Segmentation(StoreBackedBenchmark[SingleSamples]):
    """Volumes of several shapes and the labels of their voxels.

    The data set holds ``samples.npy`` float32, all volumes one after the other, ``shapes.npy``
    int64 [n, 4] (channels, depth, height, width) and ``labels.npy`` uint8. The window is as large
    as the model's input; a volume of that size is one window. Options of the model: ``regions``,
    the labels that every named region consists of, and, where the usual will not do, ``overlap``,
    ``windows_per_call`` and ``absent_region``: whether finding nothing of a region that is not
    there counts as "right" or is "left out" of the mean. LoadGen logs the labels of a volume.
    """

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        self._regions = _regions(model)
        self.input_name = model.inputs[0].name
        self.channels, *window = model.inputs[0].shape
        self.window = tuple(window)
        self.classes = model.outputs[0].shape[0]
        self.overlap = float(model.options.get("overlap", OVERLAP))
        self.windows_per_call = int(model.options.get("windows_per_call", 1))
        self._leave_out = _absent_region(model) == "left out"
        self._samples = np.load(dataset / "samples.npy", mmap_mode="r")
        self._labels = np.load(dataset / "labels.npy", mmap_mode="r")
        self._shapes = np.load(dataset / "shapes.npy")
        self._check(dataset, read_json(dataset / "dataset.json")["count"])
        self._offsets = _offsets(self._shapes.prod(axis=1))
        voxels = self._shapes[:, 1:].prod(axis=1)
        self._label_offsets = _offsets(voxels)
        tensor = TensorSpec("volume", "float32", (self.channels, -1, -1, -1))
        self.store = SingleSamples(tensor, self._read)
        self.sample_count = len(self._shapes)
        self.outputs: Mapping[str, tuple[str, ...]] = {MAIN: (model.outputs[0].name,)}
        self.result = Result(np.dtype(np.uint8), (int(voxels.max()),), variable=True)
        self.costs: Array | None = np.array([self._windows(shape[1:]) for shape in self._shapes])
        self.work_bytes = WORK_BYTES * int(np.prod(self.window))

    def _check(self, folder: Path, count: int) -> None:
        """Raise HarnessError when the volumes are not whole or do not suit the model."""
        values = int(self._shapes.prod(axis=1).sum())
        voxels = int(self._shapes[:, 1:].prod(axis=1).sum())
        if (len(self._shapes), values, voxels) != (count, len(self._samples), len(self._labels)):
            raise HarnessError(
                f"{folder} is damaged: {len(self._shapes)} volumes with {len(self._samples)} "
                f"values and {len(self._labels)} labels, expected {count} with {values} and "
                f"{voxels}"
            )
        if len(self.window) != 3 or min(self.window) < 1:
            raise HarnessError(f"a window of {list(self.window)} cannot slide over volumes")
        for number, (channels, *sides) in enumerate(self._shapes.tolist()):
            filled = all(map(self._fills, sides, self.window))
            if channels != self.channels or not filled:
                raise HarnessError(
                    f"volume {number} of {folder} is {[channels, *sides]}; windows of "
                    f"{[self.channels, *self.window]} do not fill it without a rest"
                )

    def _windows(self, sides: Sequence[int]) -> int:
        """Return how many windows a volume takes."""
        places = (starts(*each, self.overlap) for each in zip(sides, self.window, strict=True))
        return int(np.prod([len(each) for each in places]))

    def _fills(self, size: int, window: int) -> bool:
        places = starts(size, window, self.overlap)
        return bool(places) and places[-1] + window == size

    def _read(self, index: int) -> Array:
        part = cut_out(self._samples, self._offsets[index], self._offsets[index + 1])
        return part.reshape(self._shapes[index])

    def volume(self, index: int) -> Array:
        """A loaded volume [channels, d, h, w]; raises IndexError for one that is not loaded."""
        return self.store.get(index)

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> Slider:
        """See ``base.Benchmark``; ``capacity`` does not matter, volumes go one by one."""
        return Slider(self, predictors[MAIN])

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """Return the Dice of every region over all volumes, and their mean; see ``base.Benchmark``.

        Raises HarnessError for answers of another size.
        """
        shares = np.ma.zeros((len(answers), len(self._regions)))
        for number, (answer, sample) in enumerate(zip(answers, samples.tolist(), strict=True)):
            truth = self._labels[self._label_offsets[sample] : self._label_offsets[sample + 1]]
            if len(answer) != len(truth):
                raise HarnessError(
                    f"sample {number} was answered with {len(answer)} labels, its volume has "
                    f"{len(truth)} voxels"
                )
            prediction = np.frombuffer(answer, dtype=np.uint8)
            shares[number] = self._shares(prediction, truth)
        # A region that is left out everywhere was never got wrong.
        each = shares.mean(axis=0).filled(1.0)
        named_shares = zip(self._regions, each, strict=True)
        parts = ", ".join(f"{name} = {share:.4f}" for name, share in named_shares)
        mean = float(each.mean())
        return AccuracyFigure(mean, f"Accuracy: mean = {mean:.5f}, {parts}", len(answers))

    def _shares(self, prediction: Array, truth: Array) -> Array:
        """Return the Dice of all regions of one volume, masked where it is left out of the mean."""
        counted = truth != NOT_COUNTED
        mine, real = prediction[counted], truth[counted]
        regions = list(self._regions.values())
        values = [dice(mine, real, labels) for labels in regions]
        absent = [
            self._leave_out and not np.isin(mine, labels).any() and not np.isin(real, labels).any()
            for labels in regions
        ]
        masked: Array = np.ma.masked_array(values, absent)
        return masked


def _offsets(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])


def _absent_region(model: ModelSpec) -> str:
    policy = str(model.options.get("absent_region", ABSENT_REGIONS[0]))
    if policy not in ABSENT_REGIONS:
        known = ", ".join(ABSENT_REGIONS)
        raise HarnessError(f"{model.name}: absent_region is {policy!r}; it can be: {known}")
    return policy


def _regions(model: ModelSpec) -> Mapping[str, Sequence[int]]:
    regions: Mapping[str, Sequence[int]] = model.options.get("regions", {})
    if not regions:
        raise HarnessError(f"the options of {model.name} lack 'regions'")
    return regions
