"""Starting the programs of the package, with progress, and the reason when one fails."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from common.failure_output import first_cause, library_errors, without_advice
from common.problems import NEXT

from .. import records
from ..errors import PROGRAM, HarnessError
from ..jobs import STALLED
from ..measuring.telemetry import Monitor
from ..progress import ProgressWriter
from ..wording import duration
from . import process

LIVE = "live.json"
FORETOLD = "foretold.json"


def say(text: str) -> None:
    """Print a plain line for the user."""
    print(text, flush=True)


@dataclass(slots=True)
class Schedule:
    """How much of a session is done, in seconds as they were estimated.

    ``run_s`` is the estimate of the run that goes on now, 0 where it consists of several.
    """

    total_s: float = 0.0
    done_s: float = 0.0
    run_s: float = 0.0

    def left(self, running_s: float) -> float:
        """Seconds until the end, ``running_s`` of them in the run that goes on now."""
        return max(0.0, self.total_s - self.done_s - running_s)


def _caller() -> int:
    """The process that a session belongs to; 0 when it was started by hand and may outlive it."""
    return os.getppid() if os.environ.get("CM_TMP_RUN_DIR") else 0


_ALMOST = 0.95
"""The share of a run that has taken longer than expected."""


@dataclass(slots=True)
class Launcher:
    """Starts programs one after the other; ``monitor`` is the one of the run that goes on."""

    progress: ProgressWriter = field(default_factory=ProgressWriter)
    schedule: Schedule = field(default_factory=Schedule)
    monitor: Monitor | None = None
    caller: int = field(default_factory=_caller)

    def execute(
        self, program: str, folder: Path, request: object, label: str, expected_s: float
    ) -> None:
        """Run a program of the package in ``folder``; raises HarnessError when it fails."""
        config, console = folder / "run.json", folder / "console.txt"
        records.write(config, request)
        began = time.monotonic()

        def tick(pid: int = 0) -> None:
            if self.caller and os.getppid() != self.caller:
                # The parent was killed and can no longer end this process.
                raise process.InterruptSignal(signal.SIGTERM)
            passed = time.monotonic() - began
            total_s = max(expected_s, self.schedule.run_s, foretold(folder))
            more = self._more(folder, passed, passed > total_s)
            # A run that goes on is not complete, however long was expected.
            self.progress.report(label, passed, max(total_s, passed / _ALMOST), more=more)
            if self.monitor is not None:
                self.monitor.sample(pid)

        tick()
        status = process.run(program, config, console, tick)
        if status == STALLED:
            say("  LoadGen did not end after its last answer: the run is made again")
            status = process.run(program, config, console, tick)
        if status == STALLED:
            raise HarnessError("LoadGen did not end after its last answer, twice")
        if status != 0:
            raise HarnessError(reason(status, folder, console), advice(console))

    def _more(self, folder: Path, passed: float, late: bool = False) -> str:
        parts = ["longer than expected"] if late else []
        left = self.schedule.left(passed)
        if left > 1:
            parts.append(f"all runs end in {duration(left)}")
        rate = live_rate(folder)
        if rate is not None:
            parts.append(f"{rate:.0f} samples/s" if rate >= 10 else f"{rate:.2g} samples/s")
        return ", ".join(parts)


def live_rate(folder: Path) -> float | None:
    """Samples/s that the run in ``folder`` has answered so far, once it has begun."""
    path = folder / LIVE
    if not path.exists():
        return None
    try:
        state = records.read_json(path)
        return float(state["samples"] / state["seconds"]) if state["samples"] else None
    except (HarnessError, KeyError, TypeError, ZeroDivisionError):
        return None


def foretell(folder: Path, seconds: float) -> None:
    """For a program that runs in ``folder``: say how long it will take in all."""
    with contextlib.suppress(OSError):  # nothing fails for want of a display
        records.write(folder / FORETOLD, {"seconds": seconds})


def foretold(folder: Path) -> float:
    """The seconds that the program in ``folder`` says that it takes; 0 while it says nothing."""
    path = folder / FORETOLD
    if not path.exists():
        return 0.0
    try:
        return float(records.read_json(path)["seconds"])
    except (HarnessError, KeyError, TypeError, ValueError):
        return 0.0


def reason(status: int, folder: Path, console: Path) -> str:
    """Why a process failed: its own report, the signal, or the cause in its output."""
    outcome = folder / "outcome.json"
    if outcome.exists():
        failure = records.read_json(outcome).get("failure")
        if failure:
            return str(failure)
    if status < 0:
        return f"the process was ended by {_signal_in_words(signal.Signals(-status))}"
    lines = [line for line in _lines(console) if not line.startswith(NEXT)]
    own = next((n for n, line in enumerate(lines) if line.startswith(f"{PROGRAM}: ")), None)
    cause = lines[own:] if own is not None else first_cause(lines) or lines[-1:]
    text = without_advice("\n".join(cause).removeprefix(f"{PROGRAM}: ")) or "it printed nothing"
    # A library may have said more than the error that follows from it.
    earlier = [line for line in library_errors(lines[:own]) if line not in text]
    return "\n".join([text, *earlier])


def _signal_in_words(ended: signal.Signals) -> str:
    """Return the name of a signal and its likely reason."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if ended is signal.SIGKILL:
        return f"{ended.name}, as the system does when it runs out of memory"
    if limit != resource.RLIM_INFINITY:
        return f"{ended.name}, perhaps out of memory: its limit is {limit >> 20} MiB (ulimit -v)"
    return ended.name


def advice(console: Path) -> str:
    """What the process said to do next, if anything."""
    return next((line[len(NEXT) :] for line in _lines(console) if line.startswith(NEXT)), "")


def _lines(console: Path) -> list[str]:
    return console.read_text(encoding="utf-8", errors="replace").strip().splitlines()
