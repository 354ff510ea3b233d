"""Query a tool: find it, run it for a moment, return its output.

Nothing is ever taken from the current directory: relative entries of PATH are passed over, and
the tool itself runs in ``/`` by default. Its output is in the C locale, so that it can
be parsed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOT_STARTED = -1
"""``status`` of a tool that could not be started."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a tool said. ``status`` is its exit status; ``seconds`` is how long it took."""

    command: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ran to its end and said that all is well."""
        return self.status == 0 and not self.timed_out

    @property
    def output(self) -> str:
        """Both streams, since tools disagree about where a version belongs."""
        return self.stdout + self.stderr

    @property
    def problem(self) -> str:
        """What went wrong in one line, with the cause that it printed; empty when it is ``ok``."""
        if self.ok:
            return ""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        reason = next(iter(_cause(lines) or lines[-1:]), "")
        if self.timed_out:
            return f"no answer within {self.seconds:.0f} s"
        if self.status == NOT_STARTED:
            return reason
        how = f"signal {-self.status}" if self.status < 0 else f"exit status {self.status}"
        return f"{how}: {reason}" if reason else how

    def tail(self, lines: int = 10) -> tuple[str, ...]:
        """The last lines that it wrote, standard error after standard output; the cause first."""
        from common.failure_output import explained

        return explained(self.output.splitlines(), lines)


def _cause(lines: Sequence[str]) -> tuple[str, ...]:
    from common.failure_output import first_cause

    return first_cause(lines)


def which(name: str, path: str | None = None) -> Path | None:
    """The executable ``name`` along ``path`` (PATH), looking in absolute folders only."""
    for folder in search_path(path):
        candidate = folder / name
        if is_executable(candidate):
            return candidate
    return None


def search_path(path: str | None = None) -> list[Path]:
    """Return the absolute folders of ``path`` (PATH) in order, without duplicates."""
    text = os.environ.get("PATH", os.defpath) if path is None else path
    folders = [entry for entry in text.split(os.pathsep) if os.path.isabs(entry)]
    return [Path(entry) for entry in dict.fromkeys(os.path.normpath(f) for f in folders)]


def is_executable(path: Path) -> bool:
    """Whether ``path`` is a file that this user may run; one in a closed folder is not."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def probe(
    command: Sequence[str | Path],
    *,
    timeout: float = 20.0,
    env: Mapping[str, str] | None = None,
    cwd: str | Path = "/",
    path: str | None = None,
) -> ProbeResult:
    """Run ``command`` without a terminal and return what it wrote; failures are results too.

    The first word is an absolute path or a name to find along ``path`` (PATH). ``env`` is added to
    this process's environment. After ``timeout`` seconds the tool and all its children are killed.
    """
    words = tuple(str(word) for word in command)
    program = _resolve(words[0], path)
    if program is None:
        return ProbeResult(words, NOT_STARTED, "", f"{words[0]}: not found on PATH", 0.0)
    started = time.monotonic()
    environment = {**os.environ, **(env or {}), "LC_ALL": "C", "LANGUAGE": "C"}
    try:
        process = ProbedProcess(
            [str(program), *words[1:]],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        return ProbeResult(words, NOT_STARTED, "", str(problem), 0.0)
    stdout, stderr, timed_out = _collect(process, timeout)
    return ProbeResult(
        words,
        process.returncode,
        stdout.decode(errors="replace"),
        stderr.decode(errors="replace"),
        time.monotonic() - started,
        timed_out,
    )


class ProbedProcess(subprocess.Popen[bytes]):
    """The process of a tool; one whose start is interrupted is killed with its children."""

    def __init__(self, *args: Any, **options: Any) -> None:
        try:
            super().__init__(*args, **options)
        except BaseException:
            # Nobody else has the number of a process that began before the interrupt came.
            if getattr(self, "pid", None):
                _kill_group(self)
                self.wait()
            raise


def _resolve(name: str, path: str | None) -> Path | None:
    if os.path.isabs(name):
        return Path(name)
    return None if os.sep in name else which(name, path)


def _collect(process: subprocess.Popen[bytes], timeout: float) -> tuple[bytes, bytes, bool]:
    try:
        stdout, stderr = process.communicate(timeout=timeout)
        return stdout, stderr, False
    except subprocess.TimeoutExpired as late:
        _kill_group(process)
        try:
            stdout, stderr = process.communicate(timeout=1.0)
        except subprocess.TimeoutExpired:
            # A child that left the group still holds the pipes: what has come must do.
            stdout, stderr = late.stdout or b"", late.stderr or b""
            process.wait()
            _close_pipes(process)
        return stdout, stderr, True
    except BaseException:
        _kill_group(process)
        process.wait()
        _close_pipes(process)
        raise


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def json_values(text: str) -> Iterator[Any]:
    """Yield the objects and lists of JSON in what a tool has printed; warnings around are skipped.

    They begin on lines of their own, and may go over several.
    """
    import json  # Few tools print any.

    decoder = json.JSONDecoder()
    start = 0
    while match := _JSON_START.search(text, start):
        start = match.start(1)
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
        else:
            yield value


_JSON_START = re.compile(r"^[ \t]*([\[{])", re.MULTILINE)
