"""The input of a verb, and its reply: data, and the text that a console shows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from cmbench.errors import Error, did_you_mean, visible
from cmbench.index.scripts import ScriptRow
from cmbench.session.call import Call
from cmbench.session.workspace import Workspace
from cmbench.values import immutable

Answer = dict[str, Any]
"""What cmind gets back: ``return`` is 0 or the exit code, ``error`` a text, the rest is data."""


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


_FINDING = ("find", "search", "list", "ls")
"""The words of cmind for one command."""
_MAX_CHOICES = 20
"""Of so many scripts at most one is chosen by a number."""


class Command(Call):
    """One command: the call, and whether a console waits for its text."""

    def __init__(self, thing: str, workspace: Workspace, call: Mapping[str, Any]) -> None:
        super().__init__(workspace, call)
        self.thing = thing
        self.console = call.get("out") == "con"
        self.help_of = str(call.get("help_of") or "")

    @property
    def printed(self) -> bool:
        """Whether cmind prints the answer, or writes it to a file, for a command line."""
        call = self._arguments
        return "cmd" in call and (call.get("out") == "json" or bool(call.get("save_to_json")))

    @property
    def only_shown(self) -> bool:
        """Whether only the text of the answer is seen: a person typed the command."""
        return "cmd" in self._arguments and self.console and not (self.as_json or self.printed)

    @property
    def lists_paths(self) -> bool:
        """Return whether scripts and entries are printed as paths, one a line.

        That is so with ``-p``, and where ``cm find``, or another word for it, writes to a file or
        to a program: command lines of CM put what it prints into ``cd`` or ``xargs``.
        """
        if self.flags.get("p") or self.flags.get("path_only"):
            return True
        finds = str(self._arguments.get("action") or "") in _FINDING
        return finds and self.only_shown and not _is_terminal(sys.stdout)

    @property
    def rest(self) -> tuple[str, ...]:
        """Return the words after ``--``: a command line for another program."""
        return tuple(str(word) for word in self._arguments.get("unparsed_cmd") or ())

    @property
    def as_json(self) -> bool:
        """Whether the result should be printed as JSON."""
        return bool(self.flags.get("json"))

    @property
    def can_ask(self) -> bool:
        """Return whether the process has a terminal on which it can prompt."""
        allowed = self.console and not (self.options.quiet or self.options.silent)
        return allowed and _is_terminal(sys.stdin) and _is_terminal(sys.stderr)

    def pick(self, rows: Sequence[ScriptRow]) -> ScriptRow | None:
        """The script that the user chooses of several; ``None`` without a terminal."""
        if not self.can_ask or len(rows) > _MAX_CHOICES:
            return None
        lines = [f"  {n:>2}  {row.alias}: {row.title}" for n, row in enumerate(rows, 1)]
        head = f"{len(rows)} scripts have these tags:"
        print(visible("\n".join([head, *lines])), file=sys.stderr)
        while True:
            print("which one? [1] ", end="", file=sys.stderr, flush=True)
            said = sys.stdin.readline()
            word = said.strip() or "1"
            if word.isdecimal() and 1 <= int(word) <= len(rows):
                return rows[int(word) - 1]
            if not said:
                return None

    def say(self, text: str) -> None:
        """Print a line now, where a console waits for the text."""
        if self.console:
            print(visible(text), flush=True)


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Reply:
    """What a verb has found.

    ``answer`` goes back to cmind. A console shows ``text``, or under ``--json`` ``data``, where
    there is any. ``error`` is raised when that has been shown.
    """

    answer: Answer
    text: str | Callable[[], str | None] | None = None
    data: Any = None
    error: Error | None = None

    def shown(self, as_json: bool) -> str | None:
        """The text for the console; ``None`` where there is nothing to say."""
        if as_json and self.data is not None:
            return json.dumps(self.data, indent=1, default=str)
        return self.text() if callable(self.text) else self.text


class ReplyItem(dict[str, Any]):
    """One thing that was found: data to print, with what callers from Python look at."""

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self["path"])

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return its known fields, its tags for example."""
        return self


def refuse_unknown(
    flags: Iterable[str],
    known: Iterable[str],
    who: str = "this command",
    otherwise: str = "for its flags, add --help to the command",
) -> None:
    """Raise ``unknown-flag`` for a flag that a command does not know."""
    for name in flags:
        if name not in known:
            hint = did_you_mean(name, known) or otherwise
            raise Error("unknown-flag", f"{who} knows no flag --{name}", hint=hint)


def refuse_bare(flags: Mapping[str, Any], values: Mapping[str, str]) -> None:
    """Raise ``bad-value`` for a flag without its value; ``values`` has an example for each."""
    for name, value in values.items():
        if flags.get(name.replace("-", "_")) is True:
            raise Error("bad-value", f"--{name} needs a value", hint=f"write --{name}={value}")
