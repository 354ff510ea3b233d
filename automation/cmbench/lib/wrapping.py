"""Text in lines that fit a terminal; imports nothing that takes time to load."""

from __future__ import annotations

from cmbench.errors import folded


def wrapped(text: str, first: str = "", rest: str = "", width: int = 80) -> list[str]:
    """``text`` as lines of at most ``width``, begun with ``first`` and then with ``rest``.

    No word is parted, nor is one at a hyphen, nor a command: they are there to be copied.
    """
    return folded(text, width, first, rest)
