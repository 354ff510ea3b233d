"""What other scripts of the repository bring, found beside this one."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[4]


def importable(*aliases: str) -> None:
    """Let ``src`` of these scripts be imported; they come last, so that they hide nothing."""
    for alias in aliases:
        folder = str(SCRIPTS / alias / "src")
        if folder not in sys.path:
            sys.path.append(folder)
