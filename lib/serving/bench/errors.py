"""What ends the program: one message, and what to do next."""

from __future__ import annotations


class BenchError(Exception):
    """It cannot go on; ``hint`` is the next step, ``status`` that of the process.

    ``kind`` is for a program that starts this one.
    """

    status = 1

    def __init__(self, message: str, hint: str = "", kind: str = "server-failed") -> None:
        super().__init__(message)
        self.hint = hint
        self.kind = kind


class UsageError(BenchError):
    """The command line makes no sense."""

    status = 2

    def __init__(self, message: str, hint: str = "", kind: str = "bad-value") -> None:
        super().__init__(message, hint, kind)


class WrongError(BenchError):
    """Requests failed, or were not answered as the model promises."""

    def __init__(self, message: str, hint: str = "", kind: str = "requests-failed") -> None:
        super().__init__(message, hint, kind)
