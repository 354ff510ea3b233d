"""ONNX Runtime in Triton's Python backend."""

import onnxruntime
from served import Served

PROVIDERS = {"cpu": "CPUExecutionProvider", "gpu": "CUDAExecutionProvider"}


class TritonPythonModel(Served):
    """A session for each instance."""

    def open(self):
        """Load the model; raises RuntimeError where ONNX Runtime lacks the device's provider."""
        options = onnxruntime.SessionOptions()
        options.inter_op_num_threads = 1
        if self.threads:
            options.intra_op_num_threads = self.threads
        provider = PROVIDERS[self.parameters["DEVICE"]]
        session = onnxruntime.InferenceSession(self.file, options, providers=[provider])
        if session.get_providers()[:1] != [provider]:
            raise RuntimeError(f"this onnxruntime cannot use {provider}")
        names = [name for name, _, _ in self.outputs]
        self.compute = lambda feeds: session.run(names, feeds)
