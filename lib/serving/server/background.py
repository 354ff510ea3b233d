"""Servers that live on in the background: where they are noted down, and how they are ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.problems import Problem

from . import remains
from .server import GRACE_S, RunningServer

SERVER_RECORD = "server.json"


def home() -> Path:
    """Return the folder of this user's servers, which no other user can write to.

    Raises Problem when it belongs to another user.
    """
    path = Path(tempfile.gettempdir(), f"triton-servers-{os.getuid()}")
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid() or path.stat().st_mode & 0o022:
        raise Problem("not-writable", f"{path} belongs to another user", "remove it")
    return path


def new_place() -> Path:
    """Return a folder for a server that is to be started."""
    return Path(tempfile.mkdtemp(dir=home()))


def note(server: RunningServer) -> Mapping[str, Any]:
    """Note a server down, so that it can be found and ended; returns the facts."""
    facts = {
        "url": server.url,
        "grpc_url": server.grpc_url,
        "port": server.ports.http,
        "mark": server.kept.mark,
        "keeper": server.keeper.pid,
        "log": str(server.kept.log),
    }
    path = Path(server.kept.folder, SERVER_RECORD)
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return facts


def noted() -> dict[int, Mapping[str, Any]]:
    """Return the servers that still run, by their HTTP port; notes of others are removed."""
    records = {}
    for path in sorted(home().glob(f"*/{SERVER_RECORD}")):
        with contextlib.suppress(OSError, ValueError):
            facts = json.loads(path.read_text(encoding="utf-8"))
            if remains.processes(facts["mark"]):
                records[int(facts["port"])] = facts
            else:
                shutil.rmtree(path.parent, ignore_errors=True)
    return dict(sorted(records.items()))


def stop(port: int | None) -> list[Mapping[str, Any]]:
    """End the server at a port, or the only one; returns the facts of what was ended.

    Raises Problem where none is there, or several are and none is named.
    """
    records = noted()
    names = ", ".join(map(str, records))
    if port is None and len(records) > 1:
        text = f"there are several servers in the background, at the ports {names}"
        raise Problem("bad-value", text, "name one of them: --port=PORT")
    chosen = [facts for number, facts in records.items() if port in (None, number)]
    if port is not None and not chosen:
        there = f"those there are have the ports {names}" if records else "there is none"
        raise Problem("entry-not-found", f"no server of ours has the port {port}; {there}")
    for facts in chosen:
        end(facts)
    return chosen


def end(facts: Mapping[str, Any]) -> None:
    """End a server that was noted down; nothing of it is left afterwards."""
    mark, keeper = str(facts["mark"]), int(facts["keeper"])
    if keeper in remains.processes(mark):
        os.kill(keeper, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while remains.processes(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    remains.end(mark)
    shutil.rmtree(Path(facts["log"]).parent, ignore_errors=True)
