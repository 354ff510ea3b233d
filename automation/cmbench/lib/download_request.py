"""What the environment of the script download-file asks for: read before its turn, and in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from cmbench.errors import Error
from cmbench.lib.urls import file_name
from cmbench.lib.yes_no import is_no

Group = tuple[str, tuple[str, ...]]
"""A checksum, or nothing, and the URLs in order that should have the file."""
_MIRRORS = ("", "1", "2", "3", "4")


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """Where to get a file: the first of ``groups`` that has it.

    ``size`` is in bytes; ``name`` is what the file is to be called.
    """

    groups: tuple[Group, ...]
    size: int | None
    name: str
    verify: bool


def read_request(env: Mapping[str, Any]) -> DownloadRequest:
    """The request in ``env``; raises Error for an invalid size."""
    # A mirror may hold another file, with a checksum of its own.
    mirrors = [
        (_text(env, f"CHECKSUM{number}") or wanted_checksum(env), url)
        for number in _MIRRORS
        if (url := _text(env, f"URL{number}"))
    ]
    name = _text(env, "RENAME_FILE") or _text(env, "FILENAME")
    return DownloadRequest(
        tuple(
            (checksum, tuple(url for _, url in group))
            for checksum, group in groupby(mirrors, key=itemgetter(0))
        ),
        wanted_size(env),
        name or (file_name(mirrors[0][1]) if mirrors else ""),
        not is_no(env.get("CM_VERIFY_SSL")),
    )


def wanted_checksum(env: Mapping[str, Any]) -> str:
    """The checksum of the file; empty where none is given."""
    return _text(env, "CHECKSUM")


def wanted_size(env: Mapping[str, Any]) -> int | None:
    """The size of the file in bytes, where it is given; raises Error where it is no number."""
    text = _text(env, "SIZE")
    if text and not text.isdigit():
        raise Error("bad-value", f'"{text}" is not a size in bytes', hint="give a whole number")
    return int(text) if text else None


def _text(env: Mapping[str, Any], name: str) -> str:
    return str(env.get(f"CM_DOWNLOAD_{name}") or "").strip()
