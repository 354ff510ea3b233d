"""``immutable``: the decorator of the engine's data classes.

A type checker sees ``dataclasses.dataclass(frozen=True, ...)`` and refuses every assignment to a
field. At run time nothing is generated for that: each frozen class costs every command 0.2 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as immutable
else:
    from dataclasses import dataclass

    def immutable(*, frozen, slots, eq, repr):  # noqa: A002
        """``dataclass`` without the guards that a type checker has already checked."""
        return dataclass(slots=slots, eq=eq, repr=repr)


__all__ = ["immutable"]
