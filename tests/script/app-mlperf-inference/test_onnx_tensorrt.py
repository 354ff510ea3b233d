"""ONNX Runtime's TensorRT provider on a stand-in: options of its sessions, and their engines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends import cuda_driver, onnx_runtime, onnx_tensorrt
from mlperf.harness.backends import registry as backends
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import GraphSpec, ModelSpec


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Every session that is opened, by its file and providers; the CPU computes."""
    opened: list[tuple[str, Any]] = []
    real = onnxruntime.InferenceSession

    def opens(path: str, options: Any, providers: Any) -> Any:
        opened.append((path, providers))
        (name, switches), *_ = providers
        Path(switches["trt_engine_cache_path"], "engine").write_text(name)
        session = real(path, options, providers=["CPUExecutionProvider"])
        session.get_providers = lambda: [each for each, _ in providers]
        return session

    known = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "InferenceSession", opens)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: known)
    monkeypatch.setattr(onnx_runtime, "load_cuda", lambda: None)
    monkeypatch.setattr(onnx_tensorrt, "tensorrt_version", lambda: "10.13.3")
    return opened


def tiny(folder: str) -> GraphSpec:
    return records.decode(ModelSpec, forms.model(lab.SCRIPT / folder / "tiny")).graphs()[0]


def backend(precision: str = "float32", **options: Any) -> Any:
    return backends.create("onnxruntime-tensorrt", "cuda", precision, options)


def test_engines_are_written_once_with_a_link_to_the_model(
    sessions: list[tuple[str, Any]], tmp_path: Path
) -> None:
    graph = tiny("get-ml-model-bert-large-squad")
    made = backend("float16", batch=8, lengths="1:16:24").build(graph, tmp_path)
    assert os.path.realpath(made.path) == os.path.realpath(graph.path)
    assert (tmp_path / "engine").is_file()
    backend("float16", batch=8, lengths="1:16:24").open(made, ["output_start_logits"], 2, 1)
    assert len(sessions) == 3
    for path, ((name, options), (second, _)) in sessions:
        assert path == os.path.realpath(graph.path)
        assert (name, second) == ("TensorrtExecutionProvider", "CUDAExecutionProvider")
        assert options["trt_engine_cache_path"] == str(tmp_path)
        assert options["trt_fp16_enable"] == "1"
        shapes = [options[f"trt_profile_{size}_shapes"] for size in ("min", "opt", "max")]
        for text, shape in zip(shapes, ("1x1", "8x16", "8x24"), strict=True):
            assert {part.partition(":")[2] for part in text.split(",")} == {shape}
            assert len(text.split(",")) == len(graph.inputs)


def test_an_engine_goes_with_its_versions_and_its_gpu(
    sessions: list[tuple[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_driver, "gpu_names", lambda: ["NVIDIA L4", "NVIDIA H200"])
    own = backend(devices="1")
    made = own.build(tiny("get-ml-model-resnet50"), tmp_path)
    assert sessions[0][1][0][1]["device_id"] == "1"
    assert own.versions()["tensorrt"] == "10.13.3"
    assert own.device_facts() == {"gpu": "NVIDIA H200"}
    assert own.computed_by() == {"float32 products": "TF32, where TensorRT chooses it"}
    assert backends.builds("onnxruntime-tensorrt", "float32")
    assert made.sha256 == tiny("get-ml-model-resnet50").sha256


def test_cuda_in_place_of_tensorrt_is_an_error(
    sessions: list[tuple[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = onnxruntime.InferenceSession

    def falls(*words: Any, **named: Any) -> Any:
        session = opens(*words, **named)
        session.get_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
        return session

    monkeypatch.setattr(onnxruntime, "InferenceSession", falls)
    with pytest.raises(HarnessError, match="for TensorrtExecutionProvider, but the session uses"):
        backend().build(tiny("get-ml-model-resnet50"), tmp_path)


def test_without_its_library_nothing_is_opened() -> None:
    with pytest.raises(HarnessError, match="TensorRT cannot be loaded: none of libnone"):
        onnx_tensorrt.tensorrt_version(("libnone.so.1",))
