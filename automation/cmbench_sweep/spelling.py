"""The YAML of sweep files: a value is what was typed, as it is on a command line.

YAML 1.1 makes 8 of ``010``, 750 of ``12:30``, 1.1 of ``1.10`` and false of ``off``. Here a number
can be computed with and keeps its spelling, only ``true`` and ``false`` are no texts, and ``1e3``
is a number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_WHOLE = re.compile(r"[-+]?[0-9][0-9_]{0,40}|0x[0-9a-fA-F]{1,16}")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.?[0-9]*)([eE][-+]?[0-9]+)?")


class SpelledInt(int):
    """A whole number that is written as in its file."""

    spelling: str

    def __str__(self) -> str:
        return self.spelling


class SpelledFloat(float):
    """A number that is written as in its file."""

    spelling: str

    def __str__(self) -> str:
        return self.spelling


def _integer(text: str) -> SpelledInt | str:
    try:
        number = SpelledInt(text, 16) if text.startswith("0x") else SpelledInt(text)
    except ValueError:
        return text
    number.spelling = text.replace("_", "")
    return number


def _real(text: str) -> SpelledFloat | str:
    try:
        number = SpelledFloat(text)
    except ValueError:
        return text
    number.spelling = text
    return number


@lru_cache
def loader() -> type[Any]:
    """Return the class that ``yaml.load`` takes."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, list[Any]] = {}

    start, tag = "-+.0123456789", "tag:yaml.org,2002:"
    for name, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("merge", "<<", "<"),
        ("int", _WHOLE.pattern, start),
        ("float", _REAL.pattern, start),
    ):
        Loader.add_implicit_resolver(tag + name, re.compile(f"(?:{pattern})$"), list(first))
    Loader.add_constructor(f"{tag}int", lambda self, node: _integer(self.construct_scalar(node)))
    Loader.add_constructor(f"{tag}float", lambda self, node: _real(self.construct_scalar(node)))
    return Loader
