"""Faults of configurations with file and line, and the nearest known word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


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
