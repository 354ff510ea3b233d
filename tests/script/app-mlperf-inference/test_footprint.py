"""A model is in memory once: weights are mapped, and what was read of them is given back."""

from __future__ import annotations

import mmap
import os
import sys
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import benchmark_lab as lab
from mlperf.catalog import OFFLINE
from mlperf.harness import records
from mlperf.harness.backends import footprint
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.onnx_file import LEAST_BYTES, NotOnnxError, graph_alone, weight_beside
from mlperf.harness.backends.onnx_file import ROOT as ROOT_FOLDER
from mlperf.harness.errors import HarnessError
from mlperf.harness.session import session
from mlperf.harness.settings import (
    PERFORMANCE,
    GraphSpec,
    ModelSpec,
    Overrides,
    RunSettings,
    SessionSettings,
    Targets,
    WorkerShape,
)
from support import ROOT, run, wait_for

OUTPUTS = ("ArgMax:0", "softmax_tensor:0")
LAYERS = 6
PEAK_MEMORY = ROOT / "benchmarks" / "peak_memory.py"


def shipped() -> Path:
    return Path(str(lab.model()["path"]))


def resident_bytes(path: Path) -> int:
    """How much of a mapped file is memory of this process."""
    lines = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines()
    places = [n for n, line in enumerate(lines) if line.endswith(str(path))]
    told = [next(line for line in lines[n:] if line.startswith("Rss:")) for n in places]
    return 1024 * sum(int(size.split()[1]) for size in told)


def test_a_graph_alone_says_where_its_weights_lie() -> None:
    whole = shipped().read_bytes()
    alone = graph_alone(shipped())
    assert len(alone) < len(whole) / 4
    found, wanted = onnx.load_from_string(alone), onnx.load_from_string(whole)
    for tensor, original in zip(found.graph.initializer, wanted.graph.initializer, strict=True):
        told = {entry.key: entry.value for entry in tensor.external_data}
        if told:
            assert tensor.data_location == TensorProto.EXTERNAL
            assert ROOT_FOLDER / told.pop("location") == shipped().resolve()
            start, size = int(told["offset"]), int(told["length"])
            assert size >= LEAST_BYTES
            assert whole[start : start + size] == original.raw_data
            tensor.raw_data = original.raw_data
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    assert found == wanted


@given(st.data())
def test_a_damaged_file_is_no_model_and_no_crash(data: st.DataObject) -> None:
    path = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") / f"cut-{os.getpid()}.onnx"
    whole = shipped().read_bytes()
    size = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:size])
    try:
        # What ends between two fields is whole as far as it goes.
        assert len(graph_alone(path)) <= size
    except NotOnnxError:
        pass
    finally:
        path.unlink()


def opened(name: str, path: Path) -> list[Any]:
    """The predictors of a backend for the shipped model at this place."""
    graph = records.decode(ModelSpec, lab.model(path=str(path))).graphs()[0]
    return backends.create(name, "cpu", "float32").open(graph, OUTPUTS, 1, 1)


def test_onnx_runtime_opens_the_graph_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[type] = []
    real = onnxruntime.InferenceSession

    def listen(model: str | bytes, *rest: Any, **more: Any) -> Any:
        kinds.append(type(model))
        return real(model, *rest, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", listen)
    opened("onnxruntime", shipped())
    assert kinds == [bytes]


def test_openvino_maps_the_weights(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = tmp_path / "a model.onnx"
    path.write_bytes(shipped().read_bytes())
    before = Path.cwd()
    predictors = opened("openvino", path)
    assert str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert Path.cwd() == before
    assert predictors


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_model_that_keeps_its_weights_elsewhere_is_opened_too(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name)
    path = tmp_path / "model.onnx"
    where = {"save_as_external_data": True, "location": "weights.bin"}
    onnx.save_model(onnx.load(shipped()), path, size_threshold=LEAST_BYTES, **where)
    images = {"input_tensor:0": np.load(lab.arrays() / "samples.npy")[:8]}
    (there,), (here,) = opened(name, path), opened(name, shipped())
    np.testing.assert_array_equal(there.predict(images)[1], here.predict(images)[1])


def test_pytorch_takes_weights_out_of_the_file_and_answers_the_same() -> None:
    pytest.importorskip("onnx2torch")
    images = {"input_tensor:0": np.load(lab.arrays() / "samples.npy")[:8]}
    (module,), (runtime,) = opened("pytorch", shipped()), opened("onnxruntime", shipped())
    found, wanted = module.predict(images)[1], runtime.predict(images)[1]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_weight_is_read_where_the_graph_says_that_it_lies() -> None:
    alone = onnx.load_from_string(graph_alone(shipped()))
    whole = {t.name: numpy_helper.to_array(t) for t in onnx.load(shipped()).graph.initializer}
    beside = [tensor for tensor in alone.graph.initializer if tensor.external_data]
    assert beside
    for tensor in beside:
        found = weight_beside(tensor, ROOT_FOLDER)
        np.testing.assert_array_equal(found, whole[tensor.name])


def test_pages_of_mapped_files_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"\1" * (8 << 20))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert data[:].count(b"\1") == 8 << 20
        assert resident_bytes(path) == 8 << 20
        footprint.give_back({"/another/file"})
        assert resident_bytes(path) == 8 << 20
        footprint.settle([GraphSpec("main", str(path), "", (), ())])
        assert resident_bytes(path) < 1 << 20
        assert data[:].count(b"\1") == 8 << 20


def test_pages_are_spared_while_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"\1" * (8 << 20))
    before = footprint.mapped([str(path)])
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        after = footprint.mapped([str(path)])
        assert len(after - before) == 1
        with footprint.MappedPages(data, before, after).sparing():
            assert data[:].count(b"\1") == 8 << 20
            wait_for(lambda: resident_bytes(path) < 1 << 20)
        with footprint.MappedPages(data, after, after).sparing():
            assert data[:].count(b"\1") == 8 << 20
        assert resident_bytes(path) == 8 << 20


def test_pages_that_somebody_may_have_written_to_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(1 << 16))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as data:
        data[:4] = b"mine"
        footprint.give_back({str(path)})
        assert data[:4] == b"mine"


def large_model(path: Path) -> ModelSpec:
    """The signature of the shipped model with layers of 22 MB."""
    spec = records.decode(ModelSpec, lab.model(path=str(path)))
    image = spec.inputs[0].shape
    wide = int(np.prod(image))
    sizes = [wide] * (LAYERS + 1) + [spec.outputs[1].shape[0]]
    names = ["flat", *(f"hidden{n}" for n in range(LAYERS)), "scores"]
    nodes = [
        helper.make_node("Flatten", [spec.inputs[0].name], ["flat"]),
        *(
            helper.make_node("MatMul", [before, f"weights{n}"], [after])
            for n, (before, after) in enumerate(pairwise(names))
        ),
        helper.make_node("Softmax", ["scores"], [OUTPUTS[1]]),
        helper.make_node("ArgMax", [OUTPUTS[1]], [OUTPUTS[0]], axis=1, keepdims=0),
    ]
    weights = [
        numpy_helper.from_array(np.full(shape, 1 / wide, dtype=np.float32), f"weights{n}")
        for n, shape in enumerate(pairwise(sizes))
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "large",
        [tensor(spec.inputs[0].name, TensorProto.FLOAT, ["N", *image])],
        [
            tensor(OUTPUTS[0], TensorProto.INT64, ["N"]),
            tensor(OUTPUTS[1], TensorProto.FLOAT, ["N", 11]),
        ],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return replace(spec, options={"label_offset": 1})


@pytest.mark.parametrize(("name", "beyond_mb"), [("onnxruntime", 80), ("openvino", 180)])
def test_a_run_takes_little_more_than_model_and_samples(
    name: str, beyond_mb: int, tmp_path: Path
) -> None:
    pytest.importorskip(name)
    model = large_model(tmp_path / "large.onnx")
    settings = RunSettings(
        benchmark="resnet50",
        backend=name,
        device="cpu",
        model=model,
        dataset=str(lab.arrays()),
        scenario=OFFLINE,
        mode=PERFORMANCE,
        style="test",
        shape=WorkerShape(1, 1, 4),
        targets=Targets(qps=50, min_duration_ms=100),
        overrides=Overrides(min_query_count=1),
        folder=str(tmp_path),
    )
    records.write(tmp_path / "run.json", settings)
    out = tmp_path / "peak"
    command = lab.harness_command("run", tmp_path / "run.json")
    run([sys.executable, str(PEAK_MEMORY), str(out), *command], env=lab.harness_environment()).ok()
    needed = Path(model.path).stat().st_size + (lab.arrays() / "samples.npy").stat().st_size
    assert int(out.read_text(encoding="ascii")) < needed + 1_000_000 * beyond_mb


def test_nothing_is_given_back_where_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "MAPS", tmp_path / "missing")
    footprint.give_back({"/any"})


def test_a_model_is_checked_without_reading_it_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(32 << 20)
    asked = lab.settings(tmp_path, model=lab.model(path=str(path)))
    tracemalloc.start()
    try:
        with pytest.raises(HarnessError, match="has sha256"):
            session.MeasurementSession(records.decode(SessionSettings, asked))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
