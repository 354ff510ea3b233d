"""Frozen dataclasses to JSON files and back, checked against their annotations.

Every process boundary of the harness is a JSON file. A wrong or unknown key is an error with its
place, so that a misspelt setting can never silently fall back to a default.
"""

from __future__ import annotations

import dataclasses
import json
import os
import types
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import HarnessError

T = TypeVar("T")

# Metadata of a field that is written only where it holds something.
WHEN_GIVEN = {"when_given": True}


def decode(cls: type[T], data: object, where: str = "") -> T:
    """Build the dataclass ``cls`` from parsed JSON; raises HarnessError naming the bad key."""
    place = where or cls.__name__
    if not isinstance(data, Mapping):
        raise HarnessError(f"{place}: expected an object, found {data!r}")
    hints = get_type_hints(cls)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise HarnessError(f"{place}: unknown key {unknown[0]!r}; known are {', '.join(hints)}")
    values = {
        key: _value(hints[key], value, f"{place}.{key}" if where else key)
        for key, value in data.items()
    }
    try:
        return cls(**values)
    except TypeError as error:
        raise HarnessError(f"{place}: {error}") from error


def _value(hint: Any, value: object, where: str) -> Any:
    origin = get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint), value, where)
    if origin is tuple or origin is dict:
        return _many(origin, get_args(hint), value, where)
    if dataclasses.is_dataclass(hint):
        return decode(hint, value, where)  # type: ignore[arg-type]
    return _scalar(hint, value, where)


def _one_of(hints: tuple[Any, ...], value: object, where: str) -> Any:
    """Return the value as one of several plain types, or as the only one that is not None."""
    if type(value) in hints:
        return value
    inner = [hint for hint in hints if hint is not types.NoneType]
    return _value(inner[0], value, where)


def _many(origin: type, hints: tuple[Any, ...], value: object, where: str) -> Any:
    if origin is dict:
        if not isinstance(value, Mapping):
            raise HarnessError(f"{where}: expected an object, found {value!r}")
        return {str(k): _value(hints[1], item, f"{where}.{k}") for k, item in value.items()}
    if not isinstance(value, list | tuple):
        raise HarnessError(f"{where}: expected a list, found {value!r}")
    return tuple(_value(hints[0], item, f"{where}[{n}]") for n, item in enumerate(value))


def _scalar(hint: Any, value: object, where: str) -> Any:
    if issubclass(hint, Enum):
        known = ", ".join(hint)
        if value not in tuple(hint):
            raise HarnessError(f"{where}: expected one of {known}; found {value}")
        return hint(value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise HarnessError(f"{where}: expected {hint.__name__}, found {value!r}")


def encode(record: Any) -> Any:
    """Return a dataclass, or containers of dataclasses, as plain JSON values."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {
            member.name: encode(getattr(record, member.name))
            for member in dataclasses.fields(record)
            if getattr(record, member.name) or not member.metadata.get("when_given")
        }
    if isinstance(record, Mapping):
        return {str(key): encode(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [encode(value) for value in record]
    return record


def read(cls: type[T], path: Path) -> T:
    """Read ``cls`` from a JSON file; raises HarnessError when it is missing or wrong."""
    return decode(cls, read_json(path))


def read_json(path: Path) -> Any:
    """Parse a JSON file; raises HarnessError when that cannot be done."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"cannot read {path}: {error}") from error


def write(path: Path, record: Any) -> None:
    """Write a record as JSON, in one step, so that a reader never sees half of it."""
    write_text(path, json.dumps(encode(record), indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a text file in one step."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
