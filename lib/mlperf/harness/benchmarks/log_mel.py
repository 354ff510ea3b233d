"""The features of Whisper: logarithms of the energy in mel bands, over a window of fixed length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .features import FLOOR, FULL_SCALE, MLPERF, FeatureSpec, mel_bank

Array = npt.NDArray[Any]
RATE, TRANSFORM, HOP = 16_000, 400, 160
# Factors of ten below the loudest at which features end.
RANGE = 8.0


@dataclass(frozen=True, slots=True)
class LogMelSpec:
    """``bands`` mel bands of a window of ``vectors`` steps of 10 ms, padded with silence."""

    bands: int
    vectors: int

    @property
    def samples(self) -> int:
        """Samples of the window."""
        return self.vectors * HOP


class LogMelExtractor:
    """Computes features; owns its tables, and may be used by one worker at a time.

    Source: the description of the inputs in Whisper's paper and reference implementation.
    """

    def __init__(self, spec: LogMelSpec) -> None:
        self._spec = spec
        self._window = np.hanning(TRANSFORM + 1)[:-1].astype(np.float32)
        slaney = FeatureSpec(rate=RATE, transform=TRANSFORM, bands=spec.bands, style=MLPERF)
        self._bank = mel_bank(slaney)

    def write(self, samples: Array, features: Array) -> None:
        """Write the features [bands, vectors] of ``samples`` int16; what is longer is cut off."""
        spec = self._spec
        wave = np.zeros(spec.samples, np.float32)
        cut = samples[: spec.samples]
        wave[: len(cut)] = cut / np.float32(FULL_SCALE)
        wave = np.pad(wave, TRANSFORM // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(wave, TRANSFORM)[::HOP][: spec.vectors]
        spectrum = np.fft.rfft(frames * self._window, axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        levels = np.log10(np.maximum(power @ self._bank, FLOOR))
        levels = np.maximum(levels, levels.max() - RANGE)
        features[:] = (levels.T + 4.0) / 4.0
