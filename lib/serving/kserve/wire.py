"""Requests and responses of the protocol over HTTP, with the tensors as bytes behind the JSON.

A request is JSON, whose length stands in the header Inference-Header-Content-Length, followed by
the bytes of the inputs one after another; a response is the same. Bytes that lie in shared memory
stand in neither. Source: KServe's Predict Protocol v2 and Triton's extensions of it for binary
tensors and for shared memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import KserveError
from .regions import RegionSlice
from .tensors import CODES, WireTensor, check_size, packed_strings, tensor_in

Inputs = Mapping[str, "WireTensor | RegionSlice"]
Outputs = Mapping[str, "RegionSlice | None"]


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where an output is: ``size`` bytes behind the JSON, in the JSON, or in shared memory."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    size: int | None
    inline: Sequence[Any] | None
    shared: bool


@dataclass(frozen=True, slots=True)
class ResponseLayout:
    """The JSON of a response, read."""

    outputs: tuple[OutputPlace, ...]


def encode_request(inputs: Inputs, outputs: Outputs) -> tuple[bytes, list[memoryview]]:
    """Return the JSON of a request, and the bytes that follow it."""
    described: list[dict[str, Any]] = []
    parts: list[memoryview] = []
    for name, value in inputs.items():
        place = {"name": name, "shape": list(value.shape), "datatype": value.datatype}
        if isinstance(value, RegionSlice):
            described.append({**place, "parameters": _shared(value)})
        else:
            parts.append(value.data)
            described.append({**place, "parameters": {"binary_data_size": len(value.data)}})
    header: dict[str, Any] = {"inputs": described}
    if outputs:
        header["outputs"] = [
            {"name": name, "parameters": _shared(place) if place else {"binary_data": True}}
            for name, place in outputs.items()
        ]
    else:
        header["parameters"] = {"binary_data_output": True}
    return json.dumps(header, separators=(",", ":")).encode(), parts


def _shared(place: RegionSlice) -> dict[str, Any]:
    return {
        "shared_memory_region": place.region,
        "shared_memory_byte_size": place.size,
        "shared_memory_offset": place.offset,
    }


def read_layout(text: bytes) -> ResponseLayout:
    """Read the JSON of a response; raises KserveError (``protocol``) where it is not one."""
    # Not by common.records: servers add keys of their own, and every request pays for it.
    header = read_json(text)
    try:
        return ResponseLayout(tuple(_place(each) for each in header["outputs"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise KserveError("protocol", f"the answer's JSON is not one: {error!r}") from error


def read_json(text: bytes) -> Any:
    """JSON of a server; raises KserveError (``protocol``)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        start = bytes(text[:80])
        raise KserveError("protocol", f"the answer is not JSON ({start!r})") from error


def _place(output: Mapping[str, Any]) -> OutputPlace:
    parameters = output.get("parameters") or {}
    size = parameters.get("binary_data_size")
    # Triton names an output in shared memory without saying so.
    shared = size is None and "data" not in output
    name, datatype, shape = output["name"], output["datatype"], tuple(output["shape"])
    if not isinstance(name, str) or not isinstance(datatype, str):
        raise ValueError("an output without a name and a type")
    if not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError(f"{name} has the shape {list(shape)}")
    if size is not None and (type(size) is not int or size < 0):
        raise ValueError(f"{name} has {size} bytes")
    return OutputPlace(name, datatype, shape, size, output.get("data"), shared)


def decode_outputs(
    layout: ResponseLayout, data: memoryview, placed: Outputs
) -> dict[str, WireTensor]:
    """Return the outputs of a response, whose bytes after the JSON are ``data``; nothing is copied.

    ``placed`` has the slices that the request asked outputs to be written to. Raises KserveError
    (``protocol``) where names, types, shapes and lengths contradict each other or the request.
    """
    tensors: dict[str, WireTensor] = {}
    start = 0
    for place in layout.outputs:
        if place.name in tensors:
            raise KserveError("protocol", f"{place.name} is there twice")
        if place.shared:
            tensor = _in_memory(place, placed.get(place.name))
        elif place.size is not None:
            if start + place.size > len(data):
                raise KserveError("protocol", f"the answer ends inside {place.name}")
            part = data[start : start + place.size]
            tensor = WireTensor(place.datatype, place.shape, part)
            start += place.size
        else:
            tensor = _inline(place)
        check_size(place.name, tensor)
        tensors[place.name] = tensor
    if start != len(data):
        raise KserveError("protocol", f"{len(data) - start} bytes belong to no output")
    if missing := [name for name in placed if name not in tensors]:
        raise KserveError("protocol", f"the answer lacks {', '.join(missing)}")
    return tensors


def _in_memory(place: OutputPlace, region: RegionSlice | None) -> WireTensor:
    if region is None:
        raise KserveError("protocol", f"{place.name} is nowhere")
    return tensor_in(place.name, place.datatype, place.shape, region.memory)


def _inline(place: OutputPlace) -> WireTensor:
    """Return an output in the JSON itself: servers without the binary extension answer so."""
    try:
        values = _flat(place.inline)
        if place.datatype == "BYTES":
            packed = packed_strings(values)
        else:
            packed = struct.pack(f"<{len(values)}{CODES[place.datatype]}", *values)
    except (KeyError, TypeError, OverflowError, struct.error, KserveError) as error:
        raise KserveError("protocol", f"{place.name} has no {place.datatype} values") from error
    return WireTensor(place.datatype, place.shape, memoryview(packed))


def _flat(values: Any) -> list[Any]:
    """``data`` may be nested as the shape is."""
    if not isinstance(values, list):
        raise TypeError("no list")
    items: list[Any] = values
    while items and isinstance(items[0], list):
        items = [each for inner in items for each in inner]
    return items
