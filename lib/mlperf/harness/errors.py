"""The exception of this package, and advice that several modules give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.problems import ProgramError, run_program

PROGRAM = __name__.rpartition(".")[0]
"""What precedes an error of a program of this package.

Not written out: who names a package in a string imports all of it, as far as a cache can see.
"""

DAMAGED = "see what in the cache has changed since it was made: `cm verify cache`"
OTHER_MODEL = f"check that the file is the model of this benchmark, and whole; {DAMAGED}"
OTHER_TOKENIZER = (
    "make the data set with the tokenizer.json of this model (--tokenizer=FILE of the script of "
    "the data set), or give the model that the data set is for"
)


class HarnessError(ProgramError):
    """A measurement cannot be made as requested."""


def exit_status(program: Callable[[Path], int], config: Path) -> int:
    """Run a program on its configuration; return 1, with the error printed, where it fails."""
    return run_program(PROGRAM, lambda: program(config))
