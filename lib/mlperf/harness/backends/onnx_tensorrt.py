"""ONNX Runtime's TensorRT provider, with engines that it keeps itself. Not verified on hardware."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime

from ..engines import profiles
from ..engines.profiles import OpenInput, Span
from ..errors import HarnessError
from ..settings import GraphSpec, Setup
from . import cuda_driver
from .onnx_runtime import OnnxRuntime, session_options

LIBRARIES = tuple(f"libnvinfer.so.{major}" for major in (11, 10, 8))
FLOAT16, FLOAT32 = "float16", "float32"
# From TensorRT 10 on a version has two digits more in its number.
LONG_NUMBER = 100_000
PROFILES = ("trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes")


class OnnxTensorRt(OnnxRuntime):
    """The ``onnxruntime-tensorrt`` backend: TensorRT computes the nodes that it knows.

    The folder of a built model holds a link to it, and its engines.
    """

    provider = "TensorrtExecutionProvider"

    def __init__(self, setup: Setup) -> None:
        self._version = tensorrt_version()
        super().__init__(setup)
        self.largest_batch = int(setup.options["batch"])

    def build(self, graph: GraphSpec, folder: Path) -> GraphSpec:
        """See ``base.Backend``: opening a session writes its engines, which later ones open."""
        link = folder / "model.onnx"
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.realpath(graph.path))
        built = replace(graph, path=str(link))
        self.open(built, [tensor.name for tensor in graph.outputs], 1, 1)
        return built

    def computed_by(self) -> dict[str, str]:
        """See ``base.Backend``."""
        tf32 = {"float32 products": "TF32, where TensorRT chooses it"}
        return tf32 if self.setup.precision == FLOAT32 else {}

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {**super().versions(), "tensorrt": self._version}

    def device_facts(self) -> dict[str, str]:
        """See ``base.Backend``: what engines are for."""
        return {"gpu": cuda_driver.gpu_names()[self._numbers[0]]}

    def _lean(self, path: str, threads: int, number: int) -> Any:
        """A session by its whole file: TensorRT reads the weights that the file names."""
        providers = [self._tensorrt(Path(path), number), *self._providers(number)]
        real = os.path.realpath(path)
        return onnxruntime.InferenceSession(real, session_options(threads), providers=providers)

    def _tensorrt(self, path: Path, number: int) -> tuple[str, dict[str, str]]:
        """Return the provider with its options; engines are in the folder of ``path``."""
        folder = str(path.parent)
        return self.provider, {
            "device_id": str(number),
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": folder,
            "trt_timing_cache_enable": "1",
            "trt_timing_cache_path": folder,
            "trt_fp16_enable": str(int(self.setup.precision == FLOAT16)),
            **self._shapes(path),
        }

    def _shapes(self, path: Path) -> dict[str, str]:
        """Return the shapes that engines are built for; empty where no size is open."""
        batch = Span(1, self.largest_batch, self.largest_batch)
        lengths = profiles.lengths(str(self.setup.options["lengths"]))
        shapes = profiles.of_graph(open_inputs(path), batch, lengths)
        texts = [
            ",".join(f"{name}:{'x'.join(map(str, three[n]))}" for name, three in shapes.items())
            for n in range(len(PROFILES))
        ]
        return dict(zip(PROFILES, texts, strict=True)) if shapes else {}


def open_inputs(path: Path) -> list[OpenInput]:
    """Return the inputs of a graph, -1 where a size is open."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [(one.name, one.type.tensor_type.shape.dim) for one in graph.input]
    return [
        OpenInput(
            name,
            tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims),
            tuple(str(dim.dim_param) for dim in dims),
        )
        for name, dims in inputs
        if name not in weights
    ]


def tensorrt_version(libraries: tuple[str, ...] = LIBRARIES) -> str:
    """Load TensorRT and return its version; raise HarnessError where it is not there."""
    for name in libraries:
        with suppress(OSError):
            number = int(ctypes.CDLL(name, ctypes.RTLD_GLOBAL).getInferLibVersion())
            major, rest = divmod(number, 10_000 if number >= LONG_NUMBER else 1000)
            return f"{major}.{rest // 100}.{rest % 100}"
    text = f"TensorRT cannot be loaded: none of {', '.join(libraries)} is found"
    raise HarnessError(text, "`cm run script --tags=get,tensorrt`")
