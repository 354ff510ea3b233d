"""Progress reports to the caller, in a file that is replaced atomically."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from . import records


class ProgressWriter:
    """Writes to the file named by CM_PROGRESS_FILE; silent when there is none."""

    def __init__(self, path: str | None = None) -> None:
        name = os.environ.get("CM_PROGRESS_FILE", "") if path is None else path
        self._path = Path(name) if name else None

    def report(
        self, label: str, done: float, total: float, unit: str = "s", more: str = ""
    ) -> None:
        """Say that ``done`` of about ``total`` (seconds, or of ``unit``) of ``label`` are over.

        ``more`` are further details; a narrow display leaves them out first.
        """
        if self._path is None:
            return
        # The whole may take longer than thought, and progress must not run past its end.
        record = {
            "label": label,
            "done": round(min(done, total), 1),
            "total": round(total, 1),
            "unit": unit,
            "more": more,
        }
        with contextlib.suppress(OSError):  # a measurement does not fail for want of a display
            records.write(self._path, record)
