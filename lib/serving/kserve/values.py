"""What a server says of itself, its models and its work, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import KserveError


@dataclass(frozen=True, slots=True)
class Server:
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


def read_server(told: Mapping[str, Any]) -> Server:
    """The answer to /v2."""
    return Server(_text(told, "name"), _text(told, "version"), tuple(told.get("extensions") or ()))


def read_model(told: Mapping[str, Any]) -> Model:
    """The answer to /v2/models/NAME."""
    return Model(
        _text(told, "name"),
        tuple(str(each) for each in told.get("versions") or ()),
        _text(told, "platform"),
        tuple(_tensor(each) for each in told.get("inputs") or ()),
        tuple(_tensor(each) for each in told.get("outputs") or ()),
    )


def _tensor(told: Mapping[str, Any]) -> TensorInfo:
    shape = tuple(int(each) for each in told.get("shape") or ())
    return TensorInfo(_text(told, "name"), _text(told, "datatype"), shape)


def read_index(told: Any) -> tuple[ModelState, ...]:
    """The answer to /v2/repository/index."""
    return tuple(
        ModelState(*(_text(each, key) for key in ("name", "version", "state", "reason")))
        for each in told
    )


def read_statistics(told: Mapping[str, Any]) -> Statistics:
    """One model of the answer to /v2/models/NAME/stats."""
    parts = told.get("inference_stats") or {}
    names = ("success", "fail", "queue", "cache_hit", "cache_miss")
    success, fail, queue, cache_hit, cache_miss = (_duration(parts, name) for name in names)
    compute_input, compute_infer, compute_output = _compute(parts)
    return Statistics(
        _text(told, "name"),
        _text(told, "version"),
        int(told.get("inference_count") or 0),
        int(told.get("execution_count") or 0),
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
            for each in told.get("batch_stats") or ()
        ),
    )


def _compute(told: Mapping[str, Any]) -> tuple[Duration, Duration, Duration]:
    return (
        _duration(told, "compute_input"),
        _duration(told, "compute_infer"),
        _duration(told, "compute_output"),
    )


def read_regions(told: Any) -> tuple[SharedRegion, ...]:
    """The answer to /v2/systemsharedmemory/status."""
    return tuple(
        SharedRegion(
            _text(each, "name"),
            _text(each, "key"),
            int(each.get("offset") or 0),
            int(each.get("byte_size") or 0),
        )
        for each in told
    )


def _duration(told: Mapping[str, Any], name: str) -> Duration:
    each = told.get(name) or {}
    return Duration(int(each.get("count") or 0), int(each.get("ns") or 0))


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name, "")
    if not isinstance(value, str):
        raise KserveError("protocol", f"{name} is {value!r} where a text belongs")
    return value
