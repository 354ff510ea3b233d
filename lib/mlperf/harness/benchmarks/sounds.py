"""A data set of speech: sounds and what was said in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import HarnessError
from ..records import read_json
from .base import Array
from .samples import cut_out


class SoundSet:
    """Sounds of ``rate`` samples a second, and their texts.

    The folder holds ``samples.npy`` int16 [samples], ``offsets.npy`` int64 [sounds + 1] and
    ``texts.json``. Raises HarnessError for a damaged folder, or another rate than that
    of ``model``.
    """

    def __init__(self, folder: Path, rate: int, model: str) -> None:
        facts = read_json(folder / "dataset.json")
        self._samples = np.load(folder / "samples.npy", mmap_mode="r")
        self._offsets = np.load(folder / "offsets.npy")
        self.texts: list[str] = read_json(folder / "texts.json")
        self._check(folder, facts["count"])
        if facts["rate"] != rate:
            raise HarnessError(
                f"{folder} has {facts['rate']} samples a second, {model} takes {rate}"
            )
        self.dtype = str(self._samples.dtype)
        self.lengths: Array = np.diff(self._offsets)

    def _check(self, folder: Path, count: int) -> None:
        sounds, samples, texts = len(self._offsets) - 1, len(self._samples), len(self.texts)
        if sounds != count or texts != count or self._offsets[-1] != samples:
            raise HarnessError(
                f"{folder} is damaged: {sounds} utterances with {samples} samples, "
                f"{texts} texts, {count} expected"
            )

    def __len__(self) -> int:
        return len(self.texts)

    def sound(self, index: int) -> Array:
        """Return the samples int16 [t] of a sound."""
        return cut_out(self._samples, self._offsets[index], self._offsets[index + 1])
