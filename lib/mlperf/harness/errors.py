"""The one exception of this package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

NEXT = "next: "
NAMED = "mlperf.harness: "
"""What precedes an error of a program of this package."""

DAMAGED = "see what in the cache has changed since it was made: cm verify cache"
OTHER_MODEL = f"check that the file is the model of this benchmark, and whole; {DAMAGED}"


class HarnessError(Exception):
    """A measurement cannot be made as requested; text and ``advice`` are lines for the user."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice


def tell(error: HarnessError) -> None:
    """Print an error where programs print theirs, and what to do next below it."""
    print(f"{NAMED}{error}", file=sys.stderr, flush=True)
    if error.advice:
        print(f"{NEXT}{error.advice}", file=sys.stderr, flush=True)


def exit_status(program: Callable[[Path], int], config: Path) -> int:
    """Run a program on its configuration; return 1, with the error printed, where it fails."""
    try:
        return program(config)
    except HarnessError as error:
        tell(error)
        return 1
