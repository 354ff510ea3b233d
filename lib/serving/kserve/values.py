"""What a server says of itself, its models and its work, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import KserveError


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """A server's name, version, and the extensions of the protocol that it has."""

    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output of a model; -1 in ``shape`` is a length that requests choose."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A model as its server describes it; the shapes count the batch where there is one."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True, slots=True)
class ModelState:
    """A line of a repository's index; ``reason`` says why it is not READY."""

    name: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Duration:
    """How often a part of the work was done, and for how long together."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Executions of one batch size."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a model has done since it was loaded; ``inferences`` counts samples."""

    name: str
    version: str
    inferences: int
    executions: int
    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration
    batches: tuple[BatchStatistics, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class SharedRegion:
    """A region of shared memory as a server has registered it."""

    name: str
    key: str
    offset: int
    size: int


def read_server(message: Mapping[str, Any]) -> ServerMetadata:
    """Return the answer to /v2."""
    return ServerMetadata(
        _text(message, "name"), _text(message, "version"), tuple(message.get("extensions") or ())
    )


def read_model(message: Mapping[str, Any]) -> Model:
    """Return the answer to /v2/models/NAME."""
    return Model(
        _text(message, "name"),
        tuple(str(each) for each in message.get("versions") or ()),
        _text(message, "platform"),
        tuple(_tensor(each) for each in message.get("inputs") or ()),
        tuple(_tensor(each) for each in message.get("outputs") or ()),
    )


def _tensor(message: Mapping[str, Any]) -> TensorInfo:
    shape = tuple(int(each) for each in message.get("shape") or ())
    return TensorInfo(_text(message, "name"), _text(message, "datatype"), shape)


def read_index(message: Any) -> tuple[ModelState, ...]:
    """Return the answer to /v2/repository/index."""
    return tuple(
        ModelState(*(_text(each, key) for key in ("name", "version", "state", "reason")))
        for each in message
    )


def read_statistics(message: Mapping[str, Any]) -> Statistics:
    """One model of the answer to /v2/models/NAME/stats."""
    parts = message.get("inference_stats") or {}
    names = ("success", "fail", "queue", "cache_hit", "cache_miss")
    success, fail, queue, cache_hit, cache_miss = (_duration(parts, name) for name in names)
    compute_input, compute_infer, compute_output = _compute(parts)
    return Statistics(
        _text(message, "name"),
        _text(message, "version"),
        int(message.get("inference_count") or 0),
        int(message.get("execution_count") or 0),
        success=success,
        fail=fail,
        queue=queue,
        compute_input=compute_input,
        compute_infer=compute_infer,
        compute_output=compute_output,
        cache_hit=cache_hit,
        cache_miss=cache_miss,
        batches=tuple(
            BatchStatistics(int(each["batch_size"]), *_compute(each))
            for each in message.get("batch_stats") or ()
        ),
    )


def _compute(message: Mapping[str, Any]) -> tuple[Duration, Duration, Duration]:
    return (
        _duration(message, "compute_input"),
        _duration(message, "compute_infer"),
        _duration(message, "compute_output"),
    )


def read_regions(message: Any) -> tuple[SharedRegion, ...]:
    """Return the answer to /v2/systemsharedmemory/status."""
    return tuple(
        SharedRegion(
            _text(each, "name"),
            _text(each, "key"),
            int(each.get("offset") or 0),
            int(each.get("byte_size") or 0),
        )
        for each in message
    )


def _duration(message: Mapping[str, Any], name: str) -> Duration:
    each = message.get(name) or {}
    return Duration(int(each.get("count") or 0), int(each.get("ns") or 0))


def _text(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name, "")
    if not isinstance(value, str):
        raise KserveError("protocol", f"{name} is {value!r} where a text belongs")
    return value
