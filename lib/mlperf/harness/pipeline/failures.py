"""Where callbacks and workers leave what went wrong.

An exception that leaves a LoadGen callback tears the process down while LoadGen's logger still
writes. Everything is therefore caught, kept here, and the run is failed after it has ended.
"""

from __future__ import annotations

import threading
import traceback

from common.failure_output import without_advice


class Failures:
    """The first failure in full, and the number of all; safe to use from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.happened = threading.Event()
        self.count = 0
        self.first = ""
        self.trace = ""

    def record(self, doing: str, error: BaseException) -> None:
        """Note an exception that happened while ``doing`` something."""
        with self._lock:
            self.count += 1
            if not self.first:
                message = without_advice(str(error))
                self.first = f"{doing}: {type(error).__name__}: {message}"
                self.trace = "".join(traceback.format_exception(error))
        self.happened.set()

    def __bool__(self) -> bool:
        return self.happened.is_set()
