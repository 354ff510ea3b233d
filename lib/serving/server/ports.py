"""Ports: free ones, and who holds one that is taken."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from common.problems import Problem

from .settings import Ports

LISTENS = "0A"


def free(host: str) -> Ports:
    """Return three ports that are free now."""
    with ExitStack() as held:
        numbers = []
        for _ in range(3):
            one = held.enter_context(socket.socket())
            one.bind((host, 0))
            numbers.append(one.getsockname()[1])
    return Ports(*numbers)


def require_free(host: str, ports: Ports) -> None:
    """Raise Problem for a port that is taken, and say by whom."""
    for port in ports.each():
        require_one_free(host, port, "choose other ports with --ports=auto")


def require_one_free(host: str, port: int, choice: str) -> None:
    """Raise Problem where the port is taken: by whom, and how to choose another one."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except OSError as error:
            raise Problem(
                "port-taken",
                f"port {port} cannot be used: {holder(port) or error.strerror}",
                f"{choice}, or end that program",
            ) from error


def holder(port: int) -> str:
    """Who listens at a port of this machine; empty where that cannot be seen."""
    inodes = _listening(port)
    for name in os.listdir("/proc") if inodes else ():
        if not name.isdigit():
            continue
        with suppress(OSError):
            for each in os.scandir(f"/proc/{name}/fd"):
                if os.readlink(each.path) in inodes:
                    words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                    words[0] = os.path.basename(words[0])
                    text = b" ".join(words).decode(errors="replace").strip()
                    return f"{text[:120]} (process {name}) has it"
    return "a process of another user has it" if inodes else ""


def _listening(port: int) -> set[str]:
    sockets = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as stream:
            for line in stream.readlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    return sockets
