"""A model compiled for AWS Neuron in Triton's Python backend; ``cpu`` runs a TorchScript file.

inf1 shares a batch out to the cores of the instance (DataParallel of torch-neuron), inf2 and trn1
load the model as it is. The calls into the SDK are not verified on hardware.
"""

from __future__ import annotations

from typing import Any

from served import BatchingModel, Feeds


class TritonPythonModel(BatchingModel):
    """The cores are claimed before torch and the SDK are imported."""

    def open(self) -> None:
        import torch

        if self.threads:
            torch.set_num_threads(self.threads)
        self.torch = torch
        device = self.parameters["DEVICE"]
        if device == "inf1":
            import torch.neuron
        elif device != "cpu":
            import torch_neuronx  # noqa: F401 - registers the operators of compiled models
        model = torch.jit.load(self.file)
        if device == "inf1":
            # Within the claimed cores, numbers begin at 0.
            groups = list(range(len(self.cores or ())))
            model = torch.neuron.DataParallel(model, device_ids=groups, dim=0)
            model.num_workers = len(groups) * int(self.parameters["NUM_THREADS_PER_CORE"])
        self.model = model

    def compute(self, feeds: Feeds) -> list[Any]:
        tensors = [self.torch.from_numpy(feeds[name].copy()) for name, _, _ in self.inputs]
        with self.torch.no_grad():
            outputs = self.model(*tensors)
        outputs = [outputs] if isinstance(outputs, self.torch.Tensor) else list(outputs)
        return [output.numpy() for output in outputs]
