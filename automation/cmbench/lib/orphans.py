"""Processes that a killed run has left behind: found by their environment, and ended."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress


def find(key: str, directory: str) -> list[int]:
    """Pids of this machine's processes whose env ``key`` names a path below ``directory``.

    Looks at ``/proc`` and sees only what the user may see; elsewhere nothing is found.
    """
    wanted = f"{key}={directory.rstrip('/')}/".encode()
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [int(name) for name in names if int(name) != os.getpid() and _has(name, wanted)]


def _has(pid: str, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return any(item.startswith(wanted) for item in stream.read().split(b"\0"))
    except OSError:
        return False


def end(key: str, directory: str, seconds: float = 2.0) -> int:
    """End those processes, by force; returns how many there were. Waits until they are gone."""
    pids = find(key, directory)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while pids and time.monotonic() < deadline and find(key, directory):
        time.sleep(0.02)
    return len(pids)
