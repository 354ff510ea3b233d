"""The one exception of this package."""

from __future__ import annotations


class HarnessError(Exception):
    """A measurement cannot be made as asked; the text is one line for the user."""
