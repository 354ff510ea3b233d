"""Frozen dataclasses as JSON and back, checked against their annotations."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

# Metadata of a field that is written only where it holds something.
WHEN_GIVEN = {"when_given": True}

Metadata = Mapping[str, Any]


class RecordReader:
    """Builds dataclasses from parsed JSON; subclasses read some kinds of values in another way.

    ``failure`` makes the exception for a fault, of a text that names its position. A key that is
    not known is a fault, so that a misspelt one cannot fall back to a default; with
    ``is_lenient`` it is left out, as a later version may have written it.
    """

    def __init__(self, failure: Callable[[str], Exception], *, is_lenient: bool = False) -> None:
        self.failure = failure
        self._is_lenient = is_lenient

    def decode(self, cls: type[T], data: object, where: str = "") -> T:
        """Return the dataclass ``cls`` from plain data at the position ``where``."""
        name = where or cls.__name__
        if not isinstance(data, Mapping):
            raise self.failure(f"{name} is not an object: {data!r:.200}")
        hints, metadata, required = _described(cls)  # type: ignore[arg-type]
        unknown = sorted(set(data) - set(hints), key=str)
        if unknown and not self._is_lenient:
            known = ", ".join(hints)
            raise self.failure(f"{name}: unknown key {unknown[0]!r:.60}; known are {known}")
        if missing := [key for key in required if key not in data]:
            raise self.failure(f"{name}: {missing[0]!r} is missing")
        values = {
            key: self.value(
                hints[key], data[key], f"{where}.{key}" if where else key, metadata[key]
            )
            for key in data
            if key in hints
        }
        return cls(**values)

    def value(self, hint: Any, value: object, where: str, metadata: Metadata) -> Any:
        """Return one value as its annotation says; ``metadata`` is that of the field."""
        origin, inner = get_origin(hint), get_args(hint)
        if hint is Any:
            return value
        if origin in (Union, types.UnionType):
            return self._one_of(inner, value, where, metadata)
        if origin in (tuple, Sequence):
            return self.items(inner[0], value, where, metadata)
        if origin in (dict, Mapping):
            return self.mapping(inner[1], value, where, metadata)
        if dataclasses.is_dataclass(hint):
            return self.decode(hint, value, where)  # type: ignore[arg-type]
        return self.scalar(hint, value, where, metadata)

    def _one_of(self, hints: tuple[Any, ...], value: object, where: str, metadata: Metadata) -> Any:
        """Return the value as one of several plain types, or as the only one that is not None."""
        inner = [hint for hint in hints if hint is not types.NoneType]
        if value is None and len(inner) < len(hints):
            return None
        if len(inner) > 1 and type(value) in inner:
            return value
        return self.value(inner[0], value, where, metadata)

    def items(self, hint: Any, value: object, where: str, metadata: Metadata) -> Any:
        """Return a list as a tuple."""
        if not isinstance(value, list | tuple):
            raise self.failure(f"{where}: expected a list, found {value!r:.200}")
        return tuple(self.value(hint, v, f"{where}[{n}]", metadata) for n, v in enumerate(value))

    def mapping(self, hint: Any, value: object, where: str, metadata: Metadata) -> Any:
        """Return an object whose keys are no fields."""
        if not isinstance(value, Mapping):
            raise self.failure(f"{where} is not an object: {value!r:.200}")
        return {str(k): self.value(hint, v, f"{where}.{k}", metadata) for k, v in value.items()}

    def scalar(self, hint: Any, value: object, where: str, metadata: Metadata) -> Any:
        """Return a text, number, truth value or member of an enumeration."""
        if issubclass(hint, Enum):
            if value not in tuple(hint):
                known = ", ".join(hint)
                raise self.failure(f"{where}: expected one of {known}; found {value}")
            return hint(value)
        if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
            return value
        raise self.failure(f"{where}: expected {hint.__name__}, found {value!r:.200}")


@cache
def _described(cls: Any) -> tuple[Mapping[str, Any], Mapping[str, Metadata], Sequence[str]]:
    """Return a dataclass's annotations, the metadata of its fields, and the required ones."""
    fields, no_default = dataclasses.fields(cls), dataclasses.MISSING
    required = [
        field.name
        for field in fields
        if field.default is no_default and field.default_factory is no_default
    ]
    return get_type_hints(cls), {field.name: field.metadata for field in fields}, required


def _omits(field: dataclasses.Field[Any], value: object) -> bool:
    return not value and bool(field.metadata.get("when_given"))


def encode(record: Any, omits: Callable[[dataclasses.Field[Any], object], bool] = _omits) -> Any:
    """Return a dataclass, or containers of dataclasses, as plain JSON values.

    ``omits`` says of a field and its encoded value whether it is left out.
    """
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        values = {
            field: encode(getattr(record, field.name), omits)
            for field in dataclasses.fields(record)
        }
        return {field.name: v for field, v in values.items() if not omits(field, v)}
    if isinstance(record, Mapping):
        return {str(key): encode(value, omits) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [encode(value, omits) for value in record]
    return record
