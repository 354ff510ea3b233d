"""Requirements of the files of an entry: a CPU, a Python, a glibc, their own path.

Found in the files themselves, as nobody else says it: the headers of programs and libraries, the
names of modules and folders that only one Python reads, paths of the cache that they were made in.
"""

from __future__ import annotations

import mmap
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from cmbench.cache.inventory import plain_files
from cmbench.lib.elf import machine_in

_SYMBOL = re.compile(rb"GLIBC_(\d+)\.(\d+)")
_MODULE = re.compile(r"\.cpython-(\d)(\d+)[a-z]*(-[\w-]+)?\.(so|pyd)$")
_PACKAGES = re.compile(r"(?:^|/)lib(?:64)?/python(\d+\.\d+)/site-packages/")
_LARGEST_TEXT = 1 << 20


@dataclass(frozen=True, slots=True)
class PlatformRequirements:
    """``cpus`` and ``pythons`` are alternatives; ``glibc`` is the oldest sufficient version.

    ``place`` is the cache whose path the files contain; empty where they contain none.
    """

    cpus: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    glibc: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class HostPlatform:
    """What a machine has; ``glibc`` is empty where it has another C library."""

    cpu: str
    glibc: str
    pythons: tuple[str, ...]


def this_host() -> HostPlatform:
    """Return what this machine has."""
    glibc = ""
    with suppress(ValueError, OSError, AttributeError):
        glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc").strip()
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    others = (f"3.{n}" for n in range(8, 20) if shutil.which(f"python3.{n}"))
    return HostPlatform(platform.machine(), glibc, tuple(dict.fromkeys([own, *others])))


def needs_of(folder: str, root: str) -> PlatformRequirements:
    """What the files below ``folder`` need; ``root`` is the cache that they were made in."""
    cpus: set[str] = set()
    pythons: set[str] = set()
    glibc, place = (0, 0), ""
    for name, info in plain_files(folder):
        if not stat.S_ISREG(info.st_mode):
            continue
        pythons.update(_pythons(name))
        with open(os.path.join(folder, name), "rb") as stream:
            head = stream.read(_LARGEST_TEXT)
            if cpu := machine_in(head):
                cpus.add(cpu)
                glibc = max(glibc, _glibc(stream.fileno()))
            elif info.st_size <= _LARGEST_TEXT and root.encode() in head:
                place = place or root
    version = ".".join(map(str, glibc)) if any(glibc) else ""
    return PlatformRequirements(tuple(sorted(cpus)), tuple(sorted(pythons)), version, place)


def _glibc(handle: int) -> tuple[int, int]:
    with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as data:
        versions = [(int(m[1]), int(m[2])) for m in _SYMBOL.finditer(data)]
    return max(versions, default=(0, 0))


def _pythons(name: str) -> Iterator[str]:
    module, packages = _MODULE.search(name), _PACKAGES.search(name)
    if module:
        yield f"{module[1]}.{module[2]}"
    if packages:
        yield packages[1]


def misfit(needs: PlatformRequirements, machine: HostPlatform, root: str = "") -> str:
    """Why files do not fit a machine whose cache is at ``root``; empty where they do."""
    if needs.cpus and machine.cpu not in needs.cpus:
        return f"its programs are for {', '.join(needs.cpus)}, but this machine is {machine.cpu}"
    if needs.pythons and not set(needs.pythons) & set(machine.pythons):
        return f"it is for Python {', '.join(needs.pythons)}, here is {machine.pythons[0]}"
    if needs.glibc and _version(machine.glibc) < _version(needs.glibc):
        return f"its programs need glibc {needs.glibc}, here is {machine.glibc or 'none'}"
    if needs.place and needs.place != root:
        return f"its files contain the path where it was made: {needs.place}"
    return ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
