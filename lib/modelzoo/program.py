"""The command line of a program, and how it ends."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.problems import ProgramError, run_program

__all__ = ["ProgramError", "SyntheticModel", "parse_synthetic", "parser", "run"]


def parser(doc: str | None, *, out: bool = True) -> argparse.ArgumentParser:
    """A command line with ``--out``, the folder to write into, which is required if ``out`` is set.

    ``doc`` is the docstring of the program; its first line becomes the description.
    """
    made = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    made.add_argument("--out", type=Path, required=out, help="folder to write into")
    return made


@dataclass(frozen=True, slots=True)
class SyntheticModel:
    """A requested model with random weights; ``reduced`` says so where layers are left out."""

    out: Path
    layers: int
    name: str
    reduced: dict[str, str]


def parse_synthetic(
    doc: str | None, model: str, layers: int, arguments: list[str] | None
) -> SyntheticModel:
    """Return the requested form of ``model``, which has ``layers``; exit where that is wrong."""
    line = parser(doc)
    line.add_argument("--layers", type=int, default=layers, help="layers to build")
    options = line.parse_args(arguments)
    if not 1 <= options.layers <= layers:
        line.error(f"--layers: 1 to {layers}")
    name = f"{model}_synthetic"
    if options.layers == layers:
        return SyntheticModel(options.out, layers, name, {})
    reduced = {"reduced": f"{options.layers} of {layers} layers"}
    return SyntheticModel(options.out, options.layers, f"{name}_{options.layers}_layers", reduced)


def run(name: str, work: Callable[[], str]) -> int:
    """Do the work of the program ``name`` and print the line that it returns.

    Returns the exit status: 1, with a line on the standard error, after OSError, ValueError or
    ProgramError.
    """

    def print_outcome() -> int:
        print(work())
        return 0

    return run_program(name, print_outcome, (OSError, ValueError, ProgramError))
