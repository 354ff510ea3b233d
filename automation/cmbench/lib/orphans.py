"""Processes that a run has left behind: found by their environment, and ended.

Whatever a step starts inherits the env key that names the step's private directory, also where it
has gone into a process group or a session of its own (``timeout``, ``set -m``, ``setsid``).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

_KEY = b"_TMP_RUN_DIR"
"""How the name of that key ends; it starts with the prefix of the script's dialect."""


def find(directory: str) -> list[int]:
    """Pids of this machine's processes whose private directory is ``directory`` or below it.

    Looks at ``/proc`` and sees only what the user may see; elsewhere nothing is found.
    """
    return [pid for pid in _pids() if _is_below(_private(pid), directory)]


def found_of(directories: Iterable[str]) -> set[str]:
    """Those of ``directories`` for which ``find`` finds something; looks through ``/proc`` once."""
    every = [path for pid in _pids() for path in _private(pid)]
    return {directory for directory in directories if _is_below(every, directory)}


def _pids() -> list[int]:
    """All but this process."""
    try:
        names = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in names if pid != os.getpid()]


def _private(pid: int) -> list[bytes]:
    """The private directories that the environment of a process names."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            items = [item.partition(b"=") for item in stream.read().split(b"\0")]
    except OSError:
        return []
    return [value for key, _, value in items if key.endswith(_KEY)]


def _is_below(paths: Iterable[bytes], directory: str) -> bool:
    wanted = os.fsencode(directory.rstrip("/")) + b"/"
    return any((path + b"/").startswith(wanted) for path in paths)


def tell(directory: str, number: int) -> list[int]:
    """Send those processes a signal; the pids of those that were there."""
    pids = find(directory)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return pids


def end(directory: str, seconds: float = 2.0) -> int:
    """End those processes, by force; returns how many there were. Waits until they are gone."""
    pids = tell(directory, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while pids and time.monotonic() < deadline and find(directory):
        time.sleep(0.02)
    return len(pids)


def stop(directory: str, seconds: float = 2.0) -> None:
    """Ask those processes to end; force them after ``seconds`` or a second interruption."""
    try:
        asked = tell(directory, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while asked and time.monotonic() < deadline and find(directory):
            time.sleep(0.02)
    finally:
        end(directory, 0.5)
