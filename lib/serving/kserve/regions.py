"""System shared memory: a region that a server on the same machine maps too.

A region has a name in /dev/shm only while the server opens it, a few milliseconds. Before, it is
a file without a name; afterwards, the mappings keep it. During these milliseconds a shell waits to
remove the name, and does so too if this process is killed. A server keeps what is registered until
it is unregistered, so whoever makes the next region unregisters those of processes that are gone.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import mmap
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .errors import KserveError

if TYPE_CHECKING:
    from .values import SharedRegion

SHM = Path("/dev/shm")
PREFIX = "kserve"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class RegionSlice:
    """A tensor's slice of a region: ``size`` bytes from ``offset``, and the memory itself."""

    region: str
    offset: int
    size: int
    datatype: str
    shape: tuple[int, ...]
    memory: memoryview


class RegionRegistry(Protocol):
    """The calls to a server about regions; a connection has them."""

    def regions(self) -> tuple[SharedRegion, ...]:
        """Return those that are registered."""

    def register_region(self, name: str, key: str, size: int, offset: int = 0) -> None:
        """Have the server map ``size`` bytes of /dev/shm``key``."""

    def unregister_region(self, name: str) -> None:
        """Have it forget them."""


class Region:
    """``size`` bytes that a server has registered, until ``close``.

    Raises KserveError: ``memory`` where /dev/shm is full or missing, and what the registry raises.
    """

    def __init__(self, registry: RegionRegistry, size: int) -> None:
        self.name = f"{_own_prefix()}-{next(_numbers)}"
        self.size = size
        self._registry = registry
        remove_stale_regions(registry)
        descriptor = _reserve(size)
        try:
            self._map = mmap.mmap(descriptor, size)
            with _named(descriptor, self.name):
                registry.register_region(self.name, f"/{self.name}", size)
        finally:
            os.close(descriptor)
        self.memory = memoryview(self._map)

    def slice(self, offset: int, datatype: str, shape: tuple[int, ...], size: int) -> RegionSlice:
        """Return a slice of ``size`` bytes; raise KserveError (``input``) outside the region."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise KserveError("input", f"{size} bytes from {offset} on are not in the region")
        memory = self.memory[offset : offset + size]
        return RegionSlice(self.name, offset, size, datatype, shape, memory)

    def close(self) -> None:
        """Have the server forget it; the memory goes with the last view of it."""
        with contextlib.suppress(KserveError):
            self._registry.unregister_region(self.name)

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reserve(size: int) -> int:
    """A file without a name in /dev/shm, all of whose pages are there: none is missing later."""
    try:
        descriptor = os.open(SHM, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise KserveError("memory", f"no shared memory in {SHM}: {error.strerror}") from error
    try:
        # Asked first: a request for all of a large memory would push other programs out of it.
        room = os.fstatvfs(descriptor)
        if room.f_bavail * room.f_frsize < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.close(descriptor)
        raise KserveError(
            "memory",
            f"{size:,} bytes of shared memory: {error.strerror}",
            hint=f"see `df {SHM}`; a container has 64 MB unless it is started with --shm-size=1g",
        ) from error
    return descriptor


@contextlib.contextmanager
def _named(descriptor: int, name: str) -> Iterator[None]:
    """Give the file its name for the length of the block."""
    program = 'trap "" INT TERM HUP; read -r _; rm -f -- "$1"'
    with subprocess.Popen(
        ["/bin/sh", "-c", program, "sh", str(SHM / name)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ):
        folder = os.open(SHM, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Only with a folder does Python call linkat, which follows the link of /proc.
            os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)
            yield
        except OSError as error:
            raise KserveError("memory", f"{SHM / name}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            os.close(folder)


def remove_stale_regions(registry: RegionRegistry) -> None:
    """Unregister the regions of processes of this machine that have ended."""
    for region in registry.regions():
        if abandoned(region.name):
            with contextlib.suppress(KserveError):
                registry.unregister_region(region.name)


def abandoned(name: str) -> bool:
    """Return whether a region's process was one that this one would see, and is gone."""
    space = _space()
    words = name.removeprefix(f"{PREFIX}-{space}-").split("-")
    if not space or not name.startswith(f"{PREFIX}-{space}-") or len(words) != 3:
        return False
    return words[0].isdigit() and started(int(words[0])) != words[1]


def _own_prefix() -> str:
    return f"{PREFIX}-{_space()}-{os.getpid()}-{started(os.getpid())}"


def _space() -> str:
    """Return the ids of this boot and of the process namespace; empty where unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return f"{boot[:8]}{os.stat('/proc/self/ns/pid').st_ino:x}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """When a process started, in ticks since the machine did; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
