"""What a verb gets, and what it hands back: data, and the text that a console shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cmbench.errors import Error, did_you_mean, visible
from cmbench.session.call import Call
from cmbench.session.workspace import Workspace
from cmbench.values import immutable

Answer = dict[str, Any]
"""What cmind gets back: ``return`` is 0 or the exit code, ``error`` a text, the rest is data."""


class Command(Call):
    """One command: the call, and whether a console waits for its text."""

    def __init__(self, thing: str, workspace: Workspace, given: Mapping[str, Any]) -> None:
        super().__init__(workspace, given)
        self.thing = thing
        self.console = given.get("out") == "con"
        self.help_of = str(given.get("help_of") or "")

    @property
    def printed(self) -> bool:
        """Whether cmind prints the answer, or writes it to a file, for a command line."""
        given = self._given
        return "cmd" in given and (given.get("out") == "json" or bool(given.get("save_to_json")))

    @property
    def as_json(self) -> bool:
        """Whether the result should be printed as JSON."""
        return bool(self.flags.get("json"))

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


class Item(dict[str, Any]):
    """One thing that was found: data to print, with what callers from Python look at."""

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self["path"])

    @property
    def meta(self) -> Mapping[str, Any]:
        """What is known of it, its tags for example."""
        return self


def refuse_unknown(
    flags: Iterable[str],
    known: Iterable[str],
    who: str = "this command",
    otherwise: str = "its flags: put --help behind the command",
) -> None:
    """Raise ``unknown-flag`` for a flag that a command does not know."""
    for name in flags:
        if name not in known:
            hint = did_you_mean(name, known) or otherwise
            raise Error("unknown-flag", f"{who} knows no flag --{name}", hint=hint)
