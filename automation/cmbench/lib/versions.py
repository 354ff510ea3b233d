"""Versions as tools really print them: parsing that never fails, one total order, ranges.

What PEP 440 can read is compared by its rules (``1.2rc1`` before ``1.2``). Anything else is read
leniently: the leading number decides (``11.8.0-ubuntu22``, ``r6.1``), then the remaining parts one
by one, numbers as numbers. Text without a number (``main``) sorts before every number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering
from typing import Any

_LENIENT = re.compile(
    r"v?(?P<prefix>[A-Za-z][A-Za-z_-]*)?(?P<release>\d+(?:\.\d+)*)(?P<rest>.*)", re.DOTALL
)
_PART = re.compile(r"\d+|[A-Za-z]+")
_PEP440, _LENIENT_RANK = 0, 1


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version text with its position in the order; made by ``parse``."""

    text: str
    release: tuple[int, ...] = ()
    key: tuple[Any, ...] = field(default=(), repr=False)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=4096)
def parse(text: str) -> Version:
    """The version that ``text`` names; any text is accepted."""
    from packaging.version import InvalidVersion
    from packaging.version import Version as Pep440

    text = text.strip()
    try:
        known = Pep440(text)
    except (InvalidVersion, ValueError):
        return _parse_leniently(text)
    key = (1, known.epoch, _significant(known.release), _PEP440, known)
    return Version(text, known.release, key)


def is_standard(text: str) -> bool:
    """Return whether pip can read a version."""
    return parse(text).key[3:4] == (_PEP440,)


def _parse_leniently(text: str) -> Version:
    match = _LENIENT.match(text)
    if match is None or len(match["release"]) > 1000:
        return Version(text, (), (0, text.lower(), text))
    release = tuple(int(part) for part in match["release"].split("."))
    parts = tuple(
        (1, int(part), "") if part.isdigit() else (0, 0, part.lower())
        for part in _PART.findall(match["rest"][:1000])
    )
    detail = ((match["prefix"] or "").lower(), parts, text)
    return Version(text, release, (1, 0, _significant(release), _LENIENT_RANK, detail))


def _significant(release: tuple[int, ...]) -> tuple[int, ...]:
    end = len(release)
    while end > 1 and release[end - 1] == 0:
        end -= 1
    return release[:end]


def compare(one: str, other: str) -> int:
    """-1, 0 or 1 as ``one`` is older than, the same as or newer than ``other``."""
    left, right = parse(one), parse(other)
    return (left > right) - (left < right)


def in_series(version: str, series: str) -> bool:
    """Whether ``version`` belongs to what a user means by ``series``: 3.10.13 is a 3.10."""
    prefix, release = parse(series), parse(version)
    if prefix == release:
        return True
    if not re.fullmatch(r"\d+(\.\d+)*", prefix.text):
        return False
    return release.release[: len(prefix.release)] == prefix.release


def satisfies(version: str, minimum: str = "", maximum: str = "", exact: str = "") -> bool:
    """Whether ``version`` is within the bounds; an empty text is no bound."""
    return not misfit(version, minimum, maximum, exact)


def misfit(version: str, minimum: str = "", maximum: str = "", exact: str = "") -> str:
    """Why ``version`` is not within the bounds, in a few words; empty when it is."""
    if exact and compare(version, exact) != 0:
        return f"{version} is not {exact}"
    if minimum and compare(version, minimum) < 0:
        return f"{version} is below the minimum {minimum}"
    if maximum and compare(version, maximum) > 0:
        return f"{version} is above the maximum {maximum}"
    return ""


def pip_version_string(version: str = "", minimum: str = "", maximum: str = "") -> str:
    """The bounds as pip writes them: ``==v``, ``>=a,<=b``, ``>=a``, ``<=b`` or nothing."""
    if version:
        return f"=={version}"
    bounds = (f">={minimum}" if minimum else "", f"<={maximum}" if maximum else "")
    return ",".join(bound for bound in bounds if bound)


def satisfies_pip(version: str, bounds: str) -> bool:
    """Whether pip would take ``version`` for ``bounds`` such as ``==2.1`` (2.1.0+cpu is one)."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(bounds).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        # Whatever pip makes of such a version, only the very same one is sure to fit.
        return not bounds or bounds == f"=={version}"


def describe_range(minimum: str = "", maximum: str = "", exact: str = "") -> str:
    """The bounds in words for a message: ``at least 3.8, at most 3.12``."""
    if exact:
        return exact
    bounds = (f"at least {minimum}" if minimum else "", f"at most {maximum}" if maximum else "")
    return ", ".join(bound for bound in bounds if bound) or "any version"
