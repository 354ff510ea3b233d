"""One cache entry: its fields, the files that it relies on, its text on disk.

The text carries a checksum of itself: metadata that was cut off or edited behind our back is seen.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cmbench.cache.field_types import (
    are_reliances,
    are_texts,
    is_duration,
    is_flag,
    is_moment,
    is_name,
    is_object,
    is_size,
    is_text,
    maps_maps,
    maps_texts,
    require,
)
from cmbench.lib.text_files import sha256
from cmbench.values import field, immutable

_SEAL = '{"seal": "'
_SEAL_DIGITS = 24
_PATH_IN_VALUE = r"(?:^|[\s:;,=\"'\[(]|(?:^|\s)-[A-Za-z]|file://)(/[^\s:;,\"'\])]+)"
_ENCODER = json.JSONEncoder(sort_keys=True, default=repr)


@immutable(frozen=True, slots=True, eq=True, repr=True)
class Reliance:
    """A file outside the entry that must still be there and unchanged.

    ``real`` is where links lead from ``path``, where they lead anywhere else.
    """

    path: str
    size: int
    mtime_ns: int
    real: str = ""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class CacheEntry:
    """Everything known of one complete cache entry.

    What it gives back and nobody may read on disk is not in ``new_env`` and ``new_state``;
    ``secrets`` has the fingerprints of these values. ``doubts`` say why it answers nobody but the
    run that made it. ``chosen`` has by the path of a script the tags by which it asked for others,
    with the uids of those that answered; ``libraries`` the shared code that it uses, with digests.
    """

    uid: str
    identity: str
    script: str
    script_uid: str
    tags: tuple[str, ...]
    variations: tuple[str, ...]
    version: str
    path: str
    reads: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    deps: tuple[str, ...] = ()
    relies_on: tuple[Reliance, ...] = ()
    new_env: Mapping[str, Any] = field(default_factory=dict)
    new_state: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    created: float = 0.0
    seconds: float = 0.0
    size: int = 0
    run: str = ""
    outputs: tuple[Reliance, ...] = ()
    imported: bool = False
    expires: float = 0.0
    doubts: tuple[str, ...] = ()
    chosen: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    libraries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What names this entry in the store and in the entries that were made with it."""
        return f"{self.identity}/{self.uid}"


_KINDS = {
    **dict.fromkeys(("uid", "identity", "script", "script_uid", "version", "name", "run"), is_text),
    **dict.fromkeys(("tags", "variations", "deps", "doubts"), are_texts),
    **dict.fromkeys(("reads", "scripts", "secrets"), maps_texts),
    **dict.fromkeys(("facts", "chosen", "libraries"), maps_maps),
    **dict.fromkeys(("relies_on", "outputs"), are_reliances),
    **dict.fromkeys(("new_env", "new_state"), is_object),
    "path": is_name,
    "created": is_moment,
    "seconds": is_duration,
    "expires": is_duration,
    "size": is_size,
    "imported": is_flag,
}


def make_identity(*parts: Any) -> str:
    """A key from everything that says what a step is."""
    return sha256(_ENCODER.encode(parts), 24)


def reliance(path: str) -> Reliance:
    """The present state of a file that an entry relies on; raises ``OSError``."""
    info, real = os.stat(path), os.path.realpath(path)
    return Reliance(path, info.st_size, info.st_mtime_ns, "" if real == path else real)


def relied_on_change(item: Reliance) -> str:
    """Why ``item`` no longer holds, or an empty string."""
    try:
        now = reliance(item.path)
    except OSError:
        return f"{item.path} is gone"
    return "" if now == item else f"{item.path} has changed"


def expiration(text: str, now: float) -> float:
    """When an entry made ``now`` (seconds since 1970) ends, for ``10m``, ``2h``, ``5d`` or ``0``.

    Zero, the number, stands for never. Raises ``ValueError`` for other texts.
    """
    if not text:
        return 0.0
    units = {"m": 60, "h": 3600, "d": 86400}
    seconds = 0 if text == "0" else int(text[:-1]) * units.get(text[-1:].lower(), -1)
    if seconds < 0:
        raise ValueError(text)
    return now + seconds


def expiry(entry: CacheEntry) -> str:
    """Why an entry has come to its end by the clock, or an empty string."""
    return "it has expired" if is_over(entry.expires) else ""


def is_over(expires: float) -> bool:
    """Whether the time of an entry's end has come; 0 stands for never."""
    return bool(expires) and time.time() >= expires


def damage(entry: CacheEntry) -> str:
    """What is wrong with the payload at a quick look, or an empty string.

    Looks at the payload's directory and at what the entry's exported values name in it; reading
    whole files is the matter of ``verify``.
    """
    try:
        is_directory = stat.S_ISDIR(os.lstat(entry.path).st_mode)
    except OSError:
        return f"its directory {entry.path} is gone"
    if not is_directory:
        return f"{entry.path} is no longer its directory"
    return next((why for item in entry.outputs if (why := _output_change(item))), "")


def misplaced(entry: CacheEntry, payloads: str) -> str:
    """Why the payload of ``entry`` is not its own among ``payloads``, or an empty string."""
    folder, name = os.path.split(entry.path)
    if name != f"{entry.script}_{entry.uid}":
        return f"{entry.path} is not its directory"
    if folder == payloads:
        return ""
    # A home may have two names, by a link or a mount.
    with suppress(OSError):
        if os.path.samefile(folder, payloads):
            return ""
    return f"its directory {entry.path} is in another home"


def paths_in(values: Mapping[str, Any]) -> set[str]:
    """Return the absolute paths that exported ``values`` hold, whole or in a list or an option."""
    paths: set[str] = set()
    for value in values.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and "\0" not in item:
                paths.update(re.findall(_PATH_IN_VALUE, item))
                paths.update([item] if item[:1] == "/" else [])
    return paths


def output(path: str) -> Reliance:
    """The present state of an exported path; only of plain files, size and time count."""
    info = os.lstat(path)
    if stat.S_ISREG(info.st_mode):
        return Reliance(path, info.st_size, info.st_mtime_ns)
    os.stat(path)
    return Reliance(path, -1, 0)


def _output_change(item: Reliance) -> str:
    try:
        now = output(item.path)
    except OSError:
        return f"{item.path} is gone"
    return "" if now == item else f"{item.path} has changed"


def sealed(text: str) -> str:
    """A JSON object's text with a checksum of itself in front, still a JSON object."""
    return f'{_SEAL}{sha256(text, _SEAL_DIGITS)}",{text[1:]}'


def unsealed(text: str) -> dict[str, Any]:
    """The object of a sealed text; raises ``ValueError`` where it is not as it was written."""
    start = len(_SEAL) + _SEAL_DIGITS + 2
    if text[: len(_SEAL)] != _SEAL or text[start - 2 : start] != '",':
        raise ValueError("no seal")
    body = "{" + text[start:]
    if text[len(_SEAL) : start - 2] != sha256(body, _SEAL_DIGITS):
        raise ValueError("its checksum does not match")
    try:
        data: dict[str, Any] = json.loads(body)
        if "\\ud" in body.lower():
            # Half of a pair is no text, unless it stands for a byte of the name of a file.
            json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return data


def decode(data: dict[str, Any]) -> CacheEntry:
    """Return an entry from its stored fields; raise ``ValueError`` or ``TypeError`` for others."""
    # Not by common.records: it takes 7 ms of the start of a command, 0.15 ms instead of 0.02 ms
    # for an entry, and knows no bounds of numbers and no names of files.
    values = {key: value for key, value in data.items() if key in _KINDS}
    require(values, _KINDS)
    for key in ("tags", "variations", "deps", "doubts"):
        values[key] = tuple(values.get(key) or ())
    for key in ("relies_on", "outputs"):
        values[key] = tuple(Reliance(**item) for item in values.get(key) or ())
    return CacheEntry(**values)
