"""The full log of one run, always on disk; a disk that is full must not hide the real failure."""

from __future__ import annotations

import os

from cmbench.lib.secrecy import Secrets


class RunLog:
    """Whole lines, written at once; what cannot be written is dropped."""

    def __init__(self, path: str, secrets: Secrets) -> None:
        self.path = path
        self._secrets = secrets
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def line(self, text: str) -> None:
        """Add a line, or several at once, without secrets."""
        try:
            os.write(self._handle, (self._secrets.text(text) + "\n").encode("utf-8", "replace"))
        except OSError:
            return

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
