"""Text for a terminal: paragraphs in lines, rows in columns; imports nothing that takes long."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from common.problems import Hint

WIDTH = 80

# One word of a command; signs of a sentence that end it are not its own.
_WORD = r"""(?:(?<=[ =])(?:"[^"\n]*"|'[^'\n]*')|[^\s,;:()]|[,;:()](?=[^\s,;:()]))+"""
# What is no word of a sentence: a flag, a path, KEY=VALUE, NAME, "several words".
_ARGUMENT = r"""(?=[-<\[/~.&>|$…"'\d]|[A-Z][A-Z\d_|]*(?![a-z])|\S*[-=/_:@.]\w|last\b|all\b)"""
_THINGS = "script|cache|experiment|results|crowd|repo"
_COMMAND = rf"""(?<![\w/.-])(?:
    cm\ [a-z][a-z-]+(?:\ (?:{_THINGS})\b)?(?:\ --(?:\ {_WORD})+|\ {_ARGUMENT}{_WORD})*
    |(?:(?:\S{{,200}}/)?python[\d.]*\ -[mc]|pip\ (?:un)?install|pip\ (?:download|show)|sudo|bash|git
       |docker|podman|buildah|apt-get|make(?=\ [a-z]+_[a-z])
       |(?:rm|ls|ssh|chmod|mkdir|tar|curl|sbatch|nvidia-smi)(?=\ -)
       |(?:export|unset)(?=\ [A-Z]+_)
     )(?:\ (?!(?:or|and|then|to|if|where|in|on|is|are|has|there|here|that)\b){_WORD})*
)"""
_JOINT = "\0"


def wrapped(
    text: str,
    first: str = "",
    rest: str = "",
    width: int = WIDTH,
    *,
    as_it_is: bool = False,
    plain: bool = False,
) -> list[str]:
    """Return ``text`` in lines of at most ``width``, begun with ``first`` and then with ``rest``.

    No word is parted, nor one at a hyphen, nor a command: they are there to be copied.
    ``as_it_is`` keeps other white space than blanks. ``plain`` text has no command that must stay
    whole; to look for one takes a millisecond.
    """
    if isinstance(text, Hint):
        text = text.unbroken
    elif not plain:
        text = re.sub(_COMMAND, lambda match: match[0].replace(" ", _JOINT), text, flags=re.VERBOSE)
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=not as_it_is,
    )
    return [line.replace(_JOINT, " ") for line in lines]


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
