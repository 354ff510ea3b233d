"""The tiny 3-D U-Net for brains: built as the full one is, with three levels instead of six.

Four images in, scores of four classes out. As in the full one, blocks are convolution, instance
normalisation and leaky rectifier, a convolution with stride goes down, a transposed one up.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

CHANNELS = CLASSES = 4
WINDOW = (40, 40, 28)
WIDTHS = (8, 16, 24)
SLOPE = 0.01


def _block(before: int, after: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(before, after, 3, stride, padding=1),
        nn.InstanceNorm3d(after, affine=True),
        nn.LeakyReLU(SLOPE),
    )


class BratsUNet(nn.Module):
    """Scores [n, 4, d, h, w] of volumes [n, 4, d, h, w] whose sides are multiples of four."""

    def __init__(self) -> None:
        super().__init__()
        one, two, three = WIDTHS
        self.down1 = nn.Sequential(_block(CHANNELS, one), _block(one, one))
        self.down2 = nn.Sequential(_block(one, two, 2), _block(two, two))
        self.bottom = nn.Sequential(_block(two, three, 2), _block(three, three))
        self.up2 = nn.ConvTranspose3d(three, two, 2, stride=2, bias=False)
        self.join2 = _block(2 * two, two)
        self.up1 = nn.ConvTranspose3d(two, one, 2, stride=2, bias=False)
        self.join1 = nn.Sequential(_block(2 * one, one), _block(one, one))
        self.scores = nn.Conv3d(one, CLASSES, 1, bias=False)

    def forward(self, volume: Tensor) -> Tensor:
        """See the class."""
        fine = self.down1(volume)
        middle = self.down2(fine)
        coarse = self.bottom(middle)
        middle = self.join2(torch.cat([self.up2(coarse), middle], dim=1))
        fine = self.join1(torch.cat([self.up1(middle), fine], dim=1))
        scores: Tensor = self.scores(fine)
        return scores
