"""The tiny 3-D U-Nets: built as the full ones are, with three levels instead of six.

Volumes in, scores of all classes out. In the network for brains, as in the full one, blocks are
convolution, instance normalisation and leaky rectifier, and a convolution with stride goes down. In
the one for kidneys it is batch normalisation, a plain rectifier and pooling.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SLOPE = 0.01


class TinyUNet(nn.Module):
    """Scores [n, classes, d, h, w] of volumes [n, c, d, h, w] whose sides are multiples of four.

    ``leaky`` is the network for brains, ``widths`` are the features of the three levels.
    """

    def __init__(
        self, channels: int, classes: int, widths: tuple[int, int, int], *, leaky: bool
    ) -> None:
        super().__init__()
        one, two, three = widths
        self._leaky, step = leaky, 2 if leaky else 1
        self.down1 = nn.Sequential(self._block(channels, one), self._block(one, one))
        self.down2 = nn.Sequential(self._block(one, two, step), self._block(two, two))
        self.bottom = nn.Sequential(self._block(two, three, step), self._block(three, three))
        self.up2 = nn.ConvTranspose3d(three, two, 2, stride=2, bias=not leaky)
        self.join2 = self._block(2 * two, two)
        self.up1 = nn.ConvTranspose3d(two, one, 2, stride=2, bias=not leaky)
        self.join1 = self._block(2 * one, one)
        if leaky:
            self.join1 = nn.Sequential(self.join1, self._block(one, one))
        self.scores = nn.Conv3d(one, classes, 1, bias=not leaky)
        self.pool = nn.Identity() if leaky else nn.MaxPool3d(2)

    def _block(self, before: int, after: int, stride: int = 1) -> nn.Sequential:
        convolution = nn.Conv3d(before, after, 3, stride, padding=1, bias=self._leaky)
        if self._leaky:
            norm, rectifier = nn.InstanceNorm3d(after, affine=True), nn.LeakyReLU(SLOPE)
            return nn.Sequential(convolution, norm, rectifier)
        return nn.Sequential(convolution, nn.BatchNorm3d(after), nn.ReLU())

    def forward(self, volume: Tensor) -> Tensor:
        """See the class."""
        fine = self.down1(volume)
        middle = self.down2(self.pool(fine))
        coarse = self.bottom(self.pool(middle))
        middle = self.join2(torch.cat([self.up2(coarse), middle], dim=1))
        fine = self.join1(torch.cat([self.up1(middle), fine], dim=1))
        scores: Tensor = self.scores(fine)
        return scores
