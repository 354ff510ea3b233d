"""The one error of this package."""

from __future__ import annotations


class RepositoryError(Exception):
    """A model that would not work in the server, or cannot be written.

    ``kind`` is a short word, ``hint`` says what to do next.
    """

    def __init__(self, kind: str, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.hint = hint
