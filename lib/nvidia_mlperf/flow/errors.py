"""What can go wrong with configurations: one error type, and faults with file and line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class FlowError(Exception):
    """A failure in words, with what to do; ``kind`` is a short word that the engine knows.

    ``context`` has lines of detail. ``chain`` are the scripts from the line that was run to the
    step that has failed, and ``doing`` is what that one did.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        hint: str = "",
        context: Sequence[str] = (),
        chain: Sequence[str] = (),
        doing: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
        self.context = tuple(context)
        self.chain = tuple(chain)
        self.doing = doing

    def within(self, before: str, after: str = "", hint: str = "") -> FlowError:
        """Return the same failure with more words around it, and one more line of what to do."""
        hints = "\n".join(filter(None, (self.hint, hint)))
        return FlowError(
            self.kind, f"{before}{self}{after}", hints, self.context, self.chain, self.doing
        )


@dataclass(frozen=True, slots=True)
class RegistryFault:
    """Something in a file that is not as it must be; ``line`` is 0 where no line is to blame."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


NOTHING = "nothing here is called like that"
ALIKE = 0.6
"""How like a known word must be to be what was meant, from 0 to 1."""


def nearest(word: str, known: Iterable[str], otherwise: str = NOTHING) -> str:
    """Return a hint with the nearest known word, or all of a few; else ``otherwise``."""
    names = sorted(set(known))
    folded = {name.lower(): name for name in names}
    matches = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=ALIKE)
    if matches:
        return f"did you mean {folded[matches[0]]}?"
    return f"one of: {', '.join(names)}" if len(names) <= 20 else otherwise
