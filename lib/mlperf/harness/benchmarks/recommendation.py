"""Recommendation: groups of user-item pairs in, the probability of a click for each, AUC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..errors import HarnessError
from ..jobs import AccuracyFigure
from ..records import read_json
from ..settings import MAIN, ModelSpec, TensorSpec
from .base import Array, Result
from .samples import LoadedRows, StoreBackedBenchmark, copy_rows

# What a group consists of, each with a row per pair.
PARTS = ("dense", "indices", "labels")
# What LoadGen logs per pair: the prediction and the label.
PAIR_BYTES = 8
# How the indices reach the model: [pairs, values], or [features, pairs] with offsets.
PAIR_FIRST = "pair-first"
FEATURE_FIRST = "feature-first"


class Groups(LoadedRows):
    """Pairs of the loaded groups, one group after the other in the order of loading.

    ``offsets`` [groups + 1] of the data set says which pairs belong to which group.
    """

    def __init__(self, dense: Array, indices: Array, labels: Array, offsets: Array) -> None:
        super().__init__(len(offsets) - 1)
        self._source = (dense, indices, labels)
        self.tensors = tuple(
            TensorSpec(name, str(array.dtype), (-1, *array.shape[1:]))
            for name, array in zip(PARTS, self._source, strict=True)
        )
        self._offsets = offsets
        self._begin = np.zeros(0, dtype=np.int64)
        self.unload()

    def unload(self) -> None:
        """Forget the loaded groups."""
        self.clear()
        self.dense, self.indices, self.labels = (array[:0] for array in self._source)

    def load(self, groups: Sequence[int]) -> None:
        """Bring the pairs of these groups into memory; a group that comes twice is loaded once."""
        wanted = np.asarray(list(dict.fromkeys(groups)), dtype=np.int64)
        begin, sizes = self._offsets[wanted], np.diff(self._offsets)[wanted]
        rows = ranges(begin, sizes)
        self.dense, self.indices, self.labels = (copy_rows(array, rows) for array in self._source)
        self.fill(wanted)
        self._begin = np.concatenate([[0], np.cumsum(sizes)])

    def hold(self, groups: Sequence[int] | Array, samples: Sequence[Mapping[str, Array]]) -> None:
        """Have these groups, their ``PARTS`` [n, pairs, ...] in order, instead of all others."""
        self.replace(groups)
        self.dense, self.indices, self.labels = (
            np.concatenate([part[name].reshape(-1, *part[name].shape[2:]) for part in samples])
            for name in PARTS
        )
        sizes = [part[PARTS[0]].shape[1] for part in samples for _ in part[PARTS[0]]]
        self._begin = np.concatenate([[0], np.cumsum(sizes)])

    def gathered(self, groups: Sequence[int] | Array) -> Iterator[Mapping[str, Array]]:
        """Yield the ``PARTS`` [1, pairs, ...] of every loaded group; raises IndexError."""
        for group in groups:
            rows, _ = self.pairs([group])
            arrays = (self.dense[rows], self.indices[rows], self.labels[rows])
            yield {name: array[None] for name, array in zip(PARTS, arrays, strict=True)}

    def pairs(self, groups: Sequence[int] | Array) -> tuple[Array, Array]:
        """The rows [pairs] of these n loaded groups, in order, and the size of every group [n].

        Raises IndexError for one that is not loaded.
        """
        place = self.rows(groups)
        begin = self._begin[place]
        sizes = self._begin[place + 1] - begin
        return ranges(begin, sizes), sizes


def ranges(begin: Array, sizes: Array) -> Array:
    """begin[0], begin[0] + 1, ... (sizes[0] numbers), begin[1], ... [sum of sizes] int64."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    positions: Array = np.arange(total) + np.repeat(begin - (ends - sizes), sizes)
    return positions


class _Solver:
    """One model call for all pairs of all groups of a batch."""

    def __init__(self, predictor: Predictor, groups: Groups, names: Mapping[str, str]) -> None:
        self._predictor = predictor
        self._groups = groups
        self._names = names

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``."""
        rows, many = self._groups.pairs(indices)
        (predictions,) = self._predictor.predict(self._feeds(rows))
        sample = np.repeat(np.arange(len(many)), many)
        place = ranges(np.zeros(len(many), dtype=np.int64), many)
        results[sample, place, 0] = predictions[:, 0]
        results[sample, place, 1] = self._groups.labels[rows]
        sizes[:] = PAIR_BYTES * many

    def _feeds(self, rows: Array) -> dict[str, Array]:
        values = self._groups.indices[rows].astype(np.int64)
        feeds = {self._names["dense"]: self._groups.dense[rows]}
        if "offsets" not in self._names:
            return {**feeds, self._names["indices"]: values}
        places = np.broadcast_to(np.arange(len(rows)), (values.shape[1], len(rows)))
        return {
            **feeds,
            self._names["offsets"]: np.ascontiguousarray(places),
            self._names["indices"]: np.ascontiguousarray(values.T),
        }


class Recommendation(StoreBackedBenchmark[Groups]):
    """A labelled set of user-item pairs in groups; every group is one of LoadGen's samples.

    The option ``layout`` of the model says how it takes the values of the categories:
    ``pair-first`` as [pairs, values], ``feature-first`` as [features, pairs] with one value for
    every feature and the ``offsets`` of the pairs in it, as MLPerf's first DLRM does.
    """

    def __init__(self, dataset: Path, model: ModelSpec, rules: BenchmarkSpec) -> None:
        self.rules = rules
        facts = read_json(dataset / "dataset.json")
        arrays = {
            name: np.load(dataset / f"{name}.npy", mmap_mode="r")
            for name in ("dense", "indices", "labels", "offsets")
        }
        self._labels, self._offsets = arrays["labels"], np.asarray(arrays["offsets"])
        _check_arrays(dataset, arrays, facts["count"])
        self._names = input_names(model)
        _check_model(model, self._names, arrays, dataset)
        self.store = Groups(arrays["dense"], arrays["indices"], arrays["labels"], self._offsets)
        self.sample_count = len(self._offsets) - 1
        self.outputs: Mapping[str, tuple[str, ...]] = {MAIN: (model.outputs[0].name,)}
        largest = int(np.diff(self._offsets).max())
        self.result = Result(np.dtype(np.float32), (largest, 2), variable=True)
        self.costs: Array | None = None  # nothing is padded: the order does not matter

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> _Solver:
        """See ``base.Benchmark``."""
        return _Solver(predictors[MAIN], self.store, self._names)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """AUC in percent; see ``base.Benchmark``.

        Raises HarnessError for answers of another size.
        """
        sizes = np.diff(self._offsets)[samples]
        answer_bytes = np.asarray([len(answer) for answer in answers])
        if (answer_bytes != PAIR_BYTES * sizes).any():
            wrong = int(np.flatnonzero(answer_bytes != PAIR_BYTES * sizes)[0])
            raise HarnessError(
                f"sample {samples[wrong]} was answered with {answer_bytes[wrong]} bytes, "
                f"not {PAIR_BYTES} for each of its {sizes[wrong]} pairs"
            )
        pairs = np.frombuffer(b"".join(answers), dtype=np.float32).reshape(-1, 2)
        labels = self._labels[ranges(self._offsets[samples], sizes)]
        if not np.array_equal(pairs[:, 1], labels):
            raise HarnessError("the answers are for other pairs: the logged labels differ")
        value = 100.0 * auc(labels, pairs[:, 0])
        good = int((np.rint(pairs[:, 0]) == labels).sum())
        line = (
            f"AUC={value:.3f}%, accuracy={100 * good / len(labels):.3f}%, "
            f"good={good}, total={len(labels)}, queries={len(answers)}"
        )
        return AccuracyFigure(value, line, len(answers))


def auc(labels: Array, scores: Array) -> float:
    """The area under the ROC curve, 0 to 1, from labels [n] (a click is above 0) and scores [n].

    It is how often a click is scored above a non-click, ties counted half.

    Raises HarnessError when there are only clicks or none: nothing can be put in order then.
    """
    clicks = int(np.count_nonzero(labels))
    others = len(labels) - clicks
    if not clicks or not others:
        raise HarnessError(f"no AUC: {clicks} clicks and {others} others")
    order = np.argsort(scores, kind="stable")
    ordered, hits = scores[order], np.asarray(labels)[order] > 0
    # Equal scores share the mean of their ranks.
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) + 1
    begins = np.concatenate([[0], ends[:-1]])
    ranks = np.repeat((begins + 1 + ends) / 2, ends - begins)
    return float((ranks[hits].sum() - clicks * (clicks + 1) / 2) / (clicks * others))


def input_names(model: ModelSpec) -> dict[str, str]:
    """Which input of the model is which: ``dense``, ``indices`` and, feature-first, ``offsets``.

    Raises HarnessError for another signature.
    """
    layout = model.options.get("layout", PAIR_FIRST)
    wanted = {PAIR_FIRST: 2, FEATURE_FIRST: 3}
    if layout not in wanted:
        raise HarnessError(
            f"layout {layout} of {model.name} is not known, only {', '.join(wanted)}"
        )
    names = [tensor.name for tensor in model.inputs]
    if len(names) != wanted[layout]:
        raise HarnessError(
            f"a {layout} model has {wanted[layout]} inputs, {model.name} {len(names)}"
        )
    roles = ("dense", "indices") if layout == PAIR_FIRST else ("dense", "offsets", "indices")
    return dict(zip(roles, names, strict=True))


def _check_arrays(folder: Path, arrays: Mapping[str, Array], count: int) -> None:
    pairs = {name: len(arrays[name]) for name in ("dense", "indices", "labels")}
    offsets = arrays["offsets"]
    whole = len(offsets) == count + 1 and offsets[0] == 0 and set(pairs.values()) == {offsets[-1]}
    if not whole or (np.diff(offsets) <= 0).any():
        lengths = ", ".join(f"{many} of {name}" for name, many in pairs.items())
        raise HarnessError(
            f"{folder} is damaged: {lengths}, {len(offsets) - 1} groups that end at {offsets[-1]}; "
            f"{count} groups expected"
        )


def _check_model(
    model: ModelSpec, names: Mapping[str, str], arrays: Mapping[str, Array], folder: Path
) -> None:
    by_name: dict[str, Any] = {tensor.name: tensor for tensor in model.inputs}
    wanted = [("dense", arrays["dense"].shape[1:])]
    if "offsets" not in names:
        wanted.append(("indices", arrays["indices"].shape[1:]))
    for role, shape in wanted:
        tensor = by_name[names[role]]
        if tuple(tensor.shape) != tuple(shape):
            raise HarnessError(
                f"the model's input {tensor.name} is {tensor.dtype} {list(tensor.shape)}, "
                f"the pairs of {folder} have {list(shape)}"
            )
