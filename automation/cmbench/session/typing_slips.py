"""Slips of a line that was copied from a page: blanks, quotes and dashes that no shell knows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cmbench.errors import Error

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_QUOTES = re.compile("[\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019]")


def refuse_slips(tags: Sequence[str], words: Sequence[str]) -> None:
    """Raise ``bad-value`` for a word that is no name or tags, but half of what was meant.

    ``tags`` are the values of ``--tags``, ``words`` what stands without a flag.
    """
    line = " ".join(words)
    if _QUOTES.search(line):
        hint = f'write the straight quotes of the keyboard: "{_QUOTES.sub("", line)}"'
        raise Error("bad-value", f"{line} has quotes that a shell does not know", hint=hint)
    for word in words:
        _refuse_word(word)
        _refuse_flags(word)
        if word and " " not in word and any(text.endswith(",") for text in tags):
            text = f"{tags[-1]}{word}"
            raise Error(
                "bad-value",
                f"--tags={tags[-1]} ends with a comma, and a blank follows",
                hint=f"write tags without blanks: --tags={text}",
            )


def _refuse_word(word: str) -> None:
    if word and not word.strip(" \t\\"):
        raise Error(
            "bad-value",
            "a word of the line is a blank or a backslash alone",
            hint="a backslash that continues a line must be its last character: remove what follows"
            " it",
        )
    if word[:1] and word[0] in _DASHES:
        flag = word.lstrip(_DASHES + "-")
        hint = f"a flag begins with two hyphens: --{flag}"
        raise Error("bad-value", f"{word} begins with a dash that is no hyphen", hint=hint)


def _refuse_flags(word: str) -> None:
    """Refuse flags within the quotes of tags: they would be tags that a script must not have."""
    parts = word.split()
    flags = [part for part in parts if part.startswith("--")]
    if flags and len(parts) > 1:
        tags = " ".join(part for part in parts if part not in flags)
        raise Error(
            "bad-value",
            f"{flags[0]} stands within the quotes",
            hint=f'end them before it: "{tags}" {" ".join(flags)}',
        )
