"""The processor that a program or library is for, out of the header of its ELF file."""

from __future__ import annotations

import os
import struct

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


_ARM = {"aarch64", "arm64"}
"""Two names of one processor."""
