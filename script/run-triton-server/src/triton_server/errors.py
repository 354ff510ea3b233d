"""The one error of this package."""

from __future__ import annotations


class ServerError(Exception):
    """A server that cannot be started or used.

    ``kind`` is a short word, ``hint`` says what to do next.
    """

    def __init__(self, kind: str, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.hint = hint


class LateError(ServerError):
    """A server that is there, and not ready in time."""
