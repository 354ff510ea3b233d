"""The weights of a folder as Hugging Face's library writes it, one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.weight_files import INDEXES, SINGLES
from modelzoo.checkpoint import check_names, check_shape, pytorch_weights
from modelzoo.program import ProgramError

Array = npt.NDArray[np.float32]

CONFIG = "config.json"
# Masks that older versions of the library saved with the weights.
NO_WEIGHT = re.compile(r"\.attn\.(bias|masked_bias)$|\.rotary_emb\.|\.embed_positions$")


class HuggingFaceCheckpoint:
    """The files of a folder, opened when one of their weights is first read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._place = _places(folder)
        self._open: dict[str, dict[str, Callable[[], Array]]] = {}

    def array(self, name: str) -> Array:
        """The weight as float32, in its shape there; raises ProgramError when there is none."""
        if name not in self._place:
            raise ProgramError(f"{self.folder} has no {name}")
        file = self._place[name]
        if file not in self._open:
            self._open[file] = _opened(self.folder / file)
        if name not in self._open[file]:
            raise ProgramError(f"{self.folder / file} has no {name}, though the index says so")
        return self._open[file][name]()

    def names(self) -> set[str]:
        """All weights, without masks."""
        return {name for name in self._place if not NO_WEIGHT.search(name)}

    def config(self) -> dict[str, Any]:
        """Return config.json. Raises ProgramError when it cannot be read."""
        try:
            document: dict[str, Any] = json.loads(
                (self.folder / CONFIG).read_text(encoding="utf-8")
            )
        except (OSError, ValueError) as error:
            raise ProgramError(f"cannot read {self.folder / CONFIG}: {error}") from error
        return document


class CheckedWeights:
    """The weights of a folder that are those of a network: its names, in its shapes."""

    def __init__(
        self,
        source: HuggingFaceCheckpoint,
        shapes: Mapping[str, tuple[int, ...]],
        repeated: Set[str] = frozenset(),
    ) -> None:
        """Raise ProgramError for missing weights, and unknown ones that are not ``repeated``."""
        check_names(source.names() - repeated, shapes)
        self._source, self._shapes = source, shapes

    def array(self, name: str) -> Array:
        """Return a weight as float32; raise ProgramError for another shape."""
        weight = self._source.array(name)
        check_shape(name, weight.shape, self._shapes[name])
        return weight


def _places(folder: Path) -> dict[str, str]:
    """Return the file names of all weights."""
    for index in INDEXES:
        if (folder / index).is_file():
            file_of_weight = json.loads((folder / index).read_text(encoding="utf-8"))["weight_map"]
            missing = sorted(
                {file for file in file_of_weight.values() if not (folder / file).is_file()}
            )
            if missing:
                raise ProgramError(f"{folder} lacks {', '.join(missing)}, which {index} names")
            return dict(file_of_weight)
    for single in SINGLES:
        if (folder / single).is_file():
            return dict.fromkeys(_opened(folder / single), single)
    names = ", ".join((*INDEXES, *SINGLES))
    raise ProgramError(f"{folder} has no weights: none of {names}")


def _opened(path: Path) -> dict[str, Callable[[], Array]]:
    return _safetensors(path) if path.suffix == ".safetensors" else _pytorch(path)


def _safetensors(path: Path) -> dict[str, Callable[[], Array]]:
    import ml_dtypes  # noqa: F401  # NumPy has bfloat16 from it
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise ProgramError(f"{path} is not a file of safetensors: {error}") from error

    def read(name: str) -> Array:
        array: Array = file.get_tensor(name).astype(np.float32, copy=False)
        return array

    return {name: partial(read, name) for name in file.keys()}  # noqa: SIM118  # no mapping


def _numpy(tensor: Any) -> Array:
    array: Array = tensor.float().numpy()
    return array


def _pytorch(path: Path) -> dict[str, Callable[[], Array]]:
    return {name: partial(_numpy, value) for name, value in pytorch_weights(path).items()}
