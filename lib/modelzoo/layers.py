"""Layers of PyTorch that the tiny networks for images have in common."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Weights = npt.NDArray[np.float32]


class ConvNorm(nn.Module):
    """A convolution without bias and its batch normalisation: one convolution when exported."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, dilation: int = 1
    ) -> None:
        super().__init__()
        padding = kernel // 2 * dilation
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""
        result: Tensor = self.norm(self.conv(x))
        return result

    def folded(self) -> tuple[Weights, Weights]:
        """Kernel and bias of the one convolution that computes the same in inference."""
        norm = self.norm
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        kernel = self.conv.weight * scale[:, None, None, None]
        bias = norm.bias - norm.running_mean * scale
        return kernel.detach().numpy().copy(), bias.detach().numpy().copy()
