"""A server of a language model for the time of a block."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from common.failure_output import explained
from common.problems import NEXT, Problem
from serving.http_client import authority
from serving.server import server
from serving.server.settings import KeeperSettings, new_mark

from .refusals import require_model
from .settings import TextServerSettings

POLL_S = 0.1
LAST_LINES = 8
TRIES = 5
TAKEN = re.compile(r"port \d+ cannot be used|address already in use", re.IGNORECASE)
OUT_OF_MEMORY = re.compile(
    r"out of memory|MemoryError|DefaultCPUAllocator: can't allocate|unable to allocate"
    r"|failed to allocate|No available memory for the cache",
    re.IGNORECASE,
)


@contextlib.contextmanager
def running(settings: TextServerSettings, folder: Path, timeout_s: float = 600.0) -> Iterator[str]:
    """Yield the URL of a server on a free port that is ready; it ends with this process.

    Raises Problem where it ends itself, or is not ready in ``timeout_s`` seconds.
    """
    require_model(settings)
    settings, kept, keeper = _started(settings, folder, time.monotonic() + timeout_s)
    try:
        yield f"http://{authority(settings.host, settings.port)}/v1"
    finally:
        server.end(kept, keeper)


def _started(
    settings: TextServerSettings, folder: Path, deadline: float
) -> tuple[TextServerSettings, KeeperSettings, subprocess.Popen[bytes]]:
    """Return a server that is ready, with its port; another process may take one before it."""
    for _ in range(TRIES):
        settings = replace(settings, port=free_port(settings.host))
        kept = KeeperSettings(settings.command(sys.executable), new_mark(), str(folder))
        keeper = server.keep(kept)
        try:
            _wait_ready(settings, kept, keeper, deadline)
        except BaseException as error:
            server.end(kept, keeper)
            if not isinstance(error, Problem) or not TAKEN.search(server.read_log(kept)):
                raise
        else:
            return settings, kept, keeper
    raise Problem("port-taken", f"no free port was found in {TRIES} tries", "try again")


def free_port(host: str) -> int:
    """Return a port that is free now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.bind((host, 0))
        port: int = one.getsockname()[1]
    return port


def _wait_ready(
    settings: TextServerSettings,
    kept: KeeperSettings,
    keeper: subprocess.Popen[bytes],
    deadline: float,
) -> None:
    while not _is_ready(settings):
        if keeper.poll() is not None:
            raise _failed(f"{settings.kind.title} has ended", kept)
        if time.monotonic() > deadline:
            raise _failed("the model is not ready in time", kept)
        time.sleep(POLL_S)


def _is_ready(settings: TextServerSettings) -> bool:
    connection = http.client.HTTPConnection(settings.host, settings.port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _failed(text: str, kept: KeeperSettings) -> Problem:
    """Return the failure with its own cause, out of what the server has written."""
    lines = [line.strip() for line in server.read_log(kept).splitlines() if line.strip()]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    hint = f"is the model whole, and does it fit into the {memory:.0f} GB of this machine?"
    if lines and lines[-1].startswith(NEXT):
        hint = lines.pop().removeprefix(NEXT)
    elif any(OUT_OF_MEMORY.search(line) for line in lines):
        text += ": out of memory"
        hint = "fewer --slots, a shorter --context, or a smaller model"
    return Problem("server-failed", text, hint=hint, context=explained(lines, LAST_LINES))
