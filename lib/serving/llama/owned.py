"""A llama.cpp server for the time of a block."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from common.problems import Problem
from serving.server import server
from serving.server.settings import KeeperSettings, new_mark

from .settings import LlamaSettings, require_model

POLL_S = 0.1
LAST_LINES = 8


@contextlib.contextmanager
def running(settings: LlamaSettings, folder: Path, timeout_s: float = 600.0) -> Iterator[str]:
    """Yield the URL of a server on a free port that is ready; it ends with this process.

    Raises Problem where it ends itself, or is not ready in ``timeout_s`` seconds.
    """
    require_model(settings.model)
    settings = replace(settings, port=_free_port(settings.host))
    kept = KeeperSettings(settings.command(sys.executable), new_mark(), str(folder))
    keeper = server.keep(kept)
    try:
        _wait_ready(settings, kept, keeper, time.monotonic() + timeout_s)
        yield f"http://{settings.host}:{settings.port}/v1"
    finally:
        server.end(kept, keeper)


def _free_port(host: str) -> int:
    with socket.socket() as one:
        one.bind((host, 0))
        port: int = one.getsockname()[1]
    return port


def _wait_ready(
    settings: LlamaSettings,
    kept: KeeperSettings,
    keeper: subprocess.Popen[bytes],
    deadline: float,
) -> None:
    while not _is_ready(settings):
        if keeper.poll() is not None:
            raise _failed("llama.cpp's server has ended", kept)
        if time.monotonic() > deadline:
            raise _failed("the model is not ready in time", kept)
        time.sleep(POLL_S)


def _is_ready(settings: LlamaSettings) -> bool:
    connection = http.client.HTTPConnection(settings.host, settings.port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _failed(text: str, kept: KeeperSettings) -> Problem:
    lines = server.read_log(kept).splitlines()
    context = [line.strip() for line in lines if line.strip()][-LAST_LINES:]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    hint = f"is the file whole, and does it fit into the {memory:.0f} GB of this machine?"
    return Problem("server-failed", text, hint=hint, context=context)
