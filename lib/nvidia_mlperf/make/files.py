"""Engines as files: what each says of itself, another name for one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any


def sidecar(engine: Path) -> dict[str, Any]:
    """What an engine says of itself; empty where it does not."""
    try:
        content = json.loads(engine.with_name(f"{engine.name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def put(source: Path, target: Path) -> None:
    """The same file under another name, or a copy of it on another disk; whole, or not there."""
    draft = _draft(target)
    try:
        try:
            os.link(source, draft)
        except OSError:
            shutil.copyfile(source, draft)
        draft.replace(target)
    finally:
        # A copy that the disk has no room for goes; and where both are names of one file already,
        # nothing is renamed.
        draft.unlink(missing_ok=True)


def _draft(target: Path) -> Path:
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    return draft
