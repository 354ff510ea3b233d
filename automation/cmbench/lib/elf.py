"""What an ELF file says of itself: the processor that it is for, the libraries that it needs."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

HEAD_BYTES = 20
"""So much of a file tells its processor."""
# Numbers of the ELF specification, names of uname.
_MACHINES = {3: "i686", 21: "ppc64le", 22: "s390x", 40: "armv7l", 62: "x86_64", 183: "aarch64"}
_MACHINES |= {243: "riscv64", 258: "loongarch64"}


def machine_in(head: bytes) -> str:
    """Return the processor that the first bytes of a file name; empty for one that is no ELF."""
    if not head.startswith(b"\x7fELF") or len(head) < HEAD_BYTES:
        return ""
    number = struct.unpack(("<" if head[5] == 1 else ">") + "H", head[18:20])[0]
    return _MACHINES.get(number, f"machine {number}")


def is_elf(path: str) -> bool:
    """Return whether a file begins as a program or library of Linux; raise OSError."""
    with open(path, "rb") as stream:
        return bool(machine_in(stream.read(HEAD_BYTES)))


def machine_misfit(path: str, machine: str = "") -> str:
    """Return why a file cannot be loaded on ``machine``, by default this one; empty if it may be.

    Nothing is said of a file that is no ELF, or cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            made_for = machine_in(stream.read(HEAD_BYTES))
    except OSError:
        return ""
    machine = machine or os.uname().machine
    fits = made_for in ("", machine) or {made_for, machine} <= _ARM
    return "" if fits else f"it is for {made_for}, but this is {machine}"


def needed_libraries(path: str) -> tuple[str, ...]:
    """Return the libraries that a 64-bit library needs by name, such as ``libcublas.so.12``.

    None is returned for another kind of file, or one that cannot be read.
    """
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=_READ) as data:
            return tuple(_needed(data)) if data[:6] == _LITTLE_64 else ()
    except (OSError, ValueError, struct.error):
        return ()


_READ = mmap.ACCESS_READ
_LITTLE_64 = b"\x7fELF\x02\x01"
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS = 1, 5
"""Kinds of program headers and of dynamic entries, as the ELF specification numbers them."""


def _needed(data: mmap.mmap) -> Iterator[str]:
    """Yield the names of the entries NEEDED, out of the string table that STRTAB names."""
    start, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<I4xQQ8xQ", data, start + n * size) for n in range(count)]
    entries: list[tuple[int, int]] = []
    for kind, offset, _, length in headers:
        if kind == _DYNAMIC:
            places = range(offset, offset + length, 16)
            entries += [struct.unpack_from("<QQ", data, place) for place in places]
    strings = next(value for tag, value in entries if tag == _STRINGS)
    table = next(
        strings - address + offset
        for kind, offset, address, length in headers
        if kind == _LOAD and address <= strings < address + length
    )
    for tag, value in entries:
        if tag == _NEEDED:
            name = table + value
            yield data[name : data.find(b"\0", name)].decode()


_ARM = {"aarch64", "arm64"}
"""Two names of one processor."""
