"""ONNX Runtime in Triton's Python backend."""

from __future__ import annotations

from typing import Any

import onnxruntime
from served import BatchingModel, Feeds

PROVIDERS = {"cpu": "CPUExecutionProvider", "gpu": "CUDAExecutionProvider"}


class TritonPythonModel(BatchingModel):
    """A session per instance."""

    def open(self) -> None:
        """Load the model; raises RuntimeError where ONNX Runtime lacks the device's provider."""
        options = onnxruntime.SessionOptions()
        options.inter_op_num_threads = 1
        if self.threads:
            options.intra_op_num_threads = self.threads
        provider = PROVIDERS[self.parameters["DEVICE"]]
        session = onnxruntime.InferenceSession(self.file, options, providers=[provider])
        if session.get_providers()[:1] != [provider]:
            raise RuntimeError(f"this onnxruntime cannot use {provider}")
        self.session = session
        self.names = [name for name, _, _ in self.outputs]

    def compute(self, feeds: Feeds) -> list[Any]:
        return list(self.session.run(self.names, feeds))
