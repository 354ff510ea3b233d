"""One JSON record per run, failed ones too: what was asked, what each step did, and where."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cmbench.env import mask, mask_word, masked_env
from cmbench.errors import Error
from cmbench.frame import Frame
from cmbench.index import Repository
from cmbench.run import StepEnd
from cmbench.runlog import RunLog

FORMAT = 1


def new_run_directory(root: str) -> str:
    """A fresh private directory for one run; its name sorts by time."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = os.path.join(root, "runs", f"{stamp}-{os.urandom(3).hex()}")
    os.makedirs(path)
    return path


class Recorder:
    """A reporter that keeps what it is told; ``write`` puts the record beside the log."""

    watches = False

    def __init__(
        self,
        directory: str,
        log: RunLog | None,
        command: Sequence[str],
        flags: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self._flags = masked_flags(flags or {})
        self.path = os.path.join(directory, "record.json")
        self._log = log
        self._started = time.time()
        self._directory = os.getcwd()
        self._command = [mask_word(word) for word in command]
        self._steps: list[dict[str, Any]] = []
        self._open: list[dict[str, Any]] = []

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What has been recorded of every finished step, in the order in which they ended."""
        return self._steps

    def begin(self, total: int) -> None:
        """Nothing to keep: the number of steps follows from the steps."""

    def started(self, frame: Frame, depth: int) -> None:
        """Write a heading into the log."""
        self._write(f"== {' > '.join(frame.chain())}")

    def left(self, frame: Frame) -> None:
        """Only what counts is kept."""

    def finished(self, frame: Frame, depth: int, end: StepEnd) -> None:
        """Keep the step."""
        outcome = end.outcome
        self._steps.append(
            {
                "step": frame.label,
                "chain": list(frame.chain()),
                "script": frame.script.alias,
                "script_uid": frame.script.uid,
                "content": frame.scripts.get(frame.script.path, ""),
                "variations": list(frame.choice.variations),
                "status": end.status,
                "why": end.why,
                "seconds": round(end.seconds, 4),
                "version": outcome.version if outcome else "",
                "reads": frame.reads(),
                "entry": outcome.entry if outcome else "",
                "new_env": masked_env(outcome.new_env) if outcome else {},
                **({"error": mask(end.error)} if end.error else {}),
            }
        )
        self._write(f"== {frame.label}: {end.status} in {end.seconds:.2f} s")

    def progress(self, data: Mapping[str, Any]) -> None:
        """Progress is for the moment only."""

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

    def _write(self, text: str) -> None:
        if self._log is not None:
            self._log.line(text)

    def write(self, repositories: Sequence[Repository], error: Error | None) -> None:
        """Write the record in one step; a full disk must not hide the run's own result."""
        data = {
            "format": FORMAT,
            "run": os.path.basename(self.directory),
            "command": self._command,
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
        draft = self.path + ".new"
        with suppress(OSError):
            with open(draft, "w", encoding="utf-8") as stream:
                stream.write(json.dumps(data, default=str))
            os.rename(draft, self.path)


def masked_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a call as a record may hold them; ``***`` stands for what is secret."""
    plain = {k: masked_flags(v) for k, v in flags.items() if isinstance(v, Mapping)}
    return {**masked_env({k: v for k, v in flags.items() if k not in plain}), **plain}


def find_record(root: str, word: str) -> str:
    """The path of the record that ``word`` names: a file, a run's directory, or a run's id.

    ``last`` is the newest run. Raises ``entry-not-found``.
    """
    runs = os.path.join(root, "runs")
    names = sorted(os.listdir(runs), reverse=True) if os.path.isdir(runs) else []
    recorded = [n for n in names if os.path.isfile(os.path.join(runs, n, "record.json"))]
    if os.path.isfile(word):
        return os.path.abspath(word)
    if os.path.isfile(os.path.join(word, "record.json")):
        return os.path.abspath(os.path.join(word, "record.json"))
    matching = recorded[:1] if word == "last" else [n for n in recorded if word and word in n]
    if len(matching) == 1:
        return os.path.join(runs, matching[0], "record.json")
    many = f'"{word}" names {len(matching)} runs'
    raise Error(
        "entry-not-found",
        many if matching else f'there is no record "{word}"',
        hint="name a record.json, or one run by its id",
        context=[f"the newest runs in {runs}:", *(matching or recorded)[:5]],
    )


def load_record(path: str) -> dict[str, Any]:
    """The record at ``path``; raises ``bad-value`` where it is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
    except ValueError as problem:
        raise Error("bad-value", f"{path} is not JSON: {problem}") from problem
    if not isinstance(data, dict) or "steps" not in data or "run" not in data:
        raise Error("bad-value", f"{path} is not the record of a run")
    if data.get("format") != FORMAT:
        raise Error("bad-value", f"{path} has the format {data.get('format')}, known is {FORMAT}")
    return data


def own_times(steps: Sequence[Mapping[str, Any]]) -> list[float]:
    """Seconds that each step of a record took, its dependencies not counted."""
    below: dict[tuple[str, ...], float] = {}
    found = []
    for step in steps:
        # A step ends after all below it, so what they took is known by now.
        chain = tuple(step["chain"])
        found.append(max(0.0, step["seconds"] - below.pop(chain, 0.0)))
        below[chain[:-1]] = below.get(chain[:-1], 0.0) + step["seconds"]
    return found


def _error(error: Error | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {
        "code": error.code,
        "message": mask(error.message),
        "chain": list(error.chain),
        "doing": error.doing,
        "context": [mask(line) for line in error.context],
        "hint": error.hint,
    }


def host_facts() -> dict[str, Any]:
    """What a record says of the machine; ``load`` is of the moment."""
    uname = os.uname()
    load = [0.0, 0.0, 0.0]
    with suppress(OSError):
        load = [round(value, 2) for value in os.getloadavg()]
    return {
        "system": f"{uname.sysname} {uname.release}",
        "machine": uname.machine,
        "cpus": os.cpu_count(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "load": load,
    }


def revision(path: str) -> str:
    """The commit that a checkout is at, or an empty string; reads files, starts nothing."""
    git = os.path.join(path, ".git")
    with suppress(OSError):
        with open(os.path.join(git, "HEAD"), encoding="utf-8") as stream:
            head = stream.read().strip()
        if not head.startswith("ref: "):
            return head
        return _reference(git, head[5:])
    return ""


def _reference(git: str, name: str) -> str:
    with suppress(OSError), open(os.path.join(git, name), encoding="utf-8") as stream:
        return stream.read().strip()
    with suppress(OSError), open(os.path.join(git, "packed-refs"), encoding="utf-8") as stream:
        for line in stream:
            if line.rstrip().endswith(" " + name):
                return line.split()[0]
    return ""
