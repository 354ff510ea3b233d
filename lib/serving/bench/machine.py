"""What this machine does meanwhile: its load, what others took, and who uses its processors."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from common.problems import Problem

PROC = Path("/proc")
LISTENS = "0A"


@dataclass(frozen=True, slots=True)
class ClientHost:
    """The machine of the client, as a report names it."""

    name: str
    cpu: str
    cores: int
    python: str


@dataclass(frozen=True, slots=True)
class MachineSample:
    """Clocks and counters, in seconds; ``server_cpu`` is None where the server is elsewhere."""

    at: float
    own_cpu: float
    server_cpu: float | None
    stolen: float
    load: float | None


def host() -> ClientHost:
    """Return the facts of this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines = _text(PROC / "cpuinfo").splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    return ClientHost(
        platform.node(), cpu or platform.processor(), cores or 1, platform.python_version()
    )


def moment(server: int | None) -> MachineSample:
    """Return a sample; ``server`` is a process, counted with its descendants."""
    return MachineSample(
        time.monotonic(),
        time.process_time(),
        tree_seconds(server) if server else None,
        _stolen(),
        _load(),
    )


def allow_files(count: int) -> None:
    """Let this process open so many files; raises Problem where that is too many."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        text = f"so many connections need {count} open files; this system allows {hard}"
        raise Problem("server-failed", text, hint="fewer, or a higher limit (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except (OSError, AttributeError):
        return None


def _stolen() -> float:
    """Seconds of all processors that another virtual machine had, since the start."""
    words = _text(PROC / "stat").partition("\n")[0].split()
    return int(words[8]) / _ticks() if len(words) > 8 else 0.0


def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def tree_seconds(root: int) -> float:
    """Return the processor time of a process and its descendants."""
    seconds: dict[int, float] = {}
    parents: dict[int, int] = {}
    for folder in PROC.glob("[0-9]*"):
        words = _text(folder / "stat").rpartition(")")[2].split()
        if len(words) > 12:
            pid = int(folder.name)
            parents[pid] = int(words[1])
            seconds[pid] = (int(words[11]) + int(words[12])) / _ticks()
    return sum(value for pid, value in seconds.items() if _descends(pid, root, parents))


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == root:
            return True
        pid = parents.get(pid, 0)
    return pid == root


def listener(host: str, port: int) -> int | None:
    """The process here that listens on ``port``; None where it is elsewhere, or another user's."""
    links = {f"socket:[{inode}]" for inode in _listening(port)} if _is_here(host) else set()
    for folder in PROC.glob("[0-9]*/fd") if links else ():
        # Processes end, and those of others do not show their files.
        with contextlib.suppress(OSError):
            if any(os.readlink(each) in links for each in folder.iterdir()):
                return int(folder.parent.name)
    return None


def _listening(port: int) -> set[str]:
    """Return the sockets that listen on a port."""
    wanted = f":{port:04X}"
    tables = [_text(PROC / "net" / table).splitlines()[1:] for table in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return {row[9] for row in rows if row[3] == LISTENS and row[1].endswith(wanted)}


def _is_here(host: str) -> bool:
    """Whether a name leads to an address of this machine: only on one of those can be listened."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, place in addresses:
        with socket.socket(family, kind) as probe:
            try:
                probe.bind((place[0], 0))
            except OSError:
                continue
            return True
    return False
