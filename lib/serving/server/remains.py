"""What a server may leave behind, found by its mark: processes, and regions of shared memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from .settings import FAMILY

KEY = "CM_TRITON_KEEPER"
SHARED = Path("/dev/shm")
# The process of an instance of a Python model, as the kernel shortens its name.
STUB = "triton_python_b"


def processes(mark: str, but: Collection[int] = (), session: int = 0) -> list[int]:
    """Pids of the processes that were started under ``mark``, as far as the user may see them.

    Those of ``session``, if there is one, are too: a process that renames itself, as vLLM's do,
    overwrites its environment.
    """
    wanted = f"{KEY}={mark}".encode()
    return [
        pid
        for pid, words in _environments()
        if pid not in but and (wanted in words or (session and _session_of(pid) == session))
    ]


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as stream:
                yield int(name), stream.read().split(b"\0")


def dead_stubs(mark: str) -> int:
    """Return how many processes of Python models have died without the server's notice.

    While a model loads, the server waits for its process for as long as it lives itself.
    """
    owners, count = set(processes(mark)), 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            name, _, rest = path.read_text(errors="replace").partition("(")[2].rpartition(") ")
            state, parent = rest.split()[:2]
            count += state == "Z" and name == STUB and int(parent) in owners
    return count


def regions(mark: str) -> list[Path]:
    """Return the regions of shared memory under ``mark``."""
    return list(SHARED.glob(f"{mark}*"))


def end(mark: str, but: Collection[int] = (), session: int = 0, patience_s: float = 2.0) -> None:
    """End what runs under ``mark`` or in ``session``, by force, and remove its regions."""
    deadline = time.monotonic() + patience_s
    while pids := processes(mark, but, session):
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    for region in regions(mark):
        region.unlink(missing_ok=True)


def remove_stale_regions() -> None:
    """Remove shared memory of this user's servers that were killed before they could."""
    leftovers: dict[str, list[Path]] = {}
    for path in regions(f"{FAMILY}{os.getuid()}-"):
        mark = "-".join(path.name.split("-")[:3]) + "-"
        leftovers.setdefault(mark, []).append(path)
    if not leftovers:
        return
    alive = {word for _, words in _environments() for word in words if KEY.encode() in word}
    for mark, paths in leftovers.items():
        if f"{KEY}={mark}".encode() not in alive:
            for path in paths:
                with suppress(OSError):
                    path.unlink()
