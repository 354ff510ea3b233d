"""The exceptions of this project: failures that a user can do something about."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NEXT = "next: "


class Problem(Exception):  # noqa: N818
    """A failure with a remedy, which the engine reports as it is.

    ``code`` is one of the engine's error codes. ``message`` says what happened in one line,
    ``hint`` what to do next. ``context`` holds lines of detail, such as the last lines of a
    program's output. ``chain`` is the path of scripts from the request to the failing step, and
    ``doing`` what that one did.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str = "",
        context: Sequence[str] = (),
        chain: Sequence[str] = (),
        doing: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.context = tuple(context)
        self.chain = tuple(chain)
        self.doing = doing

    def __str__(self) -> str:
        return self.message

    def hint_without(self, text: str) -> str:
        """Return the hint without its lines that contain ``text``, such as a folder now removed."""
        return "\n".join(line for line in self.hint.splitlines() if text not in line)

    def answer(self) -> dict[str, Any]:
        """Return the failure as a program's JSON answer to its step; see ``raise_failure``."""
        text = "\n".join((self.message, *self.context))
        return {"failure": {"kind": self.code, "text": text, "hint": self.hint}}


class ProgramError(Problem):
    """A failure of a program that prints it: its code counts only where it runs in the engine."""

    def __init__(
        self, message: str, hint: str = "", code: str = "bad-value", context: Sequence[str] = ()
    ) -> None:
        super().__init__(code, message, hint, context)


def bad_value(message: str, hint: str = "") -> Problem:
    """Return the failure of an input that makes no sense."""
    return Problem("bad-value", message, hint)


def reworded(problem: Problem, before: str = "", after: str = "", hint: str = "") -> Problem:
    """Put words around the message, and a line below the hint; return the same problem."""
    problem.message = f"{before}{problem.message}{after}"
    problem.hint = "\n".join(filter(None, (problem.hint, hint)))
    return problem


def raise_failure(answer: Mapping[str, Any]) -> None:
    """Raise the Problem in a program's answer; do nothing where it is a success."""
    if failure := answer.get("failure"):
        first, *more = failure["text"].splitlines()
        raise Problem(failure["kind"], first, failure["hint"], [line.strip() for line in more])


def print_problem(name: str, error: BaseException) -> None:
    """Print why the program ``name`` ends where programs print it, and what to do next below."""
    print(f"{name}: {error}", file=sys.stderr, flush=True)
    if hint := getattr(error, "hint", ""):
        print(f"{NEXT}{hint}", file=sys.stderr, flush=True)


def run_program(
    name: str, work: Callable[[], int], failures: tuple[type[Exception], ...] = (Problem,)
) -> int:
    """Do the work of a program; return its exit status, 1 with the failure printed."""
    try:
        return work()
    except failures as error:
        print_problem(name, error)
        return 1
