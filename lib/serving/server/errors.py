"""The one error of this package."""

from __future__ import annotations

from pathlib import Path


class ServerError(Exception):
    """A server that cannot be started or used.

    ``kind`` is a short word, ``hint`` says what to do next.
    """

    def __init__(self, kind: str, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.hint = hint

    def hint_without(self, folder: Path) -> str:
        """Return the hint without the lines about files of a folder that ends with the server."""
        return "\n".join(line for line in self.hint.splitlines() if str(folder) not in line)


class LateError(ServerError):
    """A server that is there, and not ready in time."""
