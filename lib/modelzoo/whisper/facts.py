"""What the benchmark of speech needs to know of a Whisper besides its graphs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PIECES_FILE = "pieces.json"


def options_of(
    out: Path, pieces: Sequence[str], starts: Sequence[int], end: int, most: int
) -> dict[str, Any]:
    """Write what every token spells (bytes as Latin-1); return the options of model.json.

    ``starts`` begin a text, ``end`` ends it, ``most`` is the greatest number of new tokens.
    """
    (out / PIECES_FILE).write_text(json.dumps(list(pieces)) + "\n", encoding="utf-8")
    return {
        "pieces": PIECES_FILE,
        "start_tokens": list(starts),
        "end_token": end,
        "max_new_tokens": most,
    }
