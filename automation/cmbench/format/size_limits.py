"""What a file may hold before it is walked: levels, and values with its aliases written out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cmbench.errors import Error

SAFE_LENGTH = 10_000
"""A text of so many letters cannot have so many levels that libyaml, which calls itself for each,
runs out of stack and takes the process with it."""
_DEEPEST, _LARGEST = 60, 300_000
"""Levels and values of a meta, aliases written out: over four times those of the largest known."""


def bounded(data: Any, source: str) -> Any:
    """``data``, once it is known to be small enough to be walked; raises ``bad-meta``.

    An alias may name what it is in, or ever larger parts of the same file.
    """
    level, left = [data], _LARGEST
    for _ in range(_DEEPEST):
        outer = [value for value in level if isinstance(value, dict | list)]
        if not outer:
            return data
        level = []
        for value in outer:
            level += value.values() if isinstance(value, dict) else value
            if len(level) > left:
                text = f"{source}: aliases expand to more than {_LARGEST} values"
                raise Error("bad-meta", text, hint="write out what the aliases (*NAME) repeat")
        left -= len(level)
    raise too_deep(source)


def refuse_deep(events: Iterable[Any], source: str) -> None:
    """Raise ``bad-meta`` where a YAML text, as its parser's events, has too many levels."""
    level = 0
    for event in events:
        name = type(event).__name__
        level += name.endswith("StartEvent") - name.endswith("EndEvent")
        # The document and the stream are levels too.
        if level > _DEEPEST + 2:
            raise too_deep(source)


def too_deep(source: str) -> Error:
    """Return the error for data that is nested too deep."""
    text = f"{source}: nested more than {_DEEPEST} levels deep, or in itself"
    return Error("bad-meta", text, hint="write it in fewer levels")
