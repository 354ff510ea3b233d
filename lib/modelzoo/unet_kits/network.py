"""The tiny 3-D U-Net: three levels, a window of 32^3 voxels in, scores of three classes out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 3
SIDE = 32
WIDTHS = (6, 12, 24)


def _block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(before, after, 3, padding=1, bias=False), nn.BatchNorm3d(after), nn.ReLU()
    )


class KitsUNet(nn.Module):
    """Scores [n, 3, d, h, w] of volumes [n, 1, d, h, w] whose sides are multiples of four."""

    def __init__(self) -> None:
        super().__init__()
        one, two, three = WIDTHS
        self.down1 = nn.Sequential(_block(1, one), _block(one, one))
        self.down2 = nn.Sequential(_block(one, two), _block(two, two))
        self.bottom = nn.Sequential(_block(two, three), _block(three, three))
        self.up2 = nn.ConvTranspose3d(three, two, 2, stride=2)
        self.join2 = _block(2 * two, two)
        self.up1 = nn.ConvTranspose3d(two, one, 2, stride=2)
        self.join1 = _block(2 * one, one)
        self.scores = nn.Conv3d(one, CLASSES, 1)
        self.pool = nn.MaxPool3d(2)

    def forward(self, volume: Tensor) -> Tensor:
        """See the class."""
        fine = self.down1(volume)
        middle = self.down2(self.pool(fine))
        coarse = self.bottom(self.pool(middle))
        middle = self.join2(torch.cat([self.up2(coarse), middle], dim=1))
        fine = self.join1(torch.cat([self.up1(middle), fine], dim=1))
        scores: Tensor = self.scores(fine)
        return scores
