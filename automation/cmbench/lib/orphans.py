"""Processes that a run has left behind: found by their environment and their parents, and ended.

Whatever a step starts inherits the env key that names the step's private directory, also where it
has gone into a process group or a session of its own (``timeout``, ``set -m``, ``setsid``). One
with another environment (``env -i``, ``sudo``) is known by its parent.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

_KEY = b"_TMP_RUN_DIR"
"""How the name of that key ends; it starts with the prefix of the script's dialect."""


class Family:
    """The processes of a directory with all below them, from the first look on.

    Whoever has been seen stays one of them, also when its parent has ended and its pid
    means nothing any more. ``roots`` are processes that belong to them in any case.
    """

    def __init__(self, directory: str, *roots: int) -> None:
        self._directory = directory
        self._seen = {pid: started(pid) for pid in roots}

    def living(self) -> list[int]:
        """Return the pids of those that are alive."""
        born = _all()
        if self._directory:
            for pid in find(self._directory):
                if pid in born:
                    self._seen[pid] = born[pid][1]
        alive = {pid for pid, when in self._seen.items() if when and _when(born, pid) == when}
        for pid in _below(born, alive):
            self._seen[pid] = born[pid][1]
            alive.add(pid)
        return sorted(alive)

    def send_signal(self, number: int) -> list[int]:
        """Send them the signal ``number``; return the pids of those that were alive."""
        pids = self.living()
        for pid in pids:
            # One of these pids may have been given again meanwhile.
            if started(pid) == self._seen[pid]:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        return pids

    def end(self, seconds: float = 2.0) -> int:
        """End them by force; returns how many there were. Waits until they are gone."""
        pids = self.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + seconds
        # A process that one of them started just before it ended gets the signal too.
        while pids and time.monotonic() < deadline and self.send_signal(signal.SIGKILL):
            time.sleep(0.02)
        return len(pids)

    def stop(self, seconds: float = 2.0) -> None:
        """Ask them to end; force them after ``seconds`` or a second interruption."""
        try:
            signalled = self.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + seconds
            while signalled and time.monotonic() < deadline and self.living():
                time.sleep(0.02)
        finally:
            self.end(0.5)


def end(directory: str, seconds: float = 2.0) -> int:
    """End the processes of ``directory`` by force, as ``Family`` does."""
    return Family(directory).end(seconds)


def stop(directory: str, seconds: float = 2.0) -> None:
    """Ask the processes of ``directory`` to end, and force them, as ``Family`` does."""
    Family(directory).stop(seconds)


def find(directory: str) -> list[int]:
    """Pids of this machine's processes whose private directory is ``directory`` or below it.

    Looks at ``/proc`` and sees only what the user may see; elsewhere nothing is found.
    """
    return [pid for pid in _pids() if _is_below(_private(pid), directory)]


def occupied(directories: Iterable[str]) -> set[str]:
    """Return the ``directories`` in which processes run; look through ``/proc`` once."""
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


def started(pid: int) -> str:
    """When a process started, so that a pid that was given again is not taken for it.

    Empty for one that is gone, or has ended and waits for its parent.
    """
    return _stat(pid)[1]


def _stat(pid: int) -> tuple[int, str]:
    """The parent of a process and when it started."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except OSError:
        return 0, ""
    return (0, "") if fields[0] in "ZX" else (int(fields[1]), fields[19])


def _all() -> dict[int, tuple[int, str]]:
    """All processes that are alive, but this one and so nothing that is known by it."""
    states = {pid: _stat(pid) for pid in _pids()}
    return {pid: state for pid, state in states.items() if state[1]}


def _when(born: dict[int, tuple[int, str]], pid: int) -> str:
    return born.get(pid, (0, ""))[1]


def _below(born: dict[int, tuple[int, str]], above: Iterable[int]) -> list[int]:
    """All descendants of some processes."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in born.items():
        children.setdefault(parent, []).append(pid)
    descendants: dict[int, None] = {}
    pending = [child for pid in above for child in children.get(pid, ())]
    while pending:
        pid = pending.pop()
        if pid not in descendants:
            descendants[pid] = None
            pending += children.get(pid, ())
    return list(descendants)
