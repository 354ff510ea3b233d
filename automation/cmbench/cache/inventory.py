"""What the payload of an entry holds: recorded when it is published, compared by ``verify``.

Reading everything again would cost a large entry as much as making it. So the content of all files
is recorded for small payloads, and for large ones that of the files which exported values name;
of the others size and time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cmbench.cache.cache_entry import CacheEntry, Reliance, output, paths_in
from cmbench.cache.packages import Packages
from cmbench.cache.store import CacheStore
from cmbench.errors import Error
from cmbench.lib.files import file_checksum
from cmbench.lib.secrecy import Secrets

ALL_BYTES = 64 << 20
ALL_FILES = 4000
"""Up to so many bytes and files the content of every file is recorded: half a second at most."""

_UNSTABLE = "__pycache__"

Files = dict[str, list[Any]]
"""Path below the payload to ``[size, mtime in ns, sha256 or ""]``, or for a link to its target."""


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """What a comparison found: files looked at, those read in full, faults, files that came later.

    ``recorded`` is false for an entry of which nothing was recorded.
    """

    files: int = 0
    read: int = 0
    faults: tuple[str, ...] = ()
    added: int = 0
    recorded: bool = True


def outputs_of(path: str, values: Mapping[str, Any]) -> tuple[Reliance, ...]:
    """The present state of what exported ``values`` name inside the payload ``path``."""
    outputs: dict[str, Reliance] = {}
    for name in sorted(name for name in paths_in(values) if name.startswith(path + os.sep)):
        # A missing path is where a later step writes.
        with suppress(OSError):
            outputs[name] = output(name)
    return tuple(outputs.values())


def survey(path: str, outputs: tuple[Reliance, ...]) -> tuple[int, Files]:
    """Return the bytes of all plain files below ``path``, and their recorded states."""
    files: Files = {}
    total = 0
    for name, info in plain_files(path):
        if stat.S_ISLNK(info.st_mode):
            files[name] = [os.readlink(os.path.join(path, name))]
        else:
            total += info.st_size
            files[name] = [info.st_size, info.st_mtime_ns, ""]
    declared = {os.path.relpath(item.path, path) for item in outputs}
    everything = total <= ALL_BYTES and len(files) <= ALL_FILES
    for name, state in files.items():
        if len(state) == 3 and (everything or name in declared):
            state[2] = file_checksum(Path(path, name), "sha256")
    return total, files


def without_hidden(
    path: str, outputs: tuple[Reliance, ...], files: Files, secrets: Secrets
) -> tuple[tuple[Reliance, ...], Files]:
    """What metadata may tell of the files below ``path``: a name may be a secret.

    The folder of such a file is its owner's alone, and others cannot list it.
    """
    shown = {name: state for name, state in files.items() if secrets.text(name) == name}
    if len(shown) == len(files):
        return outputs, files
    os.chmod(path, 0o700)
    hidden = {os.path.join(path, name) for name in files.keys() - shown.keys()}
    return tuple(item for item in outputs if item.path not in hidden), shown


def check(
    entry: CacheEntry, files: Mapping[str, Any] | None, in_full: bool = True
) -> VerificationResult:
    """Compare the payload of ``entry`` with what was recorded of it.

    Reads every file of which the content was recorded, or only those written to since then.
    """
    now = dict(plain_files(entry.path))
    if files is None:
        return VerificationResult(recorded=not now, added=len(now))
    faults: list[str] = []
    packages = Packages(entry.path)
    read = 0
    for name, state in sorted(files.items()):
        info = now.pop(name, None)
        if info is None:
            faults += [] if packages.explain(name) else [f"{name} is gone"]
            continue
        if not in_full and state[:2] == [info.st_size, info.st_mtime_ns]:
            continue
        why, was_read = _difference(os.path.join(entry.path, name), info, state)
        read += was_read
        if why and not packages.explain(name):
            faults.append(f"{name} {why}")
    return VerificationResult(len(files), read, tuple(faults), len(now))


def require_whole(store: CacheStore, keys: Iterable[str], seen: set[str]) -> None:
    """Refuse to measure with damaged inputs: the entries ``keys`` and all they were made with.

    An environment of Python grows by what is installed into it later, and is not looked at. What is
    in ``seen`` was looked at before. Raises ``cache-damaged``.
    """
    pending = list(keys)
    while pending:
        key = pending.pop()
        entry = None if key in seen else store.entry(key)
        seen.add(key)
        if entry is None or os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
            continue
        pending += entry.deps
        faults = check(entry, store.files(entry), in_full=False).faults
        if faults:
            raise Error(
                "cache-damaged",
                f"{entry.script} in the cache has changed since it was made: {faults[0]}",
                context=(entry.path, *faults[1:4]),
                hint=f"see what is damaged: `cm verify cache --tags={','.join(entry.tags)}`",
            )


def _difference(path: str, info: os.stat_result, state: list[Any]) -> tuple[str, bool]:
    if stat.S_ISLNK(info.st_mode) != (len(state) == 1):
        return "is no longer a file of this kind", False
    if len(state) == 1:
        return ("" if os.readlink(path) == state[0] else "points elsewhere"), False
    size, time_ns, digest = state
    if info.st_size != size:
        return f"has {info.st_size} bytes, had {size}", False
    if not digest:
        return ("" if info.st_mtime_ns == time_ns else "was written to"), False
    try:
        same = file_checksum(Path(path), "sha256") == digest
    except OSError as problem:
        return f"cannot be read: {problem.strerror}", True
    return ("" if same else "has other content"), True


def plain_files(path: str, folders: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """Plain files and links below ``path`` with their state; what Python compiles is left out.

    With ``folders`` also the folders, each before what it holds.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            items = list(os.scandir(os.path.join(path, folder)))
        except OSError:
            continue
        for item in items:
            name = os.path.join(folder, item.name)
            info = item.stat(follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                if item.name == _UNSTABLE:
                    continue
                pending.append(name)
                if folders:
                    yield name, info
            elif stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                yield name, info
