"""Text enumerations: a member is a string, prints as one, and is parsed in any case."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from common.problems import ProgramError

W = TypeVar("W", bound="TextEnum")


class CatalogError(ProgramError, ValueError):
    """A benchmark, round or scenario that the catalogue does not have."""


class TextEnum(str, Enum):
    """An enumeration of the texts that a file, an option or a log may hold.

    A member equals its text, so that records and logs can be compared with it.
    """

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(str(self.value), spec)

    @classmethod
    def parse(cls: type[W], text: str) -> W:
        """Return the member with this text in any case; raises CatalogError with all members."""
        for member in cls:
            if member.value.lower() == text.strip().lower():
                return member
        known = ", ".join(cls)
        raise CatalogError(f"no {cls.__name__.lower()} {text}; there are: {known}")


class Division(TextEnum):
    """A division: in ``closed`` and ``network`` all submitters run the same model."""

    CLOSED = "closed"
    OPEN = "open"
    NETWORK = "network"

    @property
    def strict(self) -> bool:
        """Return whether targets, scenarios and compliance tests bind."""
        return self is not Division.OPEN


class Category(TextEnum):
    """The category of a system."""

    EDGE = "edge"
    DATACENTER = "datacenter"

    @classmethod
    def each(cls, text: str) -> tuple[Category, ...]:
        """The categories in a text such as ``datacenter,edge``; words that are none are left out.

        >>> Category.each("datacenter,edge") == (Category.EDGE, Category.DATACENTER)
        True
        """
        named = {word.strip().lower() for word in text.split(",")}
        return tuple(member for member in cls if member.value in named)


class Mode(TextEnum):
    """A kind of measurement in a scenario."""

    FIND = "find-performance"
    PERFORMANCE = "performance"
    ACCURACY = "accuracy"
    COMPLIANCE = "compliance"
    README = "readme"

    @property
    def loadgen(self) -> str:
        """Return the name of LoadGen's own mode, for modes that run it once."""
        return "AccuracyOnly" if self is Mode.ACCURACY else "PerformanceOnly"

    @classmethod
    def parse_modes(cls, word: str) -> tuple[Mode, ...]:
        """Return the modes that a user's word selects; raises CatalogError for an unknown one."""
        return (cls.PERFORMANCE, cls.ACCURACY) if word == ALL_MODES else (cls.parse(word),)


ALL_MODES = "all"
MODE_WORDS = (Mode.FIND, Mode.PERFORMANCE, Mode.ACCURACY, ALL_MODES, Mode.COMPLIANCE, Mode.README)


class Answers(TextEnum):
    """How the bytes that LoadGen logs for a sample are made up."""

    FIXED = "fixed"
    VARIABLE = "variable"
    TOKENS = "tokens"
