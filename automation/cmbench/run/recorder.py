"""One JSON record per run, failed ones too: the request, the steps and the machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cmbench.errors import Error
from cmbench.index.scripts import Repository
from cmbench.lib.secrecy import Secrets
from cmbench.plan.step_run import StepRun
from cmbench.record import FORMAT, host_facts, revision
from cmbench.run.log import RunLog
from cmbench.run.reporter import StepEnd

EVENTS = "steps.jsonl"
PROGRESS = "progress.json"
"""A line when a run begins, when a step starts and when it ends: see ``cmbench.api.history``."""


class RunRecorder:
    """A reporter that collects events; ``write`` writes the record into the folder of the log."""

    watches = False

    def __init__(
        self,
        directory: str,
        log: RunLog | None,
        command: Sequence[str],
        flags: Mapping[str, Any],
        secrets: Secrets,
    ) -> None:
        self.directory = directory
        self._flags = flags
        self._secrets = secrets
        self.path = os.path.join(directory, "record.json")
        self._log = log
        self._started = time.time()
        self._directory = os.getcwd()
        self._words = secrets.words(command)
        self._steps: list[dict[str, Any]] = []
        # The record is written at the end. This file describes a run in progress, or a killed one.
        self._events = RunLog(os.path.join(directory, EVENTS), secrets) if log else None
        self._tell(pid=os.getpid(), command=self._words, started=self._started)
        self._progress_at = 0.0

    @property
    def command(self) -> str:
        """The command line of the run, secrets hidden."""
        import shlex

        return shlex.join(self._words)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What has been recorded of every finished step, in the order in which they ended."""
        return self._steps

    def begin(self, total: int) -> None:
        """Nothing to keep: the number of steps follows from the steps."""

    def started(self, step_run: StepRun, depth: int) -> None:
        """Write a heading into the log."""
        self._tell(chain=step_run.chain(), at=round(time.time(), 3))
        self._write(f"== {' > '.join(step_run.chain())}")

    def left(self, step_run: StepRun) -> None:
        """What was under way is over."""
        if self._progress_at:
            self._progress_at = 0.0
            with suppress(OSError):
                os.unlink(os.path.join(self.directory, PROGRESS))

    def finished(self, step_run: StepRun, depth: int, end: StepEnd) -> None:
        """Keep the step."""
        outcome = end.outcome
        used = step_run.trace.libraries.get(step_run.script.path)
        self._steps.append(
            {
                "step": step_run.step.label,
                "chain": list(step_run.chain()),
                "script": step_run.script.alias,
                "script_uid": step_run.script.uid,
                "content": step_run.step.content,
                "variations": list(step_run.step.choice.variations),
                "status": end.status,
                "why": end.why,
                "seconds": round(end.seconds, 4),
                "version": outcome.version if outcome else "",
                "reads": step_run.reads(),
                "entry": outcome.entry if outcome else "",
                "new_env": outcome.new_env if outcome else {},
                **({"libraries": used} if used else {}),
                **({"error": end.error} if end.error else {}),
            }
        )
        self._tell(
            chain=step_run.chain(),
            status=end.status,
            seconds=round(end.seconds, 3),
            version=outcome.version if outcome else "",
        )
        self._write(f"== {step_run.step.label}: {end.status} in {end.seconds:.2f} s")

    def progress(self, data: Mapping[str, Any]) -> None:
        """Write the newest, at most one in a second, for other processes that show the run."""
        now = time.monotonic()
        if self._events is None or now - self._progress_at < 1:
            return
        self._progress_at = now
        path = os.path.join(self.directory, PROGRESS)
        with suppress(OSError):
            with open(f"{path}.new", "w", encoding="utf-8") as stream:
                stream.write(json.dumps(self._secrets.data(data)))
            os.replace(f"{path}.new", path)

    def output(self, line: str) -> None:
        """The step runner itself writes output into the log."""

    def say(self, line: str) -> None:
        """The step runner itself writes this into the log."""

    def note(self, text: str) -> None:
        """Keep the note in the log."""
        self._write(f"-- {text}")

    def waiting(self, text: str) -> None:
        """Keep it in the log."""
        self.note(text)

    def end(self) -> None:
        """Nothing to tidy."""

    def _tell(self, **event: Any) -> None:
        if self._events is not None:
            self._events.line(json.dumps(event))

    def _write(self, text: str) -> None:
        if self._log is not None:
            self._log.line(text)

    def write(self, repositories: Sequence[Repository], error: Error | None) -> None:
        """Write the record in one step; a full disk must not hide the run's own result."""
        data = {
            "format": FORMAT,
            "run": os.path.basename(self.directory),
            "command": self._words,
            "flags": self._flags,
            "directory": self._directory,
            "started": self._started,
            "seconds": round(time.time() - self._started, 3),
            "status": "failed" if error else "done",
            "error": _error(error),
            "host": host_facts(),
            "repositories": [
                {"alias": r.alias, "path": r.path, "revision": revision(r.path)}
                for r in repositories
            ],
            "steps": self._steps,
        }
        if self._events is not None:
            self._events.close()
        draft = self.path + ".new"
        with suppress(OSError):
            with open(draft, "w", encoding="utf-8") as stream:
                stream.write(json.dumps(self._secrets.data(data), default=str))
            os.rename(draft, self.path)


def _error(error: Error | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {
        "code": error.code,
        "message": error.message,
        "chain": list(error.chain),
        "doing": error.doing,
        "context": list(error.context),
        "hint": error.hint,
        "commands": list(error.hint.commands),
    }
