"""A TorchScript file of PyTorch in Triton's Python backend."""

from __future__ import annotations

from typing import Any

from served import BatchingModel, Feeds


class TritonPythonModel(BatchingModel):
    """A module per instance; its arguments are the inputs in their order."""

    def open(self) -> None:
        import torch

        self.torch = torch
        if self.threads:
            torch.set_num_threads(self.threads)
        self.device = "cuda" if self.parameters["DEVICE"] == "gpu" else "cpu"
        self.module = torch.jit.load(self.file, map_location=self.device).eval()

    def compute(self, feeds: Feeds) -> list[Any]:
        # The memory of a request is read-only; no module of a benchmark writes to its inputs.
        tensors = [self.torch.from_numpy(feeds[name].copy()) for name, _, _ in self.inputs]
        with self.torch.inference_mode():
            outputs = self.module(*(tensor.to(self.device) for tensor in tensors))
        outputs = [outputs] if isinstance(outputs, self.torch.Tensor) else list(outputs)
        return [output.cpu().numpy() for output in outputs]
