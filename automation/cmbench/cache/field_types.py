"""Which values stored fields have: a checksum says who wrote it wrote all of it, no more.

Metadata comes from archives of others too. Each function says whether a value of JSON is of its
kind; what is not would end a command far from where it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Fits = Callable[[Any], bool]
_LATEST_S = 1 << 37
"""A moment in the year 6325, in seconds since 1970: the calendar of a system knows it."""
_LARGEST = 1 << 63
"""An integer that a database stores is smaller."""


def is_text(value: Any) -> bool:
    """Whether it is a text."""
    return type(value) is str


def is_name(value: Any) -> bool:
    """Whether it is a text that a system call takes."""
    return type(value) is str and "\0" not in value


def is_integer(value: Any) -> bool:
    """Whether it is an integer of 64 bits."""
    return type(value) is int and -_LARGEST < value < _LARGEST


def is_size(value: Any) -> bool:
    """Whether it is a number of bytes."""
    return is_integer(value) and value >= 0


def is_duration(value: Any) -> bool:
    """Whether it is a finite number, of seconds."""
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST


def is_moment(value: Any) -> bool:
    """Whether it is a time in seconds since 1970."""
    return type(value) in (int, float) and 0 <= value < _LATEST_S


def is_flag(value: Any) -> bool:
    """Whether it is true or false."""
    return type(value) is bool


def is_object(value: Any) -> bool:
    """Whether it is a JSON object."""
    return type(value) is dict


def are_texts(value: Any) -> bool:
    """Whether it is a list of texts."""
    return type(value) is list and set(map(type, value)) <= {str}


def maps_texts(value: Any) -> bool:
    """Whether it is an object of texts by names."""
    if type(value) is not dict or not set(map(type, value.values())) <= {str}:
        return False
    return "\0" not in "".join(value)


def maps_maps(value: Any) -> bool:
    """Whether it is an object of objects of texts."""
    return type(value) is dict and all(map(maps_texts, value.values()))


def are_reliances(value: Any) -> bool:
    """Whether it is a list of states of files."""
    return type(value) is list and all(map(_is_reliance, value))


def is_file_state(value: Any) -> bool:
    """Whether it is what is recorded of a file: size, time in ns, digest; or where a link leads."""
    if type(value) is not list:
        return False
    if len(value) == 1:
        return is_name(value[0])
    return len(value) == 3 and is_integer(value[0]) and is_integer(value[1]) and is_text(value[2])


_RELIANCE: Mapping[str, Fits] = {
    "path": is_name,
    "size": is_integer,
    "mtime_ns": is_integer,
    "real": is_name,
}


def _is_reliance(value: Any) -> bool:
    return type(value) is dict and not misfits(value, _RELIANCE)


def misfits(values: Mapping[str, Any], kinds: Mapping[str, Fits]) -> list[str]:
    """Names of the ``values`` that are not of their kind, or have none."""
    return [name for name, v in values.items() if name not in kinds or not kinds[name](v)]


def require(values: Any, kinds: Mapping[str, Fits]) -> None:
    """Raise ``ValueError`` for ``values`` that are no JSON object with fields of their kind."""
    if not is_object(values):
        raise ValueError("it is not an object")
    wrong = misfits(values, kinds)
    if wrong:
        raise ValueError(f"{wrong[0]} is not what is stored there")
