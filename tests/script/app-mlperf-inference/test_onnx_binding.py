"""ONNX Runtime as it is on a GPU, with the host as the device; float16; what CUDA is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cuda_lab import library
from mlperf import catalog
from mlperf.harness import records
from mlperf.harness.backends import cuda_driver, onnx_binding, onnx_runtime
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.onnx_binding import BoundPredictor
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import GraphSpec, ModelSpec, Setup

RESNET, BERT = "get-ml-model-resnet50", "get-ml-model-bert-large-squad"


def tiny(folder: str) -> GraphSpec:
    return records.decode(ModelSpec, forms.model(lab.SCRIPT / folder / "tiny")).graphs()[0]


def feeds(graph: GraphSpec, batch: int, length: int = 16) -> dict[str, Any]:
    random = np.random.default_rng(batch)
    if len(graph.inputs) == 1:
        (image,) = graph.inputs
        return {image.name: random.uniform(-90, 90, (batch, *image.shape)).astype(np.float32)}
    ids, mask, segments = (tensor.name for tensor in graph.inputs)
    shape = (batch, length)
    return {
        ids: random.integers(1, 60, shape),
        mask: np.ones(shape, np.int64),
        segments: np.zeros(shape, np.int64),
    }


class RecordingSession:
    """A session on the CPU that keeps which graph was requested, and where tensors lay then."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.fails = False

    def io_binding(self) -> Any:
        return self._session.io_binding()

    def run_with_iobinding(self, binding: Any, options: Any) -> None:
        number = options.get_run_config_entry(onnx_binding.GRAPH)
        if self.fails and number != "-1":
            raise RuntimeError("cannot capture\nread more")
        self._session.run_with_iobinding(binding, options)
        places = [value.data_ptr() for value in binding.get_outputs()]
        self.calls.append((number, tuple(places)))


def opened(graph: GraphSpec, graphs: bool) -> tuple[Any, RecordingSession, BoundPredictor, Any]:
    """A backend, its session, a bound predictor, and a plain one beside it."""
    backend: Any = backends.create("onnxruntime", "cpu", "float32")
    backend.prepares = graphs
    outputs = [tensor.name for tensor in graph.outputs]
    session = RecordingSession(backend._session(graph.path, 1))
    (bound,) = backend.bound([session], outputs, "cpu")
    (plain,) = backend.open(graph, outputs, 1, 1)
    return backend, session, bound, plain


def same(answers: Any, expected: Any) -> None:
    for one, other in zip(answers, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("folder", [RESNET, BERT])
def test_bound_tensors_give_the_same_answers_for_all_shapes(folder: str) -> None:
    graph = tiny(folder)
    _, session, bound, plain = opened(graph, graphs=False)
    for batch, length in ((4, 16), (4, 16), (2, 24), (1, 8), (4, 16)):
        batch_feeds = feeds(graph, batch, length)
        same(bound.predict(batch_feeds), plain.predict(batch_feeds))
    assert {number for number, _ in session.calls} == {"-1"}


def test_what_is_captured_keeps_its_addresses_and_shorter_batches_are_filled_up() -> None:
    graph = tiny(BERT)
    backend, session, bound, plain = opened(graph, graphs=True)
    with backend.preparing():
        bound.predict(feeds(graph, 8))
        bound.predict(feeds(graph, 4, 24))
    session.calls.clear()
    for batch, length, number in (
        (8, 16, "1"),
        (5, 16, "1"),
        (4, 24, "2"),
        (3, 16, "-1"),
        (8, 16, "1"),
    ):
        batch_feeds = feeds(graph, batch, length)
        answers = [np.array(answer) for answer in bound.predict(batch_feeds)]
        same(answers, plain.predict(batch_feeds))
        assert session.calls[-1][0] == number
    assert len({places for number, places in session.calls if number == "1"}) == 1
    assert "without graphs" not in backend.computed_by()


def test_nothing_is_captured_while_a_run_is_measured() -> None:
    graph = tiny(RESNET)
    _, session, bound, _ = opened(graph, graphs=True)
    bound.predict(feeds(graph, 2))
    assert [number for number, _ in session.calls] == ["-1"]


def test_a_failed_capture_is_a_note_and_the_batch_is_answered() -> None:
    graph = tiny(RESNET)
    backend, session, bound, plain = opened(graph, graphs=True)
    session.fails = True
    with backend.preparing():
        same(bound.predict(feeds(graph, 2)), plain.predict(feeds(graph, 2)))
    assert backend.computed_by() == {"without graphs": "cannot capture"}
    same(bound.predict(feeds(graph, 2)), plain.predict(feeds(graph, 2)))


@pytest.mark.parametrize("folder", [RESNET, BERT])
def test_a_model_in_float16_answers_nearly_the_same(folder: str, tmp_path: Path) -> None:
    graph = tiny(folder)
    outputs = [tensor.name for tensor in graph.outputs]
    backend = onnx_runtime.OnnxRuntime(Setup("cpu", "float16", {}))
    built = backend.build(graph, tmp_path)
    assert built.path != graph.path
    (half,) = backend.open(built, outputs, 1, 1)
    (full,) = backends.create("onnxruntime", "cpu", "float32").open(graph, outputs, 1, 1)
    batch = feeds(graph, 8)
    for one, other in zip(half.predict(batch), full.predict(batch), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype == np.float32:
            assert np.abs(one - other).max() <= 0.01 * np.abs(other).max()


def test_float16_keeps_the_accuracy_of_the_tiny_resnet50(tmp_path: Path) -> None:
    graph = records.decode(ModelSpec, lab.model()).graphs()[0]
    backend = onnx_runtime.OnnxRuntime(Setup("cpu", "float16", {}))
    samples = {graph.inputs[0].name: np.load(lab.arrays() / "samples.npy")}
    labels = [
        each.open(model, ("ArgMax:0",), 1, 1)[0].predict(samples)[0]
        for each, model in (
            (backend, backend.build(graph, tmp_path)),
            (backends.create("onnxruntime", "cpu", "float32"), graph),
        )
    ]
    assert (labels[0] == labels[1]).mean() >= 0.99


def test_float16_is_for_a_gpu_and_written_before_it_is_opened() -> None:
    spec = catalog.backend("onnxruntime")
    assert spec.computes("cuda", "float16")
    assert not spec.computes("cpu", "float16")
    assert backends.builds("onnxruntime", "float16")
    assert not backends.builds("onnxruntime", "float32")
    assert {package.package for package in spec.packages if package.device == "cuda"} == {
        "onnxruntime-gpu",
        "onnx",
    }


class Cuda:
    """onnxruntime-gpu as its sessions are opened; with ``refuses`` it has nodes on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refuses: bool = False, falls: bool = False):
        self.requested: list[Any] = []
        real = onnxruntime.InferenceSession

        def opens(model: Any, options: Any, providers: Any) -> Any:
            ((name, switches),) = providers
            self.requested.append(switches)
            if refuses and switches["enable_cuda_graph"] == "1":
                raise RuntimeError("This session cannot use the graph capture feature")
            session = real(model, options, providers=["CPUExecutionProvider"])
            if not falls:
                session.get_providers = lambda: [name, "CPUExecutionProvider"]
            return session

        monkeypatch.setattr(onnxruntime, "InferenceSession", opens)
        known = ["CUDAExecutionProvider", "CPUExecutionProvider"]
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: known)
        monkeypatch.setattr(onnx_runtime, "load_cuda", lambda: None)


def cuda(**options: bool | str) -> Any:
    return backends.create("onnxruntime", "cuda", "float32", options)


@pytest.mark.parametrize("tf32", [False, True])
def test_a_gpu_has_sessions_of_its_own_and_exact_products(
    tf32: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Cuda(monkeypatch)
    backend, graph = cuda(tf32=tf32), tiny(RESNET)
    team = backend.open(graph, [tensor.name for tensor in graph.outputs], 2, 1)
    assert len({id(one._session) for one in team}) == 2
    assert recorded.requested == 2 * [{"enable_cuda_graph": "0", "use_tf32": str(int(tf32))}]
    assert backend.computed_by() == ({"float32 products": "TF32"} if tf32 else {})
    assert (backend.layouts(16), backend.stream_threads(16)) == ([(1, 1), (2, 1)], (1,))
    assert not backend.prepares


def test_several_gpus_have_sessions_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Cuda(monkeypatch)
    monkeypatch.setattr(cuda_driver, "gpu_names", lambda: ["H200"] * 3)
    backend, graph = cuda(devices="2,1"), tiny(RESNET)
    team = backend.open(graph, ["ArgMax:0"], 3, 1)
    assert [one._number for one in team] == [2, 1, 2]
    assert [switches["device_id"] for switches in recorded.requested] == ["2", "1", "2"]
    assert [backend.place_of(n) for n in range(3)] == ["cuda:2", "cuda:1", "cuda:2"]
    assert backend.layouts(16) == [(2, 1), (4, 1)]
    assert cuda(devices="all").layouts(16) == [(3, 1), (6, 1)]
    with pytest.raises(HarnessError, match="3 is no GPU here; there are 0 to 2"):
        cuda(devices="0,3")


def test_gpus_are_listed_by_the_driver(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="the GPUs cannot be listed"):
        cuda_driver.gpu_names("libnone.so.1")
    functions = {
        "int cuInit(unsigned flags)": "return 0;",
        "int cuDeviceGetCount(int *count)": "*count = 2; return 0;",
        "int cuDeviceGet(int *device, int number)": "*device = number; return 0;",
        "int cuDeviceGetName(char *name, int size, int device)": (
            "name[0] = 'A' + device; name[1] = 0; return 0;"
        ),
    }
    assert cuda_driver.gpu_names(str(library(tmp_path / "libcuda.so.1", functions))) == ["A", "B"]
    functions["int cuInit(unsigned flags)"] = "return 100;"
    other = library(tmp_path / "none/libcuda.so.1", functions)
    with pytest.raises(HarnessError, match="answers with 100"):
        cuda_driver.gpu_names(str(other))


def test_a_model_that_cannot_be_captured_goes_without_graphs_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = Cuda(monkeypatch, refuses=True)
    backend, graph = cuda(graphs=True), tiny(RESNET)
    assert backend.prepares
    backend.open(graph, [tensor.name for tensor in graph.outputs], 2, 1)
    assert [switches["enable_cuda_graph"] for switches in recorded.requested][-2:] == ["0", "0"]
    assert "cannot use the graph capture feature" in backend.computed_by()["without graphs"]


def test_the_cpu_in_place_of_the_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Cuda(monkeypatch, falls=True)
    with pytest.raises(HarnessError, match="but the session uses CPUExecutionProvider"):
        cuda(graphs=True).open(tiny(RESNET), ["ArgMax:0"], 1, 1)
