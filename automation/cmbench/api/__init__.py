"""cmbench from Python: typed values in, typed values out; nothing is printed.

A ``Workspace`` is a CM home. ``request`` makes a checked request of words of the command line;
``plan``, ``explain`` and ``run`` take it. Every failure is a ``cmbench.errors.Error``. The modules
``cache``, ``author`` and ``containers`` hold what belongs to the commands about those.
``docs/reference/python-api.md`` shows all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cmbench.api.events import Event, EventStep, OnEvent
    from cmbench.api.history import RunSummary, StepSummary, one_run, progress, runs, steps
    from cmbench.api.planning import Explanation, PlannedRun, explain, plan
    from cmbench.api.repeating import diff, log, recall, record, replay
    from cmbench.api.running import FinishedRun, run
    from cmbench.api.scripts import ScriptSummary, find, show
    from cmbench.run.executor import Executor, Job, JobHandle, JobState, run_job
    from cmbench.run.process import LocalExecutor
    from cmbench.session.call import RunRequest, request
    from cmbench.session.workspace import Workspace

__all__ = [
    "Event",
    "EventStep",
    "Executor",
    "Explanation",
    "FinishedRun",
    "Job",
    "JobHandle",
    "JobState",
    "LocalExecutor",
    "OnEvent",
    "PlannedRun",
    "RunRequest",
    "RunSummary",
    "ScriptSummary",
    "StepSummary",
    "Workspace",
    "author",
    "cache",
    "containers",
    "diff",
    "events",
    "explain",
    "find",
    "history",
    "log",
    "one_run",
    "plan",
    "planning",
    "preparation",
    "progress",
    "readiness",
    "recall",
    "record",
    "repeating",
    "replay",
    "request",
    "run",
    "run_job",
    "running",
    "runs",
    "scripts",
    "show",
    "steps",
]

_MODULES = {
    "api.events": ("Event", "OnEvent", "EventStep"),
    "api.history": ("RunSummary", "StepSummary", "one_run", "progress", "runs", "steps"),
    "api.planning": ("Explanation", "PlannedRun", "explain", "plan"),
    "api.repeating": ("diff", "log", "recall", "record", "replay"),
    "api.running": ("FinishedRun", "run"),
    "api.scripts": ("ScriptSummary", "find", "show"),
    "run.executor": ("Executor", "Job", "JobHandle", "JobState", "run_job"),
    "run.process": ("LocalExecutor",),
    "session.call": ("RunRequest", "request"),
    "session.workspace": ("Workspace",),
}


def __dir__() -> list[str]:
    return [*__all__]


def __getattr__(name: str) -> Any:
    """Import a name or module when it is first used: a program that plans loads no runner."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"cmbench.{module}"), name)
    if name in __all__:
        return import_module(f"cmbench.api.{name}")
    raise AttributeError(f"cmbench.api has no {name}")
