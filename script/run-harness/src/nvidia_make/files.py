"""Engines as files: what each says of itself, another name for one, its checksum."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any


def sidecar(engine: Path) -> dict[str, Any]:
    """What an engine says of itself; empty where it does not."""
    try:
        told = json.loads(engine.with_name(f"{engine.name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def link(source: Path, target: Path) -> None:
    """The same file under another name, or a copy of it on another disk."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def checksum(file: Path) -> str:
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with file.open("rb") as stream:
        while part := stream.read(1 << 20):
            found.update(part)
    return found.hexdigest()
