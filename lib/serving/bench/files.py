"""Tensors out of files, without NumPy: .npy, .npz, and the JSON that perf_analyzer reads."""

from __future__ import annotations

import ast
import io
import itertools
import json
import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.problems import Problem
from serving.kserve import CODES, SIZES, KserveError, TensorInfo, WireTensor, tensor_of

MAGIC = b"\x93NUMPY"
# NumPy's letters for what the protocol has.
LETTERS = {
    "b1": "BOOL", "i1": "INT8", "i2": "INT16", "i4": "INT32", "i8": "INT64", "u1": "UINT8",
    "u2": "UINT16", "u4": "UINT32", "u8": "UINT64", "f2": "FP16", "f4": "FP32", "f8": "FP64",
}  # fmt: skip


def read(path: Path, infos: Sequence[TensorInfo]) -> dict[str, WireTensor]:
    """Return the tensors of a file by name; a .npy file has the only requested one.

    Raises Problem where it cannot be read or is none.
    """
    try:
        return READERS[path.suffix.lower()](path, infos)
    except (ValueError, KeyError, TypeError, struct.error, zipfile.BadZipFile, EOFError) as error:
        raise Problem("server-failed", f"{path} cannot be read: {error}") from error
    except KserveError as error:
        raise Problem("server-failed", f"{path}: {error}") from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file; raise Problem where it cannot be read."""
    try:
        if path.is_char_device() or path.is_block_device():
            raise Problem(
                "server-failed",
                f"{path} is a device: it has no end",
                hint="--input=zero, or a file",
            )
        return path.read_bytes()
    except OSError as error:
        raise Problem("server-failed", f"{path}: {error.strerror}") from error


def packed(words: Sequence[Any]) -> bytes:
    """Texts as the bytes of a BYTES tensor."""
    return bytes(tensor_of(list(words)).data)


def _npy(path: Path, infos: Sequence[TensorInfo]) -> dict[str, WireTensor]:
    if len(infos) != 1:
        named = ", ".join(info.name for info in infos)
        raise Problem(
            "server-failed", f"{path} is one array, and there are {named}", hint="a .npz file"
        )
    return {infos[0].name: parse_npy(read_bytes(path))}


def _npz(path: Path, infos: Sequence[TensorInfo]) -> dict[str, WireTensor]:
    with zipfile.ZipFile(io.BytesIO(read_bytes(path))) as archive:
        return {
            name.removesuffix(".npy"): parse_npy(archive.read(name)) for name in archive.namelist()
        }


def parse_npy(data: bytes) -> WireTensor:
    """Return an array as NumPy stores it; raise ValueError for types outside the protocol."""
    if not data.startswith(MAGIC) or len(data) < 12:
        raise ValueError("no array of NumPy")
    size = 2 if data[6] == 1 else 4
    length = int.from_bytes(data[8 : 8 + size], "little")
    start = 8 + size + length
    try:
        header = ast.literal_eval(data[8 + size : start].decode("latin-1"))
        letters, shape, fortran = header["descr"], tuple(header["shape"]), header["fortran_order"]
    except (SyntaxError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("no head of an array") from error
    if not isinstance(letters, str) or letters[:1] not in "<|=" or letters[1:] not in LETTERS:
        raise ValueError(f"arrays of {letters} are not sent")
    if fortran and len(shape) > 1:
        raise ValueError("the array is in the order of Fortran; numpy.ascontiguousarray turns it")
    datatype = LETTERS[letters[1:]]
    wanted = math.prod(shape) * SIZES[datatype]
    if len(data) - start != wanted:
        raise ValueError(f"{len(data) - start} bytes where its shape has {wanted}")
    return WireTensor(datatype, shape, memoryview(data)[start:])


def _json(path: Path, infos: Sequence[TensorInfo]) -> dict[str, WireTensor]:
    """``{"data": [{"INPUT": [...]}, ...]}``, every entry a sample; or ``{"INPUT": {...}}``."""
    content = json.loads(read_bytes(path))
    entries = content.get("data") if isinstance(content, dict) and "data" in content else [content]
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError('it is not {"data": [{INPUT: [values]}]}')
    tensors = {}
    for info in infos:
        if entries and info.name in entries[0]:
            tensors[info.name] = _joined(info, [each[info.name] for each in entries])
    return tensors


def _joined(info: TensorInfo, entries: Sequence[Any]) -> WireTensor:
    values: list[Any] = []
    shapes = set()
    for entry in entries:
        flat, shape = _values(entry, info)
        values += flat
        shapes.add(shape)
    if len(shapes) != 1:
        raise ValueError(f"{info.name} has entries of several shapes")
    shape = (len(entries), *shapes.pop())
    if math.prod(shape) != len(values):
        raise ValueError(f"{info.name} has {len(values)} values for {list(shape)}")
    return WireTensor(info.datatype, shape, memoryview(_data(info.datatype, values)))


def _data(datatype: str, values: Sequence[Any]) -> bytes:
    if datatype == "BYTES":
        return packed(values)
    if datatype == "BF16":
        return halved(struct.pack(f"<{len(values)}f", *values))
    if datatype not in CODES:
        raise ValueError(f"values of the type {datatype} are not sent")
    return struct.pack(f"<{len(values)}{CODES[datatype]}", *values)


def halved(data: bytes) -> bytes:
    """FP32 as BF16: the upper half of every value."""
    return b"".join(data[place + 2 : place + 4] for place in range(0, len(data), 4))


def _values(entry: Any, info: TensorInfo) -> tuple[list[Any], tuple[int, ...]]:
    """Return the flat values of an entry and their shape: explicit, nested, or the model's."""
    shape: tuple[int, ...] = ()
    if isinstance(entry, Mapping):
        shape, entry = tuple(entry.get("shape", ())), entry["content"]
    if not isinstance(entry, list):
        raise ValueError(f"{info.name} is not a list of values")
    values, nested = _flat(entry)
    own = info.shape[1:]
    return values, shape or nested or (own if -1 not in own else (len(values),))


def _flat(values: list[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Nested lists as one, and their shape where they were nested."""
    sizes: list[int] = []
    while values and isinstance(values[0], list):
        sizes.append(len(values))
        values = [each for inner in values for each in inner]
    totals = [1, *sizes, len(values)]
    shape = tuple(after // max(before, 1) for before, after in itertools.pairwise(totals))
    return values, shape if sizes else ()


READERS = {".npy": _npy, ".npz": _npz, ".json": _json}
