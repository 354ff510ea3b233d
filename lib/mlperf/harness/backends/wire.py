"""How a LoadGen node and the nodes of a system under test talk: frames over one TCP connection.

A frame is ``CMB1``, the lengths of both parts (little-endian, 32 and 64 bits), a JSON object, and
raw bytes. docs/reference/network.md describes the fields. Nothing that is received is run or
unpickled, and nothing is allocated before its size was checked.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import HarnessError
from ..settings import TensorSpec
from .base import Array, fits

PROTOCOL = 3
MAGIC = b"CMB1"
PREFIX = struct.Struct("<4sIQ")
MOST_JSON = 1 << 20
MOST_BYTES = 1 << 28
# A peer whose machine is gone says nothing: after so long the system gives it up.
IDLE_S, BETWEEN_S, TRIES = 10, 5, 3
LOST_MS = 30_000

Sample = Mapping[str, Array]


class WireError(HarnessError):
    """The other side is gone, or does not speak this protocol."""


@dataclass(frozen=True, slots=True)
class WireFrame:
    """One message: ``head`` has its ``kind``, ``body`` the bytes of tensors or results."""

    head: dict[str, Any]
    body: memoryview

    @property
    def kind(self) -> str:
        """What the message is."""
        return str(self.head.get("kind", ""))


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """``count`` samples whose tensors have the same sizes: each lies as [count, *shape]."""

    count: int
    tensors: dict[str, Array]

    def pieces(self, most: int) -> Iterator[SampleGroup]:
        """Yield the same in groups of ``most`` samples at most."""
        for start in range(0, self.count, most):
            cut = {name: array[start : start + most] for name, array in self.tensors.items()}
            yield SampleGroup(min(most, self.count - start), cut)


def prepare(connection: socket.socket) -> None:
    """Send small frames at once, and notice a peer whose machine has gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", IDLE_S),
        ("TCP_KEEPINTVL", BETWEEN_S),
        ("TCP_KEEPCNT", TRIES),
        ("TCP_USER_TIMEOUT", LOST_MS),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def send(connection: socket.socket, head: Mapping[str, Any], parts: Sequence[Any] = ()) -> None:
    """Send one frame whose body is all ``parts``; raises WireError when the other side is gone."""
    text = json.dumps(head, separators=(",", ":")).encode()
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    size = sum(len(view) for view in views)
    first = PREFIX.pack(MAGIC, len(text), size) + text
    try:
        if size < 1 << 16:
            connection.sendall(b"".join((first, *views)))
            return
        connection.sendall(first)
        for view in views:
            connection.sendall(view)
    except OSError as error:
        raise WireError(f"the connection broke off: {error}") from error


def receive(connection: socket.socket, most: int = MOST_BYTES) -> WireFrame | None:
    """The next frame, with a body of ``most`` bytes at most; None where the other side has ended.

    Raises WireError for bytes that are no frame, too large, or incomplete.
    """
    prefix = _read(connection, PREFIX.size, at_start=True)
    if prefix is None:
        return None
    magic, head_size, body_size = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise WireError("the other side does not speak cmbench's protocol")
    if head_size > MOST_JSON or body_size > most:
        raise WireError(f"a frame of {head_size} + {body_size} bytes is too large")
    text = _read(connection, head_size)
    try:
        head = json.loads(bytes(text or b""))
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame that is not JSON: {error}") from error
    if not isinstance(head, dict):
        raise WireError("a frame that is not a JSON object")
    return WireFrame(head, _read(connection, body_size) or memoryview(b""))


def _read(connection: socket.socket, size: int, at_start: bool = False) -> memoryview | None:
    room = memoryview(bytearray(size))
    done = 0
    while done < size:
        try:
            count = connection.recv_into(room[done:])
        except OSError as error:
            raise WireError(f"the connection broke off: {error}") from error
        if not count:
            if at_start and not done:
                return None
            raise WireError("the connection ended in the middle of a frame")
        done += count
    return room


def ask(connection: socket.socket, head: Mapping[str, Any], parts: Sequence[Any] = ()) -> WireFrame:
    """Send a frame and return the answer; raises WireError for an error that it reports."""
    send(connection, head, parts)
    answer = receive(connection)
    if answer is None:
        raise WireError("the node has ended")
    if answer.kind == "error":
        raise WireError(str(answer.head.get("text", ""))[:1000], str(answer.head.get("advice", "")))
    return answer


def packed(samples: Sequence[SampleGroup], inputs: Sequence[TensorSpec]) -> tuple[Any, list[Array]]:
    """Return the list of groups for the head, and for the body each array as bytes [size].

    Those of a group follow each other in the order of ``inputs``.
    """
    heads = []
    parts: list[Array] = []
    for group in samples:
        shapes = {tensor.name: list(group.tensors[tensor.name].shape[1:]) for tensor in inputs}
        heads.append([group.count, shapes])
        parts += [np.ascontiguousarray(group.tensors[tensor.name]) for tensor in inputs]
    return heads, [part.reshape(-1).view(np.uint8) for part in parts]


def unpacked(frame: WireFrame, inputs: Sequence[TensorSpec], most: int) -> list[SampleGroup]:
    """Return the samples of a frame, ``most`` in all, as views of its body.

    Raises WireError where they are not what the model takes, or the bytes are not as many as the
    sizes say.
    """
    heads = frame.head.get("groups")
    if not isinstance(heads, list) or not 0 < len(heads) <= most:
        raise WireError(f"expected 1 to {most} groups of samples")
    groups, start = [], 0
    for head in heads:
        group, start = _group(head, inputs, frame.body, start)
        groups.append(group)
    if start != len(frame.body):
        raise WireError(f"{len(frame.body)} bytes came, the samples have {start}")
    if sum(group.count for group in groups) > most:
        raise WireError(f"more than {most} samples in a frame")
    return groups


def _group(
    head: object, inputs: Sequence[TensorSpec], body: memoryview, start: int
) -> tuple[SampleGroup, int]:
    if not (isinstance(head, list) and len(head) == 2 and isinstance(head[1], dict)):
        raise WireError("a group is a number of samples and the sizes of their tensors")
    count, shapes = head
    if type(count) is not int or count < 1:
        raise WireError(f"a group of {str(count)[:20]} samples")
    tensors = {}
    for tensor in inputs:
        shape = _shape(shapes.get(tensor.name), tensor)
        dtype = np.dtype(tensor.dtype)
        size = count * math.prod(shape) * dtype.itemsize
        if start + size > len(body):
            raise WireError(f"{len(body)} bytes came, {tensor.name} needs more")
        flat = np.frombuffer(body[start : start + size], dtype)
        tensors[tensor.name] = flat.reshape((count, *shape))
        start += size
    return SampleGroup(count, tensors), start


def _shape(sizes: object, tensor: TensorSpec) -> tuple[int, ...]:
    """Return the size of a sample's tensor."""
    if not isinstance(sizes, list) or any(type(size) is not int or size < 1 for size in sizes):
        raise WireError(f"the sizes of {tensor.name} are missing")
    shape = tuple(sizes)
    if not fits(tensor.shape, shape):
        raise WireError(f"{tensor.name} came as {sizes}, a sample has {list(tensor.shape)}")
    return shape
