"""OpenVINO in Triton's Python backend."""

from __future__ import annotations

import importlib
from typing import Any

import openvino
from openvino import properties
from served import BatchingModel, Feeds

COMPUTES = {"float32": "f32", "bfloat16": "bf16", "int8": "bf16"}


class TritonPythonModel(BatchingModel):
    """A compiled model and a request of it for every instance.

    Single samples have one of their own: what depends on the shape is decided while it is compiled.
    """

    def open(self) -> None:
        core = openvino.Core()
        model = core.read_model(self.file)
        precision = self.parameters.get("PRECISION", "float32")
        wanted = COMPUTES[precision]
        signing, fixing = _beside("int8_signed"), _beside("fixed_batch")
        if signing and precision == "int8":
            signing.sign(model)
        if wanted == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            wanted = "f32"
        config = {
            properties.hint.inference_precision: wanted,
            properties.num_streams: 1,
            properties.hint.enable_cpu_pinning: False,
        }
        if self.threads:
            config[properties.inference_num_threads] = self.threads
        self.batch = self.single = self._request(core.compile_model(model, "CPU", config))
        if fixing and self.batched and fixing.fix(model, 1):
            self.single = self._request(core.compile_model(model, "CPU", config))

    def _request(self, compiled: Any) -> tuple[Any, list[Any]]:
        ports = [compiled.output(name) for name, _, _ in self.outputs]
        return compiled.create_infer_request(), ports

    def compute(self, feeds: Feeds) -> list[Any]:
        rows = len(next(iter(feeds.values())))
        request, ports = self.single if rows == 1 else self.batch
        outputs = request.infer(feeds, share_inputs=True)
        return [outputs[port] for port in ports]


def _beside(name: str) -> Any:
    """Return a helper of the harness, if the repository has it; or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
