"""Top-1 accuracy out of LoadGen's log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks.repeated import RepeatedBenchmark
from mlperf.harness.errors import HarnessError
from mlperf.harness.measuring.accuracy_log import read_answers
from mlperf.harness.measuring.loadgen_run import figure_of
from mlperf.harness.settings import ModelSpec


def entry(index: int, label: float) -> dict[str, Any]:
    return {"seq_id": 0, "qsl_idx": index, "data": np.float32(label).tobytes().hex().upper()}


def write(folder: Path, entries: Sequence[dict[str, Any]]) -> Path:
    path = folder / "mlperf_log_accuracy.json"
    path.write_text(json.dumps(list(entries)), encoding="utf-8")
    return path


@given(st.lists(st.integers(0, 999), min_size=1, max_size=30), st.randoms(), st.integers(0, 7))
def test_labels_come_back_in_the_order_of_the_samples(
    labels: list[int], random: Any, twice: int
) -> None:
    entries = [entry(index, label) for index, label in enumerate(labels)]
    entries += entries[:twice]
    random.shuffle(entries)
    with TemporaryDirectory() as folder:
        found, duplicates = read_answers(write(Path(folder), entries), len(labels))
    assert [np.frombuffer(one, np.float32)[0] for one in found] == labels
    assert duplicates == min(twice, len(labels))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry(0, 1)], "lacks the answers for 1 of 2 samples"),
        ([entry(0, 1), entry(1, 1), entry(2, 1)], "an answer for sample 2, there are 2"),
        ([entry(0, 1), entry(1, 1), entry(0, 2)], "two different answers for sample 0"),
    ],
)
def test_an_incomplete_log_gives_no_figure(
    tmp_path: Path, entries: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(HarnessError, match=message):
        read_answers(write(tmp_path, entries), 2)


def test_a_cut_log_gives_no_figure(tmp_path: Path) -> None:
    path = tmp_path / "mlperf_log_accuracy.json"
    path.write_text('[{"qsl_idx": 0,', encoding="utf-8")
    with pytest.raises(HarnessError, match="cannot read"):
        read_answers(path, 1)


def benchmark(**changes: Any) -> Any:
    spec = records.decode(ModelSpec, lab.model(**changes))
    return benchmarks.create("resnet50", lab.arrays(), spec)


def test_the_background_class_is_taken_off() -> None:
    results = np.zeros(3, dtype=np.float32)
    benchmark().postprocess([np.array([1, 5, 10])], results, np.zeros(3, dtype=np.int64))
    assert results.tolist() == [0, 4, 9]


def test_the_figure_and_its_line(tmp_path: Path) -> None:
    labels = np.load(lab.arrays() / "labels.npy")
    entries = [entry(index, label) for index, label in enumerate(labels)]
    entries[7] = entry(7, (labels[7] + 1) % 10)
    figure = figure_of(benchmark(), write(tmp_path, entries))
    assert figure.value == pytest.approx(100 * 539 / 540)
    assert figure.line == "accuracy=99.815%, good=539, total=540"


def test_an_answer_without_data_is_refused() -> None:
    with pytest.raises(HarnessError, match="sample 1 was answered with 0 bytes, not 4"):
        benchmark().accuracy([b"0000", b""], np.arange(2))


def test_a_repeated_set_is_judged_as_often_as_it_was_asked() -> None:
    labels = np.load(lab.arrays() / "labels.npy").astype(np.float32)
    answers = [labels[k % 540].tobytes() for k in range(1000)]
    answers[999] = np.float32(labels[999 % 540] + 1).tobytes()
    thousand = RepeatedBenchmark(benchmark(), 1000)
    figure = thousand.accuracy(answers, np.arange(1000))
    assert (thousand.sample_count, figure.value) == (1000, pytest.approx(99.9))


def test_a_model_for_other_images_is_refused() -> None:
    wide = [{"name": "input_tensor:0", "dtype": "float32", "shape": [3, 224, 224]}]
    with pytest.raises(HarnessError, match=r"float32 \[3, 224, 224\], the images .* \[3, 28, 28\]"):
        benchmark(inputs=wide)


def test_an_unknown_benchmark_is_refused() -> None:
    spec = records.decode(ModelSpec, lab.model())
    with pytest.raises(HarnessError, match=r"no benchmark bert; there are: .*\bresnet50\b"):
        benchmarks.create("bert", lab.arrays(), spec)
