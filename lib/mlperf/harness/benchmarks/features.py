"""Log-mel features of speech: what the speech benchmark computes inside the timed part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import HarnessError

Array = npt.NDArray[Any]

# Amplitudes are divided by this, and below it the logarithm does not follow them.
FULL_SCALE = 32768.0
FLOOR = 1e-10
PLAIN, MLPERF = "plain", "mlperf"
# Slaney's mel scale: straight up to 1000 Hz, 15 mel; above it 27 mel for a factor of 6.4.
BEND_HZ, BEND_MEL, FACTOR, FACTOR_MEL = 1000.0, 15.0, 6.4, 27.0


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """How samples become features.

    Windows of ``window_s`` seconds every ``hop_s`` are weighted by a Hann window and transformed
    with ``transform`` points; ``bands`` mel bands are summed from the power, and ``stack``
    neighbouring frames make up one feature vector. ``preemphasis`` is the share of the sample
    before that is subtracted.

    The ``style`` "mlperf" computes what MLPerf's reference does, whose weights depend on it: the
    window is symmetric and its middle lies on the sample, so that the ends are mirrored; mel is
    Slaney's; the last vector is filled up with zeros; and every number of the vectors is normalized
    rather than every band. "plain" leaves all that out.
    """

    rate: int = 16_000
    window_s: float = 0.02
    hop_s: float = 0.01
    transform: int = 512
    bands: int = 80
    stack: int = 3
    preemphasis: float = 0.97
    style: str = PLAIN

    def __post_init__(self) -> None:
        if self.style not in (PLAIN, MLPERF):
            raise HarnessError(f"features have no style {self.style}; there are: plain, mlperf")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> FeatureSpec:
        """Return the specification in the options of a model; defaults are those of the rules."""
        known = {name: options[name] for name in cls.__dataclass_fields__ if name in options}
        return cls(**known)

    @property
    def width(self) -> int:
        """Numbers in one feature vector."""
        return self.bands * self.stack


def mel_bank(spec: FeatureSpec) -> Array:
    """Triangular filters [transform / 2 + 1, bands], equally wide in mel and of equal area."""
    to_mel, to_hertz = SCALES[spec.style]
    edges = to_hertz(np.linspace(0, to_mel(spec.rate / 2), spec.bands + 2))
    places = np.linspace(0, spec.rate / 2, spec.transform // 2 + 1)[:, None]
    rising = (places - edges[None, :-2]) / np.diff(edges)[:-1]
    falling = (edges[None, 2:] - places) / np.diff(edges)[1:]
    area = 2.0 / (edges[2:] - edges[:-2])
    return (np.maximum(0, np.minimum(rising, falling)) * area).astype(np.float32)


def _plain_mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))


def _plain_hertz(mel: Array) -> Array:
    hertz: Array = 700 * (10 ** (mel / 2595) - 1)
    return hertz


def _slaney_mel(hertz: float) -> float:
    """For frequencies above the bend."""
    return float(BEND_MEL + FACTOR_MEL * np.log(hertz / BEND_HZ) / np.log(FACTOR))


def _slaney_hertz(mel: Array) -> Array:
    above = BEND_HZ * FACTOR ** ((mel - BEND_MEL) / FACTOR_MEL)
    return np.where(mel < BEND_MEL, mel * BEND_HZ / BEND_MEL, above)


Scale = tuple[Callable[[float], float], Callable[[Array], Array]]
SCALES: Mapping[str, Scale] = {
    PLAIN: (_plain_mel, _plain_hertz),
    MLPERF: (_slaney_mel, _slaney_hertz),
}


class Extractor:
    """Computes features; owns its tables, and may be used by one worker at a time.

    ``window`` [samples of a window] and ``bank`` [transform / 2 + 1, bands] are its tables.
    """

    def __init__(self, spec: FeatureSpec) -> None:
        self._spec = spec
        self._size = round(spec.window_s * spec.rate)
        self._hop = round(spec.hop_s * spec.rate)
        exact = np.hanning(self._size) if spec.style == MLPERF else np.hanning(self._size + 1)[:-1]
        self.window = exact.astype(np.float32)
        self.bank = mel_bank(spec)

    def features(self, samples: Array) -> Array:
        """Return the vectors [n, width] float32 of ``samples`` int16; every band is normalized."""
        spec = self._spec
        wave = samples.astype(np.float32) / FULL_SCALE
        wave[1:] -= spec.preemphasis * wave[:-1]
        return self._centred(wave) if spec.style == MLPERF else self._plain(wave)

    def _power(self, wave: Array) -> Array:
        frames = np.lib.stride_tricks.sliding_window_view(wave, self._size)[:: self._hop]
        spectrum = np.fft.rfft(frames * self.window, self._spec.transform, axis=1)
        return (spectrum.real**2 + spectrum.imag**2).astype(np.float32)

    def _plain(self, wave: Array) -> Array:
        spec = self._spec
        short = self._size + self._hop * (spec.stack - 1) - len(wave)
        if short > 0:
            wave = np.pad(wave, (0, short))
        levels = np.log(self._power(wave) @ self.bank + FLOOR)
        levels -= levels.mean(axis=0)
        levels /= levels.std(axis=0) + 1e-5
        count = len(levels) // spec.stack
        return np.ascontiguousarray(levels[: count * spec.stack].reshape(count, spec.width))

    def _centred(self, wave: Array) -> Array:
        """As MLPerf's reference: a vector for every ``stack`` hops that have begun."""
        spec = self._spec
        count = -(-len(wave) // (self._hop * spec.stack))
        power = self._power(np.pad(wave, self._size // 2, mode="reflect"))
        # The reference stands for dither by adding its power everywhere.
        levels = np.log((power + np.float32(FLOOR)) @ self.bank + np.float32(1e-20))
        levels = levels[: count * spec.stack]
        stacked = np.zeros((count * spec.stack, spec.bands), dtype=np.float32)
        stacked[: len(levels)] = levels
        vectors = stacked.reshape(count, spec.width)
        spread = vectors.std(axis=0, ddof=1) if count > 1 else np.zeros(spec.width, np.float32)
        features: Array = ((vectors - vectors.mean(axis=0)) / (spread + 1e-5)).astype(np.float32)
        return features
