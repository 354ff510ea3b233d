"""The runs of a home, of all users: those in progress, those that have ended, those that died."""

from __future__ import annotations

import calendar
import glob
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cmbench.errors import Error
from cmbench.record import is_run_id, load_record
from cmbench.repeat.figures import figures_of
from cmbench.run.recorder import EVENTS, PROGRESS
from cmbench.session.workspace import Workspace
from cmbench.values import immutable

INTERRUPTED = "interrupted"
"""The code of the error, and the status, of a run that its user has ended."""


@immutable(frozen=True, slots=True, eq=True, repr=True)
class RunSummary:
    """A run: its id, its folder, ``running``, ``done``, ``failed``, ``interrupted`` or ``killed``.

    ``started`` is in seconds since the epoch, ``seconds`` how long it took, once it has ended: of a
    killed one until it last wrote something.
    ``command`` is empty and ``pid`` 0 where it was killed before it could write them.
    """

    id: str
    folder: str
    status: str
    started: float
    seconds: float = 0.0
    command: tuple[str, ...] = ()
    error: str = ""
    pid: int = 0


@immutable(frozen=True, slots=True, eq=True, repr=True)
class StepSummary:
    """A step of a run, from its events: ``status`` is empty while it runs.

    ``started`` is in seconds since the epoch; ``number`` counts the steps in the order in which
    they started, and ``caller`` is that of the one it was started for, -1 for none.
    """

    number: int
    caller: int
    chain: tuple[str, ...]
    started: float
    status: str = ""
    seconds: float = 0.0
    version: str = ""


def runs(workspace: Workspace, limit: int = 50) -> list[RunSummary]:
    """Return the newest ``limit`` runs, the newest first."""
    place = os.path.join(workspace.root, "runs")
    names: list[str] = []
    with suppress(OSError):
        names = sorted(filter(is_run_id, os.listdir(place)), reverse=True)[:limit]
    alive = set(workspace.store.live.names())
    return [_known(os.path.join(place, name), alive) for name in names]


def one_run(workspace: Workspace, run: str) -> RunSummary:
    """Return the run with this id; raises ``entry-not-found``."""
    folder = os.path.join(workspace.root, "runs", run)
    if not is_run_id(run) or not os.path.isdir(folder):
        raise Error("entry-not-found", f"there is no run {run}", hint="see them: `cm show runs`")
    return _known(folder, set(workspace.store.live.names()))


def _known(folder: str, alive: Collection[str]) -> RunSummary:
    name = os.path.basename(folder)
    try:
        data = load_record(os.path.join(folder, "record.json"))
    except (Error, OSError):
        return _without_record(folder, f"0-{name}.json" in alive)
    error = data.get("error") or {}
    is_interrupted = error.get("code") == INTERRUPTED
    return RunSummary(
        name,
        folder,
        INTERRUPTED if is_interrupted else str(data.get("status", "")),
        float(data.get("started", 0.0)),
        float(data.get("seconds", 0.0)),
        tuple(map(str, data.get("command") or ())),
        str(error.get("message", "")),
    )


def _without_record(folder: str, alive: bool) -> RunSummary:
    name = os.path.basename(folder)
    head: Mapping[str, Any] = next(_events(folder), {})
    started = float(head.get("started", _begun(name)))
    return RunSummary(
        name,
        folder,
        "running" if alive else "killed",
        started,
        0.0 if alive else max(0.0, _last_written(folder) - started),
        command=tuple(map(str, head.get("command", ()))),
        pid=int(head.get("pid", 0)),
    )


def figures(run: RunSummary) -> dict[str, str]:
    """Return the figures of benchmarks that a run has measured, in words, by what they are of."""
    return {name: figure.text() for name, figure in figures_of(run.folder).items()}


def report_of(run: RunSummary) -> str:
    """Return the path of the newest report of a run; empty where it has none."""
    pages = glob.glob(os.path.join(glob.escape(run.folder), "*", "report.html"))
    return max(pages, key=os.path.getmtime, default="")


def progress(run: RunSummary) -> Mapping[str, Any]:
    """Progress of the work of a run that reports it: ``label``, ``done``, ``total``, ``unit``.

    Empty where none does.
    """
    try:
        with open(os.path.join(run.folder, PROGRESS), encoding="utf-8") as stream:
            values = json.load(stream)
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def steps(run: RunSummary) -> list[StepSummary]:
    """The steps of a run that have started, in that order; none of runs before there were events.

    Two steps of one chain are distinguished by their order: the one that started last ends first.
    """
    seen_steps: list[StepSummary] = []
    running: dict[tuple[str, ...], list[int]] = {}
    for event in _events(run.folder):
        chain = tuple(map(str, event.get("chain", ())))
        same = running.setdefault(chain, [])
        if "at" in event:
            caller = (running.get(chain[:-1]) or [-1])[-1]
            same.append(len(seen_steps))
            seen_steps.append(StepSummary(len(seen_steps), caller, chain, float(event["at"])))
        elif same and "status" in event:
            last = same.pop()
            seen_steps[last] = _ended(seen_steps[last], event)
    return seen_steps


def _ended(step: StepSummary, event: Mapping[str, Any]) -> StepSummary:
    outcome = str(event["status"]), float(event.get("seconds", 0.0)), str(event.get("version", ""))
    return StepSummary(step.number, step.caller, step.chain, step.started, *outcome)


def _events(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of the file of events; one that is half written is left out."""
    with suppress(OSError), open(os.path.join(folder, EVENTS), encoding="utf-8") as stream:
        for line in stream:
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


def _last_written(folder: str) -> float:
    """When a run wrote into one of its own files for the last time; 0 where there are none."""
    with suppress(OSError), os.scandir(folder) as entries:
        return max((each.stat().st_mtime for each in entries if each.is_file()), default=0.0)
    return 0.0


def _begun(name: str) -> float:
    """When a run began, by its id."""
    return float(calendar.timegm(time.strptime(name[:15], "%Y%m%d-%H%M%S")))
