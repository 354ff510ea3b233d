"""Quantizing models whose samples take many calls: which of them ranges are taken from."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.quantization import calibration, quantize, ranges
from mlperf.harness.settings import MAIN

onnx = pytest.importorskip("onnx")
KITS = forms.SCRIPT / "get-ml-model-3d-unet-kits19" / "tiny"
BRATS = forms.SCRIPT / "get-ml-model-3d-unet-brats19" / "tiny"


def request(folder: Path, benchmark: str, model: Path, dataset: Path, samples: int) -> Path:
    config = folder / "quantize.json"
    words = {"benchmark": benchmark, "facts": str(model / "model.json"), "dataset": str(dataset)}
    config.write_text(json.dumps({**words, "samples": samples, "folder": str(folder)}))
    return config


def described(folder: Path) -> Any:
    facts = records.read_json(folder / "model.json")
    return quantize._spec(facts, folder / facts["file"])


def answers(name: str, folder: Path, dataset: Path, precision: str) -> tuple[float, bytes]:
    """The figure of all volumes, and their labels one after the other."""
    model = described(folder)
    benchmark = benchmarks.create(name, dataset, model)
    backend = backends.create("onnxruntime", "cpu", precision)
    (opened,) = backend.open(model.graphs()[0], benchmark.outputs[MAIN], 1, 1)
    found = forms.answers(benchmark, benchmark.solver({MAIN: opened}, 1), 1)
    return benchmark.accuracy(found, np.arange(len(found))).value, b"".join(found)


def alike(one: bytes, other: bytes) -> float:
    """The share of voxels that have the same label in both."""
    same = np.frombuffer(one, np.uint8) == np.frombuffer(other, np.uint8)
    return float(same.mean())


def deep_model(layers: int, side: int) -> Any:
    """Convolutions one after the other, each with 8 channels of ``side`` x ``side``."""
    random = np.random.default_rng(5)
    weight = (random.standard_normal((8, 8, 1, 1)) * 0.5).astype(np.float32)
    names = [f"x{number}" for number in range(layers + 1)]
    nodes = [
        onnx.helper.make_node("Conv", [before, "w"], [after], after)
        for before, after in pairwise(names)
    ]
    shape = [1, 8, side, side]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name in (names[0], names[-1])
    ]
    weights = [onnx.numpy_helper.from_array(weight, "w")]
    graph = onnx.helper.make_graph(nodes, "deep", ends[:1], ends[1:], weights)
    opsets = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


# In a process of its own, because the peak of a process never sinks.
PEAK = """
import resource, sys
from pathlib import Path
import numpy as np
import onnxruntime.quantization
from mlperf.harness.quantization import calibration, quantize
folder, side = Path(sys.argv[1]), int(sys.argv[2])
calls = [[{"x0": np.ones((1, 8, side, side), np.float32)}] for _ in range(3)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
counted = calibration.CalibrationFeeds(calls)
method = quantize.QuantizationMethod()
quantize._quantize(folder / "deep.onnx", folder / "int8.onnx", counted, method)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_volumes_too_large_for_the_memory_are_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges.memory, "available", lambda: (20_000_000, "are free"))
    volumes = forms.kidney_volumes(part="calibration")
    config = request(tmp_path, "3d-unet-99", KITS, volumes, 20)
    with pytest.raises(HarnessError, match="the model takes about 26 MB, and 20 MB are free"):
        quantize.main(config)
    assert [path.name for path in tmp_path.iterdir()] == ["quantize.json"]


def test_only_values_that_are_needed_are_in_memory(tmp_path: Path) -> None:
    layers, side = 30, 512
    onnx.save(deep_model(layers, side), tmp_path / "deep.onnx")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path), str(side)],
        env=lab.harness_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    value = 8 * side * side * 4
    peak = 1024 * int(done.stdout.split()[-1])
    assert peak < layers / 2 * value, "by default it is all values at once, and then twice that"


@pytest.mark.parametrize(("most", "calls"), [(1, 9), (3, 2), (3, 3), (3, 7), (4, 100), (5, 1000)])
def test_the_calls_that_are_taken_are_evenly_spread_and_few_in_memory(
    most: int, calls: int
) -> None:
    model = described(KITS)
    listener = calibration.Listener(calibration.Zeros(model.graphs()[0], ["output"]), most, False)
    for _ in range(2):  # the second sample begins anew
        for number in range(calls):
            listener.predict({"input": np.array([number])})
            assert len(listener._kept) <= 2 * most
        taken = [int(call["input"][0]) for call in listener.taken()]
        assert len(taken) == min(most, calls)
        assert taken == sorted(set(taken))
        # Each of as many equal parts as there are calls has one, give or take a part of a step.
        for number, found in enumerate(taken):
            middle = (number + 0.5) * calls / len(taken)
            assert abs(found + 0.5 - middle) <= calls / len(taken)


def test_windows_of_all_cases_are_used_and_no_more_than_asked_for(tmp_path: Path) -> None:
    volumes = forms.kidney_volumes(part="calibration")
    benchmark = benchmarks.create("3d-unet-99", volumes, described(KITS))
    windows = benchmark.costs
    assert windows is not None
    found = list(calibration.calls_of(benchmark, described(KITS), 60))
    assert [len(calls) for calls in found] == [min(3, count) for count in windows]
    assert {len(calls) for calls in found} > {3}
    shape = (1, 1, 32, 32, 32)
    assert all(call["input"].shape == shape for calls in found for call in calls)


def test_a_window_slides_over_volumes_in_int8_as_in_float(tmp_path: Path) -> None:
    volumes = forms.kidney_volumes(part="calibration")
    assert quantize.main(request(tmp_path, "3d-unet-99", KITS, volumes, 40)) == 0
    facts = records.read_json(tmp_path / "model.json")
    assert facts["bytes"] < records.read_json(KITS / "model.json")["bytes"] / 2
    assert facts["weight_transformations"].endswith(" calls for 20 calibration samples")
    judged = forms.kidney_volumes(*forms.SMALL_KIDNEYS)
    exact, exact_labels = answers("3d-unet-99", KITS, judged, "float32")
    coarse, coarse_labels = answers("3d-unet-99", tmp_path, judged, "int8")
    assert coarse == pytest.approx(exact, abs=0.005)
    assert alike(coarse_labels, exact_labels) > 0.99


def test_norms_of_single_volumes_do_not_spoil_int8(tmp_path: Path) -> None:
    # Made for calibration all of them; how exact it is on what is judged, a whole run tells.
    heads = forms.brain_volumes(8, part="calibration")
    assert quantize.main(request(tmp_path, "3d-unet-brats-99", BRATS, heads, 4)) == 0
    facts = records.read_json(tmp_path / "model.json")
    assert facts["weight_transformations"].endswith(", 4 calibration samples")
    exact, exact_labels = answers("3d-unet-brats-99", BRATS, heads, "float32")
    coarse, coarse_labels = answers("3d-unet-brats-99", tmp_path, heads, "int8")
    assert coarse == pytest.approx(exact, abs=0.01)
    assert alike(coarse_labels, exact_labels) > 0.99
