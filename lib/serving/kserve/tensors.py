"""Tensors as the protocol has them: a data type, a shape, and bytes in the order of C.

Nothing here needs NumPy: whatever shows its memory (an array of NumPy, of ``array``, a memoryview)
becomes a tensor without a copy, and ``WireTensor.array`` is there where NumPy is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import KserveError

# The protocol's names and the codes of module struct; BF16 and BYTES have none.
CODES = {
    "BOOL": "?",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
SIZES = {name: struct.calcsize(code) for name, code in CODES.items()} | {"BF16": 2}
# A C long has the size of one of the types above.
_NAMES = {code: name for name, code in CODES.items()} | {
    "l": "INT64" if struct.calcsize("l") == 8 else "INT32",
    "L": "UINT64" if struct.calcsize("L") == 8 else "UINT32",
    "c": "UINT8",
}
_STANDARD = {f"<{code}": name for name, code in CODES.items()} | {"<l": "INT32", "<L": "UINT32"}
FLOATS = ("FP16", "BF16", "FP32", "FP64")


@dataclass(frozen=True, slots=True)
class WireTensor:
    """A tensor; ``data`` has ``prod(shape)`` values of ``datatype``, little-endian.

    BYTES is a row of strings, each behind its length in four bytes.
    """

    datatype: str
    shape: tuple[int, ...]
    data: memoryview

    def array(self) -> Any:
        """The same memory as an array of NumPy; BF16 and BYTES are copied (float32, object)."""
        import numpy as np

        if self.datatype == "BYTES":
            values = np.empty(math.prod(self.shape), object)
            values[:] = list(strings(self.data))
            return values.reshape(self.shape)
        if self.datatype == "BF16":
            wide = np.frombuffer(self.data, np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32).reshape(self.shape)
        return np.frombuffer(self.data, np.dtype(CODES[self.datatype])).reshape(self.shape)

    def values(self) -> Sequence[Any]:
        """Return the values in the order of C, without NumPy."""
        if self.datatype == "BYTES":
            return list(strings(self.data))
        if self.datatype == "BF16":
            halves = struct.iter_unpack("2s", self.data)
            return [struct.unpack("<f", b"\0\0" + half)[0] for (half,) in halves]
        code = CODES[self.datatype]
        return struct.unpack(f"<{len(self.data) // SIZES[self.datatype]}{code}", self.data)


def flat(view: memoryview) -> memoryview:
    """Return the bytes of a contiguous view; a view without values cannot be cast."""
    return view.cast("B") if view.nbytes else memoryview(b"")


def tensor_of(value: Any) -> WireTensor:
    """``value`` as a tensor: a Tensor, anything with a buffer, or a list of texts (BYTES).

    Raises KserveError (``input``) for what has no place in the protocol.
    """
    if isinstance(value, WireTensor):
        return value
    if isinstance(value, list | tuple):
        return _texts(value, (len(value),))
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError) as error:
        raise KserveError("input", f"{type(value).__name__} is not a tensor: {error}") from error
    if view.format == "O":
        return _texts(value.ravel().tolist(), tuple(value.shape))
    name = _NAMES.get(view.format.lstrip("=@")) or _STANDARD.get(view.format)
    if name is None:
        raise KserveError("input", f'values of format "{view.format}" have no type in the protocol')
    data = flat(view) if view.c_contiguous else memoryview(view.tobytes())
    return WireTensor(name, tuple(view.shape or ()), data.toreadonly())


def _texts(values: Iterable[Any], shape: tuple[int, ...]) -> WireTensor:
    return WireTensor("BYTES", shape, memoryview(packed_strings(values)))


def packed_strings(values: Iterable[Any]) -> bytes:
    """Texts and byte strings, each behind its length. Raises KserveError for another type."""
    parts = []
    for value in values:
        if not isinstance(value, str | bytes):
            raise KserveError("input", f"{type(value).__name__} is neither text nor bytes")
        data = value.encode() if isinstance(value, str) else value
        parts.append(struct.pack("<I", len(data)) + data)
    return b"".join(parts)


def strings(data: memoryview) -> Iterator[bytes]:
    """The byte strings of a BYTES tensor; raises KserveError (``protocol``) where one is cut."""
    place, end = 0, len(data)
    while place < end:
        if place + 4 > end:
            raise KserveError("protocol", "a BYTES tensor ends inside a length")
        (size,) = struct.unpack_from("<I", data, place)
        place += 4 + size
        if place > end:
            raise KserveError("protocol", "a BYTES tensor ends inside a string")
        yield bytes(data[place - size : place])


def tensor_in(name: str, datatype: str, shape: tuple[int, ...], memory: memoryview) -> WireTensor:
    """Return the tensor at the begin of ``memory``, where a server has written it.

    Raises KserveError (``protocol``) where it is longer than that.
    """
    count, size = math.prod(shape), 0
    if datatype == "BYTES":
        for _ in range(count):
            if size + 4 > len(memory):
                raise KserveError("protocol", f"{name} ends inside a length of a string")
            size += 4 + int.from_bytes(memory[size : size + 4], "little")
    else:
        size = count * SIZES.get(datatype, 1)
    if size > len(memory):
        raise KserveError("protocol", f"{name} has {size} bytes in a place of {len(memory)}")
    return WireTensor(datatype, shape, memory[:size])


def check_size(name: str, tensor: WireTensor) -> None:
    """Raise KserveError (``protocol``) where the bytes are not those of type and shape."""
    count = math.prod(tensor.shape)
    if tensor.datatype == "BYTES":
        number = sum(1 for _ in strings(tensor.data))
        if number != count:
            raise KserveError("protocol", f"{name} has {number} strings, its shape {count}")
        return
    size = SIZES.get(tensor.datatype)
    if size is None:
        raise KserveError("protocol", f'{name} is of the unknown type "{tensor.datatype}"')
    if len(tensor.data) != count * size:
        raise KserveError(
            "protocol",
            f"{name} has {len(tensor.data)} bytes, {tensor.datatype} of shape "
            f"{list(tensor.shape)} has {count * size}",
        )
