"""Text in lines that fit a terminal; imports nothing that takes time to load."""

from __future__ import annotations


def wrapped(text: str, first: str = "", rest: str = "", width: int = 80) -> list[str]:
    """``text`` as lines of at most ``width``, begun with ``first`` and then with ``rest``.

    No word is parted, nor is one at a hyphen: names, flags and paths are there to be copied.
    """
    import textwrap  # Most commands that go well wrap nothing.

    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
