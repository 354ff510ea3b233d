"""Every failure a user can meet: one exception type, and the one renderer.

Its codes, what they mean and their exit codes are in ``error_codes``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import IO

from common.problems import JOINT, Hint, Problem


class Error(Problem):
    """A failure as the engine reports it.

    ``code`` is a name from ``error_codes`` that tests and programs match on. ``message`` says what
    happened in one line, ``hint`` what to do next; ``context`` holds lines of detail, such as the
    last lines of a program's real output. ``doing`` names the activity (``run.sh``,
    ``preprocess``). ``chain`` is filled in by the engine on the way up; ``log`` and ``record`` are
    paths it adds at the end. ``conceal`` takes the secrets of the run out of any text about it,
    such as a traceback.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        context: Sequence[str] = (),
        doing: str = "",
        exit_code: int | None = None,
    ) -> None:
        super().__init__(code, message, hint, context, doing=doing)
        self.exit_code = _exit_code(code) if exit_code is None else exit_code
        self.log = ""
        self.record = ""
        self.conceal: Callable[[str], str] | None = None

    def within(self, step: str) -> Error:
        """Put ``step`` in front of the chain: called by callers as the error passes upwards."""
        self.chain = (step, *self.chain)
        return self

    def rewrite(self, change: Callable[[str], str]) -> Error:
        """Put every text through ``change``, such as one that takes secrets out."""
        self.message, self.doing = map(change, (self.message, self.doing))
        self.hint = self.hint.changed(change, change)
        self.context = tuple(map(change, self.context))
        self.args = (self.message,)
        return self

    @classmethod
    def of(cls, problem: Problem) -> Error:
        """Return a failure of shared code, which knows nothing of the engine, as one of it."""
        if isinstance(problem, cls):
            return problem
        error = cls(
            problem.code,
            problem.message,
            hint=problem.hint,
            context=problem.context,
            doing=problem.doing,
        )
        error.chain = problem.chain
        return error

    def render(self, width: int = 80, on_terminal: bool = False) -> str:
        """The text a user sees.

        ``on_terminal`` the first line is folded at ``width``; elsewhere it stays whole, for
        programs that look for it. No word, quoted text or command of a hint is parted.
        """
        first, *more = visible(self.message).splitlines() or [""]
        first = f"error [{self.code}]: {first}"
        # What follows is indented as a cause is: no text can look like a label of ours.
        lines = [
            *(_folded(first, width) if on_terminal else [first]),
            *(f"    {line.strip()}" for line in more),
        ]
        lines += _labelled("step", visible(" > ".join(self.chain), lines=False), width)
        lines += _labelled("doing", visible(self.doing, lines=False), width)
        if self.context:
            # As it was printed: a command in it can be copied, on a terminal of any width.
            cause = (line for text in self.context for line in visible(text).splitlines() or [""])
            lines += ["  cause:", *(f"    {line}".rstrip() for line in cause)]
        lines += _labelled("next", _commands_apart(self.hint.changed(visible, visible)), width)
        for label, path in (("log", self.log), ("record", self.record)):
            if path:
                lines.append(f"  {label + ':':<8}{visible(path, lines=False)}")
        return "\n".join(lines)


_COLOUR = r"\x1b\[[0-9;]*m"
_QUOTED = r"(?<![^\s(\[])([\"'`])(?=\S).+?(?<=\S)\1(?!\w)"
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]"


def visible(text: str, lines: bool = True) -> str:
    """``text`` as it may go to a terminal: nothing in it moves the cursor or turns the text round.

    Colours go, other control characters become ``\\x1b`` and the like; without ``lines`` the ends
    of lines too.
    """
    if (text.replace("\n", "") if lines else text).isprintable():
        return text
    text = re.sub(_COLOUR, "", text.replace("\r\n", "\n"))
    text = re.sub(_CONTROL, _escaped, text)
    return text if lines else text.replace("\n", "\\n")


def coloured(text: str, out: IO[str] | None) -> str:
    """Return a text for a stream: on a terminal verdicts and failures are red, warnings yellow.

    With ``NO_COLOR`` (https://no-color.org), in a pipe and in a file it stays as it is.
    """
    if out is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    if not out.isatty():
        return text
    text = re.sub(_ALARMS, "\x1b[1;31m\\g<0>\x1b[0m", text, flags=re.MULTILINE)
    return re.sub(_WARNINGS, "\x1b[33m\\g<0>\x1b[0m", text, flags=re.MULTILINE)


_ALARMS = r"\b(?:INVALID|FAILED|FAIL)\b|^error \[[\w-]+\]"
_WARNINGS = r"^ *warning:"


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _exit_code(code: str) -> int:
    # Imported at the first failure: a command that goes well does not need the table.
    from cmbench.error_codes import exit_code_of

    return exit_code_of(code)


def _folded(line: str, width: int) -> list[str]:
    """``line`` as lines of at most ``width``, unless a word or a quoted text is longer."""
    if len(line) <= width:
        return [line]
    from common.text import wrapped  # Most commands that go well wrap nothing.

    joint = re.sub(_QUOTED, lambda match: match[0].replace(" ", JOINT), line)
    return wrapped(joint, rest=" " * 4, width=width, as_it_is=True)


_APART = ("cm ", "bash ", "sudo ")


def _commands_apart(hint: Hint) -> str:
    """Return the text of a hint, with commands that follow a colon on lines of their own."""
    parts = list(hint.parts)
    for at, command in enumerate(hint.commands):
        if command.startswith(_APART) and parts[2 * at].endswith(": "):
            parts[2 * at] = parts[2 * at][:-1] + "\n"
    return Hint.of_parts(parts).unbroken


def _labelled(label: str, text: str, width: int) -> list[str]:
    from common.text import wrapped

    lines: list[str] = []
    before = ""
    for part in text.splitlines():
        head = " " * 10 if lines else f"  {label}:".ljust(10)
        # What a line announces stays on one line: it is there to be copied.
        at_once = width if not before.endswith(":") else len(head + part)
        lines += wrapped(part, head, " " * 10, at_once)
        before = part
    return lines


def internal(problem: BaseException) -> Error:
    """Report an internal error in one block instead of a traceback."""
    import os
    import traceback

    if isinstance(problem, RecursionError):
        return Error(
            "chain-too-long",
            "the chain of scripts that need each other is too long",
            hint="up to 500 work; find the loop with `cm plan script`",
        )
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return Error(
        "internal",
        f"{type(problem).__name__}: {problem}",
        context=(f"{os.path.basename(last.filename)}:{last.lineno} in {last.name}",),
        hint="this is a bug in cmbench: repeat the command with --debug and report what it prints",
    )


def invalid_syntax(code: str, path: str, form: str, problem: Exception) -> Error:
    """Return the error for a file of a user that is not valid ``form``, such as YAML.

    ``problem`` is that of the parser; where it knows the line and the column, both are named.
    """
    if isinstance(problem, UnicodeDecodeError):
        form = "UTF-8 text"
    mark = getattr(problem, "problem_mark", None)
    line = mark.line + 1 if mark else getattr(problem, "lineno", 0)
    column = mark.column + 1 if mark else getattr(problem, "colno", 0)
    reason = getattr(problem, "problem", "") or getattr(problem, "msg", "") or str(problem)
    place = f"{path}:{line}:{column}" if line else path
    todo = f"correct line {line} of it" if line else f"save it as {form}"
    return Error(code, f"{place}: not valid {form}: {reason}", hint=f"{todo} and try again")


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The ``count`` names in ``known`` that are closest to ``word``; empty when none is close."""
    import difflib

    names = sorted(set(known))
    letters, begun = sorted(word), len(word) > 3
    near = [n for n in names if sorted(n) == letters or (begun and n.startswith(word))]
    # One letter of three makes another word: a gpu is no cpu.
    cutoff = 0.7 if len(word) <= 3 else 0.6
    near += difflib.get_close_matches(word, names, n=count, cutoff=cutoff)
    return list(dict.fromkeys(near))[:count]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence such as ``did you mean "mode" or "model"?``, or an empty string."""
    close = [f'"{name}"' for name in nearest(word, known, 2)]
    return f"did you mean {' or '.join(close)}?" if close else ""
