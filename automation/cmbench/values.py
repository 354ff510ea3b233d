"""The engine's data classes: those of ``dataclasses``, without guards at run time.

A type checker refuses every assignment to a field of a frozen class. The guards would cost each
short command another 6 ms of CPU (docs/decisions/086-data-classes-are-those-of-python.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from dataclasses import dataclass as mutable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as immutable
else:

    def immutable(*, frozen, slots, eq, repr):  # noqa: A002
        """``dataclass`` whose objects compare and hash as frozen ones do."""
        return dataclass(slots=slots, eq=eq, repr=repr, unsafe_hash=eq)


def names_of(value: object) -> tuple[str, ...]:
    """The names of the fields by which a data object is made; none for anything else."""
    names: tuple[str, ...] = getattr(type(value), "__match_args__", ())
    return names


__all__ = ["field", "immutable", "mutable", "names_of", "replace"]
