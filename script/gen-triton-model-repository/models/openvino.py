"""OpenVINO in Triton's Python backend."""

from __future__ import annotations

from typing import Any

import openvino
from openvino import properties
from served import Feeds, Served

COMPUTES = {"float32": "f32", "bfloat16": "bf16", "int8": "bf16"}


class TritonPythonModel(Served):
    """A compiled model and one request of it for each instance."""

    def open(self) -> None:
        core = openvino.Core()
        model = core.read_model(self.file)
        precision = self.parameters.get("PRECISION", "float32")
        wanted = COMPUTES[precision]
        if precision == "int8":
            self._sign(model)
        if wanted == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            wanted = "f32"
        config = {
            properties.hint.inference_precision: wanted,
            properties.num_streams: 1,
            properties.hint.enable_cpu_pinning: False,
        }
        if self.threads:
            config[properties.inference_num_threads] = self.threads
        compiled = core.compile_model(model, "CPU", config)
        self.request = compiled.create_infer_request()
        self.ports = [compiled.output(name) for name, _, _ in self.outputs]

    def _sign(self, model: Any) -> None:
        """As the harness computes it, where the helper for that was put beside."""
        try:
            from int8_signed import sign
        except ImportError:
            return
        sign(model)

    def compute(self, feeds: Feeds) -> list[Any]:
        found = self.request.infer(feeds, share_inputs=True)
        return [found[port] for port in self.ports]
