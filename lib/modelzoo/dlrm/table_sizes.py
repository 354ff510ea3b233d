"""Rows and sizes of DLRM's embedding tables, by the rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("sizes.json")


def read_sizes() -> dict[str, Any]:
    """Return ``width`` and, per version (v1, v2), ``rows`` and ``hot`` of the tables."""
    sizes: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return sizes
