"""The exception of shared code that a user can do something about."""

from __future__ import annotations

from collections.abc import Sequence


class Problem(Exception):  # noqa: N818
    """A step cannot be done.

    The engine reports it as an error of its own: ``kind`` is the error code, ``hint`` the next step
    for the user, ``context`` are further lines.
    """

    def __init__(
        self, kind: str, message: str, *, hint: str = "", context: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
        self.context = tuple(context)
