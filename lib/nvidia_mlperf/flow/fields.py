"""The fields of NVIDIA's configurations: types, bounds, scope, and what they do in this harness."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nvidia_mlperf.flow.errors import nearest

USED, RECORD, REFUSED = "used", "record", "refused"
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One field: ``here`` says what happens with it, ``ours`` the setting that it becomes.

    ``benchmarks`` and ``scenarios`` are empty where it applies to all. ``default`` is NVIDIA's,
    None where none is documented.
    """

    name: str
    type: str
    here: str
    why: str = ""
    ours: str = ""
    unit: str = ""
    choices: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    benchmarks: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    default: Any = None

    def described(self) -> str:
        """Return two lines: its type, bounds and scope, and how it is used."""
        bounds = [f"from {self.min:g}"] if self.min is not None else []
        bounds += [f"to {self.max:g}"] if self.max is not None else []
        parts = [
            " ".join(
                part for part in (self.type, self.unit and f"in {self.unit}", *bounds) if part
            ),
            f"one of {', '.join(self.choices)}" if self.choices else "",
            f"default {self.default}" if self.default is not None else "",
            f"for {', '.join((*self.benchmarks, *self.scenarios)) or 'all'}",
        ]
        what = f"{self.here}{self.ours and f' as {self.ours}'}{self.why and f': {self.why}'}"
        return f"{self.name}: {'; '.join(part for part in parts if part)}\n    {what}"

    def misfit(self, value: Any) -> str:
        """Return why ``value`` cannot be one of this field; empty when it can."""
        kinds = _KINDS[self.type]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            unit = f" in {self.unit}" if self.unit else ""
            return f"{self.name} is {self.type}{unit}, and {value!r} is not"
        if self.choices and value not in self.choices:
            return f"{self.name} is {value!r}: {nearest(str(value), self.choices)}"
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.min is not None and value < self.min:
                return f"{self.name} is {value}, below {self.min:g}"
            if self.max is not None and value > self.max:
                return f"{self.name} is {value}, above {self.max:g}"
        return ""

    def out_of_scope(self, benchmark: str, scenario: str) -> str:
        """Return why it does not apply there; empty when it does."""
        if self.benchmarks and benchmark not in self.benchmarks:
            return f"{self.name} is for {', '.join(self.benchmarks)}, not for {benchmark}"
        if self.scenarios and scenario not in self.scenarios:
            return f"{self.name} is for {', '.join(self.scenarios)}, not for {scenario}"
        return ""

    def from_text(self, text: str) -> Any:
        """The value that a user typed, of the field's type where it can be; else the text."""
        word = text.strip()
        if self.type == "bool" and word.lower() in (*_TRUE, *_FALSE):
            return word.lower() in _TRUE
        if self.type in ("int", "number", "float", "int_or_list") and re.fullmatch(
            r"[+-]?\d+", word
        ):
            return int(word)
        if self.type in ("number", "float"):
            try:
                return float(word)
            except ValueError:
                return text
        if self.type in ("list", "int_or_list") and "," in word:
            return [int(part) if part.strip().isdigit() else part for part in word.split(",")]
        return text


_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "number": (int, float),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "dict": (dict,),
    "list": (list, int, str),
    "int_or_list": (int, list),
}


def read(table: Mapping[str, Mapping[str, Any]]) -> dict[str, ConfigField]:
    """Return the fields of the table; raise ``ValueError`` for an invalid entry."""
    fields = {}
    for name, entry in table.items():
        lists = {
            key: tuple(entry[key]) for key in ("choices", "benchmarks", "scenarios") if key in entry
        }
        try:
            field = ConfigField(name=name, **{**entry, **lists})
        except TypeError as problem:
            raise ValueError(f"{name}: {problem}") from None
        if field.type not in _KINDS or field.here not in (USED, RECORD, REFUSED):
            raise ValueError(f"{name}: type {field.type} or here {field.here} is not known")
        if field.here != USED and not field.why:
            raise ValueError(f"{name}: {field.here} without a reason")
        misfit = field.misfit(field.default) if field.default is not None else ""
        if misfit:
            raise ValueError(f"{name}: its default does not fit: {misfit}")
        fields[name] = field
    return fields
