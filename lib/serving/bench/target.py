"""The model under load: its connections, its requests, and the check of its responses."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem
from serving import kserve
from serving.kserve import Connection, Model, Region, WireTensor

from . import checks, files, inputs, machine
from .load import LoadWorker
from .options import BenchSettings

# Places in shared memory begin at a multiple of this.
ALIGN = 4096
Shared = Mapping[str, "kserve.RegionSlice | WireTensor"]
# File descriptors in addition to the connections.
SPARE = 64


@dataclass(frozen=True, slots=True)
class ProbedModel:
    """A model that answered and was found right.

    ``batch`` is None where the model has no batch; ``first_ms`` is the time of the first request,
    ``sizes`` the bytes of its outputs, ``counted`` how many requests the server counts with it.
    ``stand_in`` says in words what takes the place of a device, where something does.
    """

    settings: BenchSettings
    server: str
    model: Model
    batch: int | None
    samples: tuple[inputs.Sample, ...]
    first_ms: float
    problems: tuple[str, ...]
    sizes: Mapping[str, WireTensor]
    counted: int
    stand_in: str = ""

    def check(self) -> Any:
        """A check of answers for one worker, which remembers the last form that was right."""
        return _Check(self)


class _Check:
    def __init__(self, target: ProbedModel) -> None:
        self._infos, self._batch = target.model.outputs, target.batch
        self._right: checks.Signature = ()

    def __call__(self, outputs: Mapping[str, WireTensor], look: bool) -> Sequence[str]:
        signature = checks.signature(outputs)
        if signature == self._right and not look:
            return ()
        problems = checks.describe_problems(outputs, self._infos, self._batch)
        if not problems:
            self._right = signature
        return problems


def connect(settings: BenchSettings) -> Connection:
    """Return a connection as the settings have it; raise Problem."""
    options = kserve.ConnectionOptions(
        timeout=settings.timeout,
        headers=settings.headers,
        tls_ca=settings.tls_ca,
        compression=settings.compression,
    )
    return kserve.connect(settings.url, settings.protocol, options)


def golden(settings: BenchSettings, model: Model) -> dict[str, WireTensor]:
    """Return the outputs that are right; nothing where no file has them.

    Raises Problem for a file of another kind.
    """
    if not settings.golden:
        return {}
    path = Path(settings.golden)
    if path.suffix.lower() not in files.READERS:
        raise Problem(
            "server-failed", f"{path} is not a file of outputs", hint=".npz, .npy or .json"
        )
    return files.read(path, model.outputs)


def workers(target: ProbedModel, count: int, stack: contextlib.ExitStack) -> list[LoadWorker]:
    """Return workers with connections, and with slices of shared memory if requested."""
    settings = target.settings
    machine.allow_files(count + SPARE)
    connections = [stack.enter_context(connect(settings)) for _ in range(count)]
    if settings.shared_memory == "none":
        made = [_plain(target, connection) for connection in connections]
    else:
        region = stack.enter_context(Region(connections[0], _room(target, count)))
        places = RegionAllocator(region)
        shared = [places.sample(sample) for sample in target.samples]
        made = [_shared(target, each, shared, places) for each in connections]
    return [
        LoadWorker(connection, requests, target.check())
        for connection, requests in zip(connections, made, strict=True)
    ]


def names(model: Model) -> list[str]:
    """Return the outputs to ask for: all that the model promises."""
    return [info.name for info in model.outputs]


def _plain(target: ProbedModel, connection: Connection) -> list[Any]:
    settings = target.settings
    return [
        connection.prepare(settings.model, sample, names(target.model), settings.version)
        for sample in target.samples
    ]


def _shared(
    target: ProbedModel,
    connection: Connection,
    samples: Sequence[Shared],
    places: RegionAllocator,
) -> list[Any]:
    settings = target.settings
    outputs = {name: places.empty(tensor) for name, tensor in target.sizes.items()}
    return [
        connection.prepare(settings.model, sample, outputs, settings.version) for sample in samples
    ]


def _aligned(size: int) -> int:
    # An empty tensor gets a slice too: a server rejects an offset at the end.
    return -(-max(size, 1) // ALIGN) * ALIGN


def _room(target: ProbedModel, count: int) -> int:
    sent = sum(_aligned(len(each.data)) for sample in target.samples for each in sample.values())
    received = sum(_aligned(len(each.data)) for each in target.sizes.values())
    return max(sent + count * received, ALIGN)


class RegionAllocator:
    """Allocates slices of a region, one after the other."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._next = 0

    def empty(self, like: WireTensor) -> kserve.RegionSlice:
        """Return a slice for a tensor like this one, with room for longer strings."""
        return self._slice(like, _aligned(len(like.data)))

    def sample(self, sample: inputs.Sample) -> Shared:
        """Return slices with the tensors; no server accepts one of zero bytes."""
        return {name: self._filled(each) if each.data else each for name, each in sample.items()}

    def _filled(self, tensor: WireTensor) -> kserve.RegionSlice:
        place = self._slice(tensor, len(tensor.data))
        place.memory[:] = tensor.data
        return place

    def _slice(self, like: WireTensor, size: int) -> kserve.RegionSlice:
        place = self._region.slice(self._next, like.datatype, like.shape, size)
        self._next += _aligned(size)
        return place
