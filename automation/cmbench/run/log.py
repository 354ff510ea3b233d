"""The full log of one run, always on disk; a disk that is full must not hide the real failure."""

from __future__ import annotations

import os

from cmbench.lib.secrecy import Secrets


class RunLog:
    """Whole lines, written at once.

    What cannot be written is counted in ``lost``, for the reason ``why``, and the next line that
    can be written says so; the part of a line that could be written has a line of its own.
    """

    def __init__(self, path: str, secrets: Secrets) -> None:
        self.path = path
        self.lost = 0
        self.why = ""
        self._missing = 0
        self._secrets = secrets
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def line(self, text: str) -> None:
        """Add a line, or several at once, without secrets."""
        message = self._secrets.text(text) + "\n"
        if self._missing:
            message = f"\n[lines that could not be written: {self._missing}, {self.why}]\n{message}"
        data = message.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._handle, data) :]
        except OSError as problem:
            self.why = os.strerror(problem.errno or 0)
            lines = text.count("\n") + 1
            self._missing += lines
            self.lost += lines
        else:
            self._missing = 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
