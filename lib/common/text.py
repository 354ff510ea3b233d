"""Text for a terminal: paragraphs in lines, rows in columns; imports nothing that takes long."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from common.problems import JOINT, Hint

WIDTH = 80


def wrapped(
    text: str,
    first: str = "",
    rest: str = "",
    width: int = WIDTH,
    *,
    as_it_is: bool = False,
) -> list[str]:
    """Return ``text`` in lines of at most ``width``, begun with ``first`` and then with ``rest``.

    No word is parted, nor one at a hyphen, nor a command of a ``Hint``: it is there to be copied.
    ``as_it_is`` keeps other white space than blanks.
    """
    lines = textwrap.wrap(
        text.unbroken if isinstance(text, Hint) else text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=not as_it_is,
    )
    return [line.replace(JOINT, " ") for line in lines]


def terminal_width() -> int:
    """Return the width of the terminal; that of most where there is none."""
    import shutil

    return shutil.get_terminal_size((WIDTH, 24)).columns


def cut(text: str, width: int, mark: str = "…") -> str:
    """Return ``text``, its end replaced by ``mark`` where it is longer than ``width``."""
    return text if len(text) <= width else text[: width - len(mark)] + mark


def aligned(
    rows: Sequence[Sequence[str]],
    *,
    ruled: bool = False,
    right: bool = False,
    most: Sequence[int] = (),
) -> list[str]:
    """Return rows as lines of columns, as wide as their longest cell.

    ``ruled``: a line of dashes follows the first row, which is the heading. ``right``: cells after
    the first one end in line, as figures do. ``most`` limits the widths; longer cells are cut.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if most:
        widths = list(map(min, widths, most))
    rule = [["-" * width for width in widths]] if ruled else []
    return ["  ".join(_cells(row, widths, right)).rstrip() for row in [*rows[:1], *rule, *rows[1:]]]


def _cells(row: Sequence[str], widths: Sequence[int], right: bool) -> list[str]:
    cells = [cut(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [
        f"{cell:>{width}}" if right and column else f"{cell:<{width}}"
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
