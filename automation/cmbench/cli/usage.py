"""What ``cm help`` and ``cm <verb> <thing> --help`` print."""

from __future__ import annotations

from cmbench.cli.commands import usage_of, verb_of
from cmbench.render.listing import flag_lines
from common.text import wrapped


def usage_text(thing: str, word: str = "") -> str:
    """All commands of a thing; of one verb, its command lines and its flags."""
    verb = verb_of(thing, word) if word else None
    shown = list(verb.usage.items()) if verb is not None else usage_of(thing)
    lines = [part for line, text in shown for part in _lines(line, text)]
    if verb is not None and verb.flag_meanings:
        lines.append("")
        for name, meaning in verb.flag_meanings.items():
            lines += flag_lines(name, meaning)
    if verb is not None and verb.of_scripts:
        lines += ["", "inputs and variations of a script: cm run script --tags=detect,os --help"]
    return "\n".join(lines)


_COLUMN = 38
"""Where the meanings begin; a longer command has its meaning on the next line."""


def _lines(command: str, meaning: str) -> list[str]:
    fits = len(command) < _COLUMN
    lead = " " * (_COLUMN + 2)
    head = f"  {command}".ljust(len(lead)) if fits else lead
    lines = wrapped(meaning, head, lead)
    return lines if fits else [f"  {command}", *lines]
