"""The weights of DLRM's published checkpoints, a piece at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo.checkpoint import pytorch_weights
from modelzoo.graph import Piece, blocks
from modelzoo.program import ProgramError

METADATA = ".snapshot_metadata"
# How the checkpoint calls the whole model, below the number of a process.
MODEL_ROOT = "model"
RAW = "buffer_protocol"
# What modules around the network put before its names.
WRAPPERS = re.compile(r"^(?:_dmp_wrapped_module\.|module\.|model\.)+")
DTYPES = {"torch.float32": "<f4", "torch.float16": "<f2", "torch.float64": "<f8"}


class SavedWeights:
    """A file of PyTorch with all weights in it (the first DLRM)."""

    def __init__(self, path: Path) -> None:
        self._arrays = pytorch_weights(path)

    def names(self) -> set[str]:
        """All weights."""
        return set(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        """See ``recommender.Source``."""
        return tuple(self._arrays[name].shape)

    def pieces(self, name: str) -> Iterator[Piece]:
        """See ``recommender.Source``."""
        whole = self._arrays[name]
        for begin, end in blocks(tuple(whole.shape)):
            rest = (0,) * (len(whole.shape) - 1)
            yield (begin, *rest), whole[begin:end].float().numpy()


@dataclass(frozen=True, slots=True)
class WeightShard:
    """A part of a weight in a file: where it begins in the weight, its shape, and its bytes."""

    places: tuple[int, ...]
    shape: tuple[int, ...]
    file: str
    offset: int
    dtype: str


class WeightSnapshot:
    """A folder as torchsnapshot writes it (DLRM v2): a list of shards, and files with numbers.

    Every process has written its own shards; a weight is the union of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shards: dict[str, dict[tuple[int, ...], WeightShard]] = {}
        for path, entry in _manifest(folder / METADATA).items():
            _, _, name = path.partition(f"/{MODEL_ROOT}/")
            if name:
                self._add(WRAPPERS.sub("", name), entry)
        if not self._shards:
            raise ProgramError(f"{folder / METADATA} lists no weights of {MODEL_ROOT}")
        for name in self._shards:
            self._check(name)

    def _add(self, name: str, entry: dict[str, Any]) -> None:
        kind = entry.get("type")
        if kind == "Tensor":
            shards = [_shard(entry, (0,) * len(entry["shape"]))]
        elif kind in ("ShardedTensor", "ChunkedTensor", "DTensor"):
            parts = entry.get("shards") or entry.get("chunks") or []
            shards = [_shard(part["tensor"], tuple(part["offsets"])) for part in parts]
        else:  # dictionaries and plain numbers
            return
        # Replicated weights are listed by every process.
        self._shards.setdefault(name, {}).update({shard.places: shard for shard in shards})

    def _check(self, name: str) -> None:
        shards = self._shards[name].values()
        have = sum(int(np.prod(shard.shape)) for shard in shards)
        if have != int(np.prod(self.shape(name))):
            raise ProgramError(f"{name} is not whole: {have} numbers of {self.shape(name)}")
        missing = [shard.file for shard in shards if not (self._folder / shard.file).is_file()]
        if missing:
            raise ProgramError(f"{self._folder} lacks {missing[0]}, in which {name} lies")

    def names(self) -> set[str]:
        """All weights."""
        return set(self._shards)

    def shape(self, name: str) -> tuple[int, ...]:
        """See ``recommender.Source``."""
        ends = [np.add(shard.places, shard.shape).tolist() for shard in self._shards[name].values()]
        return tuple(max(column) for column in zip(*ends, strict=True))

    def pieces(self, name: str) -> Iterator[Piece]:
        """See ``recommender.Source``."""
        for shard in self._shards[name].values():
            path = self._folder / shard.file
            try:
                numbers = np.memmap(path, DTYPES[shard.dtype], "r", shard.offset, shard.shape)
            except ValueError as error:
                raise ProgramError(f"{path} is cut short: {name} should lie in it") from error
            for begin, end in blocks(shard.shape):
                places = (shard.places[0] + begin, *shard.places[1:])
                yield places, np.asarray(numbers[begin:end], dtype=np.float32)


def _shard(tensor: dict[str, Any], places: tuple[int, ...]) -> WeightShard:
    if tensor["serializer"] != RAW or tensor["dtype"] not in DTYPES:
        raise ProgramError(f"numbers as {tensor['serializer']} of {tensor['dtype']} are not read")
    begin = (tensor.get("byte_range") or [0])[0]
    return WeightShard(places, tuple(tensor["shape"]), tensor["location"], begin, tensor["dtype"])


def _manifest(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProgramError(f"cannot read {path}: {error.strerror}") from error
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else _yaml(text)
        manifest: dict[str, Any] = document["manifest"]
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramError(f"{path} is not a list of torchsnapshot: {error}") from error
    return manifest


def _yaml(text: str) -> Any:
    """Older versions wrote YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
