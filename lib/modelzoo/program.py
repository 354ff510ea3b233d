"""The command line of a program, and how it ends."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from common.problems import ProgramError, run_program

__all__ = ["ProgramError", "parser", "run"]


def parser(doc: str | None, *, out: bool = True) -> argparse.ArgumentParser:
    """A command line with ``--out``, the folder to write into, which is required if ``out`` is set.

    ``doc`` is the docstring of the program; its first line becomes the description.
    """
    made = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    made.add_argument("--out", type=Path, required=out, help="folder to write into")
    return made


def run(name: str, work: Callable[[], str]) -> int:
    """Do the work of the program ``name`` and print the line that it returns.

    Returns the exit status: 1, with a line on the standard error, after OSError, ValueError or
    ProgramError.
    """

    def print_outcome() -> int:
        print(work())
        return 0

    return run_program(name, print_outcome, (OSError, ValueError, ProgramError))
