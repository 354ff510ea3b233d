"""The one error of this package."""

from __future__ import annotations


class SubmissionError(Exception):
    """What went wrong, in one line, and what to do next; ``kind`` is a short word for programs."""

    def __init__(self, text: str, hint: str = "", kind: str = "bad-value") -> None:
        super().__init__(text)
        self.hint = hint
        self.kind = kind
