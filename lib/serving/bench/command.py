"""What benchmark programs share: their call, their output, and how they end."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from common.problems import Problem

from .option_table import bare

OK, FAILED, USAGE, INTERRUPTED, CUT_OFF = 0, 1, 2, 130, 141


SettingsType = TypeVar("SettingsType")


class RequestCounts(Protocol):
    """A measurement that counts its requests."""

    @property
    def requests(self) -> int:
        """Return how many were answered."""

    @property
    def failures(self) -> Mapping[str, int]:
        """Return how many failed, by kind."""

    @property
    def scheduled(self) -> int:
        """Return how many there should have been."""


def run_command(
    program: str,
    arguments: Sequence[str],
    read: Callable[[Sequence[str]], tuple[SettingsType, list[str]]],
    run: Callable[[SettingsType, str, dict[str, object]], int],
    answer: str,
) -> int:
    """Read ``arguments`` and run; return the exit status.

    ``run`` gets the settings, the command without its secrets, and the record of figures to fill.
    A program that starts this one names the file ``answer``: figures, or a failure, are written
    there as JSON, and a failure written there leaves the exit status 0.
    """
    record: dict[str, object] = {}
    try:
        settings, notes = read(arguments)
        for note in notes:
            say(f"note: {note}")
        status = run(settings, hidden(program, arguments), record)
    except Problem as error:
        if not answer:
            text = f"error: {error}" + (f"\n  next: {error.hint}" if error.hint else "")
            say(text)
            return USAGE if error.code == "bad-value" else FAILED
        record |= error.answer()
        status = OK
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough, as in `| head`; Python would say so again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF
    if answer:
        Path(answer).write_text(json.dumps(record), encoding="utf-8")
    return status


def require_all(
    points: Sequence[RequestCounts], hint: str, next_step: Callable[[str], str] = lambda _: ""
) -> None:
    """Raise Problem where requests failed, or none was answered in time.

    ``next_step`` is what to do after failures of a kind, ``hint`` after none was answered.
    """
    failures: Counter[str] = Counter()
    for point in points:
        failures.update(point.failures)
    if failures:
        counts = ", ".join(f"{count} {kind}" for kind, count in failures.most_common())
        total = sum(point.scheduled for point in points)
        text = f"{failures.total()} of {total} requests failed: {counts}"
        raise Problem("requests-failed", text, hint=next_step(failures.most_common(1)[0][0]))
    if not any(point.requests for point in points):
        raise Problem("requests-failed", "no request was answered in time", hint=hint)


def hidden(program: str, arguments: Sequence[str]) -> str:
    """Return the command for a report; what a header says may be a secret."""
    words, before = [program], ""
    for word in arguments:
        secret = before == "header" or bare(word).startswith("header=")
        words.append(f"{word.partition(':')[0]}:***" if secret else word)
        before = bare(word)
    return shlex.join(words)


def say(text: str) -> None:
    """Print a note on standard error."""
    print(text, file=sys.stderr, flush=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard output at once: they may be watched."""
    for line in lines:
        print(line, flush=True)
