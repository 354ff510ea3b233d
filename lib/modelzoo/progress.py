"""Progress of a program, reported to the process that has started it."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

from common.files import replace_text

SHOW_EVERY_S = 0.5


class Progress:
    """Writes to the file that CM_PROGRESS_FILE names, at most twice a second; threads may share it.

    ``total`` and ``done`` are in ``unit``s, of which ``label`` says what they are.
    """

    def __init__(self, label: str, total: int, unit: str, done: int = 0) -> None:
        self._report = {"label": label, "done": done, "total": total, "unit": unit}
        self._done, self._total = done, total
        self._lock = threading.Lock()
        self._shown = 0.0
        self._file = os.environ.get("CM_PROGRESS_FILE")

    def more(self, count: int = 1) -> None:
        """So many further units are done."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if not self._file or (now < self._shown + SHOW_EVERY_S and self._done < self._total):
                return
            self._shown = now
            replace_text(Path(self._file), json.dumps({**self._report, "done": self._done}))
