"""Accuracy logs in the short form that submissions hold.

A log of more than 10 KiB keeps its first and its last 4096 bytes; its accuracy.txt keeps the
SHA-256 of the whole (MLPerf inference submission rules, "accuracy log truncation").
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from common.files import sha256

LIMIT = 10 * 1024
KEPT = 4096
# The official tool's separator between the two parts, and its variants: other line ends on
# Windows, and single ones from this program before round 6.1.
GAP = b"\n\n...\n\n"
ANY_GAP = re.compile(rb"(?:\r?\n){1,2}\.\.\.(?:\r?\n){1,2}")
LOG = "mlperf_log_accuracy.json"
TEXT = "accuracy.txt"
HASH = re.compile(r"^hash=([0-9a-fA-F]{64})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TruncatedLog:
    """A log that was cut: its folder, its size before, and the hash of the whole."""

    folder: Path
    size: int
    sha256: str


def genuine(content: bytes) -> bool:
    """Whether a log that was cut still has both its parts at their full length."""
    parts = ANY_GAP.split(content)
    # Line ends of Windows count twice or once, depending on where the log was cut.
    return len(parts) == 2 and all(
        len(part) - part.count(b"\r") <= KEPT <= len(part) for part in parts
    )


def cut(log: Path) -> bool:
    """Whether a log was cut already."""
    with log.open("rb") as file:
        return GAP.strip() in file.read(LIMIT)


def needed(folder: Path) -> bool:
    """Whether the log in ``folder`` is longer than a submission may hold."""
    log = folder / LOG
    return log.is_file() and log.stat().st_size > LIMIT


def stated_hash(folder: Path) -> str:
    """Return the hash in accuracy.txt, or an empty text."""
    try:
        hashes = HASH.findall((folder / TEXT).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return str(hashes[-1]).lower() if hashes else ""


def truncate(folder: Path) -> TruncatedLog | None:
    """Cut the log in ``folder`` and see to its hash in accuracy.txt; None when it is short.

    The hash is written before the log is cut: an interrupted call is simply made again.
    """
    if not needed(folder):
        return None
    log = folder / LOG
    whole, size = sha256(log), log.stat().st_size
    _state(folder / TEXT, whole)
    with log.open("rb") as file:
        head = file.read(KEPT)
        file.seek(-KEPT, os.SEEK_END)
        tail = file.read()
    _replace(log, head + GAP + tail)
    return TruncatedLog(folder, size, whole)


def truncate_all(root: Path) -> list[TruncatedLog]:
    """Cut every accuracy log below ``root``, in a fixed order."""
    made = (truncate(log.parent) for log in sorted(root.rglob(LOG)))
    return [log for log in made if log is not None]


def state(folder: Path) -> None:
    """See to the hash of a log that is not cut, where accuracy.txt has none."""
    log = folder / LOG
    there = log.is_file() and (folder / TEXT).is_file()
    if there and not stated_hash(folder) and not cut(log):
        _state(folder / TEXT, sha256(log))


def _state(path: Path, whole: str) -> None:
    """Make accuracy.txt end with the hash of the whole log, once."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = HASH.sub("", text).rstrip("\n")
    _replace(path, ((kept + "\n" if kept else "") + f"hash={whole}\n").encode())


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    os.replace(part, path)
