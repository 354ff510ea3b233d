"""``cm show runs``: the runs of this home, the newest first."""

from __future__ import annotations

import time
from typing import Any

from cmbench.api import history
from cmbench.api.history import RunSummary
from cmbench.cli.reply import Command, Reply
from cmbench.errors import Error
from common.text import wrapped

_USUAL = "20"


def show_runs(command: Command) -> Reply:
    """``cm show runs [WORDS]``: id, time, state, command, result and folder of every run.

    Raises ``bad-value`` for a limit that is not a number.
    """
    runs = history.runs(command.workspace, _limit(command))
    chosen = [run for run in runs if all(word in _searched(run) for word in command.names)]
    data = [_plain(run) for run in chosen]
    lines = [line for entry in data for line in _lines(entry)]
    lines = lines or ["no run matches" if runs else "no runs yet"]
    return Reply({"list": data}, "\n".join(lines), data)


def _limit(command: Command) -> int:
    limit = str(command.flags.get("limit", _USUAL))
    if not (limit.isascii() and limit.isdigit()):
        raise Error("bad-value", f"--limit={limit} is not a number", hint="write --limit=50")
    return int(limit)


def _searched(run: RunSummary) -> str:
    return f"{run.id} {run.status} {' '.join(run.command)}"


def _plain(run: RunSummary) -> dict[str, Any]:
    return {
        "id": run.id,
        "time": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started)),
        "seconds": run.seconds,
        "state": run.status,
        "command": " ".join(run.command),
        "result": history.figures(run),
        "error": run.error,
        "folder": run.folder,
    }


def _lines(run: dict[str, Any]) -> list[str]:
    seconds = f"{run['seconds']:.1f} s" if run["seconds"] else ""
    head = f"{run['id']}  {run['time']}  {run['state']:<11}  {seconds}".rstrip()
    result = ", ".join(f"{name} {text}" for name, text in run["result"].items())
    parts = (run["command"], result or run["error"], run["folder"])
    return [head, *(line for part in parts if part for line in wrapped(part, "  ", "    "))]
