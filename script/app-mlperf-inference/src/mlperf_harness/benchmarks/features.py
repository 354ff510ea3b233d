"""Log-mel features of speech: what the speech benchmark computes inside the timed part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Amplitudes are divided by this, and below it the logarithm does not follow them.
FULL_SCALE = 32768.0
FLOOR = 1e-10


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """How samples become features.

    Windows of ``window_s`` seconds every ``hop_s`` are weighted by a Hann window and transformed
    with ``transform`` points; ``bands`` mel bands are summed from the power, and ``stack``
    neighbouring frames make up one feature vector. ``preemphasis`` is the share of the sample
    before that is subtracted.
    """

    rate: int = 16_000
    window_s: float = 0.02
    hop_s: float = 0.01
    transform: int = 512
    bands: int = 80
    stack: int = 3
    preemphasis: float = 0.97

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> FeatureSpec:
        """The specification in the options of a model; what is not said is as the rules have it."""
        known = {name: options[name] for name in cls.__dataclass_fields__ if name in options}
        return cls(**known)

    @property
    def width(self) -> int:
        """Numbers in one feature vector."""
        return self.bands * self.stack


def mel_bank(spec: FeatureSpec) -> Array:
    """Triangular filters [transform / 2 + 1, bands], equally wide in mel and of equal area."""
    edges = 700 * (10 ** (np.linspace(0, _mel(spec.rate / 2), spec.bands + 2) / 2595) - 1)
    places = np.linspace(0, spec.rate / 2, spec.transform // 2 + 1)[:, None]
    rising = (places - edges[None, :-2]) / np.diff(edges)[:-1]
    falling = (edges[None, 2:] - places) / np.diff(edges)[1:]
    area = 2.0 / (edges[2:] - edges[:-2])
    return (np.maximum(0, np.minimum(rising, falling)) * area).astype(np.float32)


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))


class Extractor:
    """Computes features; owns its tables, and may be used by one caller at a time."""

    def __init__(self, spec: FeatureSpec) -> None:
        self._spec = spec
        self._size = round(spec.window_s * spec.rate)
        self._hop = round(spec.hop_s * spec.rate)
        self._window = np.hanning(self._size + 1)[:-1].astype(np.float32)
        self._bank = mel_bank(spec)

    def features(self, samples: Array) -> Array:
        """The vectors [n, width] float32 of ``samples`` int16; each band is normalized."""
        spec = self._spec
        wave = samples.astype(np.float32) / FULL_SCALE
        wave[1:] -= spec.preemphasis * wave[:-1]
        short = self._size + self._hop * (spec.stack - 1) - len(wave)
        if short > 0:
            wave = np.pad(wave, (0, short))
        frames = np.lib.stride_tricks.sliding_window_view(wave, self._size)[:: self._hop]
        spectrum = np.fft.rfft(frames * self._window, spec.transform, axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        levels = np.log(power @ self._bank + FLOOR)
        levels -= levels.mean(axis=0)
        levels /= levels.std(axis=0) + 1e-5
        count = len(levels) // spec.stack
        return np.ascontiguousarray(levels[: count * spec.stack].reshape(count, spec.width))
