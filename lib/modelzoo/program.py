"""The command line of a program, and how it ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


class ProgramError(Exception):
    """Why a program cannot go on, in one line; ``advice`` says what to do next."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


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
    try:
        print(work())
    except (OSError, ValueError, ProgramError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        if advice := getattr(error, "advice", ""):
            print(f"next: {advice}", file=sys.stderr)
        return 1
    return 0
