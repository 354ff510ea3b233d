"""The runs of a home, whoever has started them: those that go on, that have ended, that died."""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Sequence
from contextlib import suppress

from cmbench.errors import Error
from cmbench.record import load_record
from cmbench.session.workspace import Workspace
from cmbench.values import immutable


@immutable(frozen=True, slots=True, eq=True, repr=True)
class KnownRun:
    """A run: its id, its folder, ``running``, ``done``, ``failed`` or ``killed``.

    ``started`` is in seconds since the epoch, ``seconds`` how long it took, once it has ended.
    ``command`` is empty where it was killed before it could tell.
    """

    id: str
    folder: str
    status: str
    started: float
    seconds: float = 0.0
    command: tuple[str, ...] = ()
    error: str = ""


def runs(workspace: Workspace, limit: int = 50) -> list[KnownRun]:
    """The newest ``limit`` runs, the newest first."""
    place = os.path.join(workspace.root, "runs")
    names: list[str] = []
    with suppress(OSError):
        names = sorted(os.listdir(place), reverse=True)[:limit]
    alive = set(workspace.store.living())
    return [known(os.path.join(place, name), alive) for name in names]


def known(folder: str, alive: Sequence[str] | set[str]) -> KnownRun:
    """What is known of the run in ``folder``; ``alive`` are the marks of runs that go on."""
    name = os.path.basename(folder)
    record = os.path.join(folder, "record.json")
    try:
        data = load_record(record)
    except (Error, OSError):
        status = "running" if f"0-{name}.json" in alive else "killed"
        return KnownRun(name, folder, status, _begun(name))
    error = data.get("error") or {}
    return KnownRun(
        name,
        folder,
        str(data.get("status", "")),
        float(data.get("started", 0.0)),
        float(data.get("seconds", 0.0)),
        tuple(map(str, data.get("command") or ())),
        str(error.get("message", "")),
    )


def _begun(name: str) -> float:
    """When a run began, by its id."""
    try:
        return float(calendar.timegm(time.strptime(name[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return 0.0
