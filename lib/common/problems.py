"""The exceptions of this project: failures that a user can do something about."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

NEXT = "next: "
MARKED = "CM_MARKED_HINTS"
"""Set for a program whose line ``next:`` a parent process reads: it writes its marks, too."""
JOINT = "\0"
"""What stands for a blank in a command that must stay on one line."""

_BEGIN, _END, _BACKQUOTE = _MARKS = "\x02\x03\x1a"
_NO_MARKS = str.maketrans("", "", _MARKS)
# People write a command between backquotes, ``marked`` also between control characters. A backquote
# inside a word or without a partner, as a path may have it, marks nothing.
_COMMAND = (
    r"(?<![^\s(\[\"'])`(?=[^\s`])([^\x02\x03]*?[^\s\x02\x03])`(?![^\s.,;:!?)\]\"'])"
    r"|\x02([^\x02\x03]+)\x03"
)


class Hint(str):
    """What to do next: the text that is shown, and the commands in it, which a user copies.

    A command is marked by backquotes where a hint is written, and only there: ``Hint("see: `cm
    show runs`")`` is shown as ``see: cm show runs``. ``parts`` are prose and commands in turn.
    A value of others that is filled in is quoted by ``shell_word`` inside a command, and elsewhere
    is ``Hint.plain(value).marked``: no backquote in it can be taken for a mark.
    """

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, text: str = "") -> Hint:
        """Return ``text`` as a hint; one that is a hint already stays as it is."""
        if isinstance(text, Hint):
            return text
        parts, end = [], 0
        for match in re.finditer(_COMMAND, text):
            parts += [text[end : match.start()], match[1] or match[2]]
            end = match.end()
        parts.append(text[end:])
        return cls.of_parts(part.replace(_BACKQUOTE, "`") for part in parts)

    @classmethod
    def of_parts(cls, parts: Iterable[str]) -> Hint:
        """Return prose and commands in turn as a hint."""
        texts = tuple(part.translate(_NO_MARKS) for part in parts)
        hint = super().__new__(cls, "".join(texts))
        hint.parts = texts
        return hint

    @classmethod
    def plain(cls, text: str) -> Hint:
        """Return the words of others, in which a backquote marks nothing."""
        return cls.of_parts((text,))

    @classmethod
    def of_command(cls, command: str) -> Hint:
        """Return a hint that is a command and nothing else; an empty one for none."""
        return cls.of_parts(("", command, "") if command else ("",))

    @classmethod
    def joined(cls, *hints: str, between: str = "\n") -> Hint:
        """Return those of the hints that are not empty as one."""
        return cls(between.join(cls(hint).marked for hint in hints if hint))

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands in the text, in its order."""
        return self.parts[1::2]

    @property
    def marked(self) -> str:
        """The text with marks, from which ``Hint`` makes the same one, alone or in a longer text.

        The marks are backquotes unless the text has some of its own.
        """
        text = "".join(f"`{part}`" if at % 2 else part for at, part in enumerate(self.parts))
        if "`" not in self and Hint(text).parts == self.parts:
            return text
        text = "".join(
            f"{_BEGIN}{part}{_END}" if at % 2 else part for at, part in enumerate(self.parts)
        )
        return text.replace("`", _BACKQUOTE)

    def lines(self) -> tuple[Hint, ...]:
        """Return its lines."""
        return tuple(map(Hint, self.marked.splitlines()))

    @property
    def unbroken(self) -> str:
        """The text with blanks in commands that are no white space; ``wrapped`` takes it."""
        return "".join(self.changed(command=lambda part: part.replace(" ", JOINT)).parts)

    def changed(
        self, prose: Callable[[str], str] = str, command: Callable[[str], str] = str
    ) -> Hint:
        """Return the hint with its prose and its commands put through these functions."""
        changes = (prose, command)
        return self.of_parts(changes[at % 2](part) for at, part in enumerate(self.parts))

    def __html__(self) -> str:
        """Return the text for a page: templates take it instead of escaping the text."""
        from html import escape

        return "".join(self.changed(escape, lambda part: f"<code>{escape(part)}</code>").parts)


def shell_word(text: str) -> str:
    """Return ``text``, such as a path, as one word of a command to copy, on one line.

    It has no backquote, which might be taken for the end of the command in a ``Hint``.
    """
    import shlex

    if text.isprintable() and "`" not in text:
        return shlex.quote(text)
    inside = text.replace("\\", "\\\\").replace("'", "\\'")
    plain = (c if c.isprintable() and c != "`" else _escaped_bytes(c) for c in inside)
    return f"$'{''.join(plain)}'"


def _escaped_bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


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

    @property
    def hint(self) -> Hint:
        """What to do next; a text that is assigned becomes a ``Hint``."""
        return self._hint

    @hint.setter
    def hint(self, hint: str) -> None:
        self._hint = Hint(hint)

    def summary(self) -> Hint:
        """Return the message and the hint as one line."""
        return Hint.joined(Hint.plain(self.message), *self.hint.lines(), between="; ")

    def hint_without(self, text: str) -> Hint:
        """Return the hint without its lines that contain ``text``, such as a folder now removed."""
        return Hint.joined(*(line for line in self.hint.lines() if text not in line))

    def answer(self) -> dict[str, Any]:
        """Return the failure as a program's JSON answer to its step; see ``raise_failure``."""
        text = "\n".join((self.message, *self.context))
        return {"failure": {"kind": self.code, "text": text, "hint": self.hint.marked}}


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
    problem.hint = Hint.joined(problem.hint, hint)
    return problem


def raise_failure(answer: Mapping[str, Any]) -> None:
    """Raise the Problem in a program's answer; do nothing where it is a success."""
    if failure := answer.get("failure"):
        first, *more = failure["text"].splitlines()
        raise Problem(failure["kind"], first, failure["hint"], [line.strip() for line in more])


def print_problem(name: str, error: BaseException) -> None:
    """Print why the program ``name`` ends where programs print it, and what to do next below."""
    print(f"{name}: {error}", file=sys.stderr, flush=True)
    if hint := Hint(getattr(error, "hint", "")):
        shown = hint.marked if MARKED in os.environ else hint
        print(f"{NEXT}{shown}", file=sys.stderr, flush=True)


def run_program(
    name: str, work: Callable[[], int], failures: tuple[type[Exception], ...] = (Problem,)
) -> int:
    """Do the work of a program; return its exit status, 1 with the failure printed."""
    try:
        return work()
    except failures as error:
        print_problem(name, error)
        return 1
