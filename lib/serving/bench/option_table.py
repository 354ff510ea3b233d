"""Options as one table, from which the parser, the help and the values are made.

The ``meta.yaml`` of the script that starts the program names the same options.
"""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from common.problems import bad_value

# What typesetting makes of a hyphen.
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
ENDLESS = 1e7
"""Seconds that stand for no end."""


@dataclass(frozen=True, slots=True)
class BenchOption:
    """A flag: its name, its type (``yes`` for a switch), and its purpose."""

    name: str
    takes: str
    desc: str
    default: str = ""
    short: str = ""
    choices: tuple[str, ...] = ()
    repeats: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise bad_value(message)


def understood(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments with hyphens for typographic dashes, and the replaced ones."""
    words, notes = [], []
    for word in arguments:
        name, mark, value = word.partition("=")
        flag = bare(name)
        read_as = ("-" if len(flag) == 1 else "--") + flag
        if set(name[: len(name) - len(flag)]) & set(DASHES):
            notes.append(f"{name} has a typographic dash; it is read as {read_as}")
            words.append(read_as + mark + value)
        elif name.startswith("--") and flag:
            words.append(f"--{flag}{mark}{value}")
        else:
            words.append(word)
    return words, notes


def bare(name: str) -> str:
    """Return the name of an option without the dashes before it."""
    return name.lstrip(DASHES + "-").replace("-", "_")


def _parser(
    options: Sequence[BenchOption], program: str, description: str
) -> argparse.ArgumentParser:
    made = _Parser(prog=program, description=description, allow_abbrev=False)
    for option in options:
        names = [f"-{option.short}"] * bool(option.short) + [f"--{option.name}"]
        text = option.desc + (f" ({option.default})" if option.default else "")
        extra: dict[str, Any] = {}
        if option.takes == "yes":
            extra = {"action": "store_true"}
        elif option.name == "until_stable":
            extra = {"nargs": "?", "const": "10", "metavar": "PERCENT"}
        elif option.repeats:
            extra = {"action": "append", "metavar": option.takes.upper()}
        else:
            extra = {"metavar": "|".join(option.choices) or option.takes.upper()}
        made.add_argument(*names, dest=option.name, help=text.replace("%", "%%"), **extra)
    return made


def parse(
    options: Sequence[BenchOption],
    arguments: Sequence[str],
    program: str,
    description: str,
    explain: Callable[[str], str] = lambda name: "",
) -> tuple[dict[str, Any], list[str]]:
    """Return the options' texts by name, and notes on how flags were read; raise Problem.

    ``explain`` may return a hint for the name of an option that is not in the table.
    """
    words, notes = understood(arguments)
    namespace, rest = _parser(options, program, description).parse_known_args(words)
    if rest:
        name = bare(rest[0].partition("=")[0])
        near = difflib.get_close_matches(name, [option.name for option in options], n=1)
        hint = explain(name) or (f"did you mean --{near[0]}?" if near else "--help names all")
        raise bad_value(f'"{rest[0]}" is not an option', hint=hint)
    return vars(namespace), notes


class OptionValues:
    """The options' texts, read as what they are; one that was not given is nothing."""

    def __init__(self, options: Sequence[BenchOption], values: Mapping[str, Any]) -> None:
        self._values = {option.name: option.default for option in options} | dict(values)
        for option in options:
            value = self._values[option.name]
            if option.choices and value not in option.choices:
                raise bad_value(f"--{option.name}={value} is none of {', '.join(option.choices)}")

    def text(self, name: str) -> str:
        """As it was given."""
        text: str = self._values[name]
        return text

    def several(self, name: str) -> list[str]:
        """Of an option that can be repeated."""
        return list(self._values[name] or ())

    def integer(self, name: str, least: int = 1) -> int:
        """Return a whole number; 0 for none."""
        text = self.text(name)
        return int(as_number(f"--{name}", text, least, whole=True)) if text else 0

    def number(self, name: str, most: float = math.inf) -> float:
        """Return a number that is not negative; 0 for none."""
        text = self.text(name)
        return as_number(f"--{name}", text, 0, most) if text else 0.0

    def positive(self, name: str) -> float:
        """Return a number above 0; 0 for none."""
        number = self.number(name)
        if self.text(name) and not number:
            raise bad_value(f"--{name}={self.text(name)} is not above 0")
        return number

    def seconds(self, name: str) -> float:
        """Return a time that is one."""
        seconds = self.number(name, ENDLESS)
        if not seconds:
            raise bad_value(f"--{name}=0 is not a time")
        return seconds


def contradiction(values: Mapping[str, Any], pairs: Sequence[tuple[str, str]]) -> None:
    """Raise Problem where both options of a pair have a value."""
    for one, other in pairs:
        if one in values and other in values:
            raise bad_value(f"--{one} and --{other} contradict each other", hint="leave out one")


def as_number(
    name: str, text: str, least: float, most: float = math.inf, *, whole: bool = False
) -> float:
    """``text`` as a number within bounds, in the unit of the option; raises Problem."""
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        kind = "whole number" if whole else "number"
        raise bad_value(f"{name}={text} is not a {kind}") from None
    if not math.isfinite(value) or not least <= value <= most:
        bounds = f"at least {least:g}" + (f" and at most {most:g}" if most < math.inf else "")
        raise bad_value(f"{name}={text} is not {bounds}")
    return value


def http_header(text: str) -> tuple[str, str]:
    """Return name and value of ``NAME:VALUE``; raise Problem."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise bad_value(f"--header={text} is not NAME:VALUE")
    return name.strip(), value.strip()
