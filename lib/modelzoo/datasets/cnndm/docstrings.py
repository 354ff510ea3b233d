"""The small form of the articles: what functions do, and the line that people wrote about them.

The texts are docstrings of networkx (BSD licence), out of one exact wheel of the package index: the
description is to be summarized, the first line is the reference.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from modelzoo import wheel
from modelzoo.program import ProgramError
from modelzoo.wheel import PinnedWheel

WHEEL = PinnedWheel(
    package="networkx",
    version="3.4.2",
    sha256="df5d4365b724cf81b8c6a7312509d0c22386097011ad1abe274afd5e9d3bbc5f",
)
PART = "networkx/algorithms/"
SAMPLES = 64
# Words of a reference, characters of a description.
WORDS, CHARACTERS = range(6, 21), range(150, 401)
# Of descriptions that are no prose.
MARKUP = (".. ", "$", "\\", "::", ":`", "---", "seed : ")


@dataclass(frozen=True, slots=True)
class DescribedFunction:
    """A function with its description and the line that sums it up."""

    name: str
    description: str
    summary: str


def functions(count: int = SAMPLES) -> list[DescribedFunction]:
    """Return ``count`` functions from all over the package; raise ProgramError for another one."""
    with wheel.fetched(WHEEL) as archive:
        known = list(_described(archive))
    if len(known) < count:
        raise ProgramError(f"{WHEEL.requirement} describes {len(known)} functions, not {count}")
    return [known[place * len(known) // count] for place in range(count)]


def _described(archive: zipfile.ZipFile) -> Iterator[DescribedFunction]:
    for member in sorted(archive.namelist()):
        if not member.startswith(PART) or not member.endswith(".py") or "/tests/" in member:
            continue
        for node in ast.parse(archive.read(member)).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                described = _parts(node.name, ast.get_docstring(node) or "")
                if described:
                    yield described


def _parts(name: str, text: str) -> DescribedFunction | None:
    """Return the parts of a docstring; None where one of them is missing, or no prose."""
    summary, _, rest = text.partition("\n\n")
    summary, description = " ".join(summary.split()), rest.partition("\nParameters\n")[0].strip()
    if len(summary.split()) not in WORDS or len(description) not in CHARACTERS:
        return None
    if any(mark in description for mark in MARKUP):
        return None
    return DescribedFunction(name, " ".join(description.split()), summary)
