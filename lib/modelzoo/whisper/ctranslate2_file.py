"""The file of a model of CTranslate2: its name, its variables, and further names of these.

Facts: numbers are little-endian. A text is its length with the closing zero (16 bits), then its
bytes. The file holds its version, the name of the network, the revision of that (of 32 bits), and
the variables: name, number of axes (8 bits), sizes (32 bits), type (8 bits), bytes (32 bits),
values. At the end are pairs of a further name and the name that it stands for. Source: the
documentation and the serialization of CTranslate2 4.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelzoo.program import ProgramError

Array = npt.NDArray[Any]
VERSION = 6
# By their numbers in the file; bfloat16, which NumPy lacks, is refused.
TYPES = ("<f4", "i1", "<i2", "<i4", "<f2")


@dataclass(frozen=True, slots=True)
class CTranslate2File:
    """A network by its name, with its variables, and the names that stand for some of them."""

    network: str
    revision: int
    variables: dict[str, Array]
    aliases: dict[str, str]

    def scalar(self, name: str) -> int:
        """Return a setting; raise ProgramError where there is none."""
        values = self.variables.get(name)
        if values is None or values.size != 1:
            raise ProgramError(f"the file has no setting {name}")
        return int(values.reshape(-1)[0])


class _Reader:
    """What is left of the bytes of a file."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def bytes(self, count: int) -> bytes:
        """Return the next bytes; raise ProgramError where the file ends before."""
        taken = self._data[self._place : self._place + count]
        if len(taken) < count:
            raise ProgramError(f"the file ends after {len(self._data)} bytes, within a value")
        self._place += count
        return taken

    def number(self, kind: str) -> int:
        """Return the next number, of a type of ``struct``."""
        (value,) = struct.unpack(f"<{kind}", self.bytes(struct.calcsize(f"<{kind}")))
        return int(value)

    def text(self) -> str:
        """Return the next text; raise ProgramError for bytes that are none."""
        try:
            return self.bytes(self.number("H")).decode().removesuffix("\0")
        except UnicodeDecodeError as error:
            raise ProgramError(f"a name in the file is no text: {error}") from error

    def variable(self) -> tuple[str, Array]:
        """Return the next variable; raise ProgramError for one whose parts disagree."""
        name, axes = self.text(), self.number("B")
        shape = [self.number("I") for _ in range(axes)]
        kind, size = self.number("B"), self.number("I")
        if kind >= len(TYPES):
            raise ProgramError(f"{name} has the type {kind}, which is not read here")
        dtype = np.dtype(TYPES[kind])
        if size != math.prod(shape) * dtype.itemsize:
            raise ProgramError(f"{name} is {shape} of {dtype.name}, but has {size} bytes")
        return name, np.frombuffer(self.bytes(size), dtype).reshape(shape)

    def end(self) -> None:
        """Raise ProgramError unless nothing is left."""
        if left := len(self._data) - self._place:
            raise ProgramError(f"{left} bytes follow the end of the model")


def read(path: Path) -> CTranslate2File:
    """Return what a file holds; raise ProgramError for another format or version, or a cut one."""
    reader = _Reader(path.read_bytes())
    if (version := reader.number("I")) != VERSION:
        raise ProgramError(f"{path.name} is no file of CTranslate2 of version {VERSION}: {version}")
    network, revision = reader.text(), reader.number("I")
    variables = dict(reader.variable() for _ in range(reader.number("I")))
    aliases = {reader.text(): reader.text() for _ in range(reader.number("I"))}
    reader.end()
    return CTranslate2File(network, revision, variables, aliases)
