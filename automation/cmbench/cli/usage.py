"""What ``cm help`` and ``cm <verb> <thing> --help`` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cmbench.cli.commands import THINGS, usage_of, verb_of, verbs_of
from cmbench.render.listing import flag_lines
from common.text import wrapped

if TYPE_CHECKING:
    from cmbench.cli.reply import Command
    from cmbench.cli.verb import Verb


def usage_text(thing: str, word: str = "") -> str:
    """All commands of a thing; of one verb, its command lines and its flags."""
    verb = verb_of(thing, word) if word else None
    shown = list(verb.usage.items()) if verb is not None else usage_of(thing)
    lines = [part for line, text in shown for part in _lines(line, text)]
    if verb is not None and verb.flag_meanings:
        lines.append("")
        for name, meaning in verb.flag_meanings.items():
            lines += flag_lines(name, meaning)
    if verb is None:
        lines += ["", f"flags of one of them: cm help {thing} VERB"]
    if verb is not None and verb.of_scripts:
        lines += ["", "inputs and variations of a script: cm run script --tags=detect,os --help"]
    return "\n".join(lines)


def command_with_flag(verb: Verb, command: Command, message: str) -> str:
    """Return another command of the same thing that has the flag which ``message`` refuses."""
    refused = {word.removeprefix("--") for word in message.split()}
    unknown = command.flags.keys() & refused - _flags(verb).keys()
    for other in verbs_of(verb.thing):
        known = {} if other.of_scripts else _flags(other)
        flags = [f"--{known[name]}" for name in sorted(known.keys() & unknown)]
        if flags and other is not verb:
            words = (f'"{word}"' if " " in word else word for word in command.names)
            line = " ".join(("cm", other.word, other.thing, *words, *flags))
            return f"another command has that flag: `{line}`"
    return ""


def _flags(verb: Verb) -> dict[str, str]:
    """Return the flags of a verb, as they are declared, by their names."""
    return {name.partition("=")[0].replace("-", "_"): name for name in verb.flag_meanings}


def same_verb(thing: str, word: str) -> str:
    """Return what has a verb that ``thing`` lacks, as a command line of help."""
    lines = [
        next(iter(verb.usage), "")
        for other in THINGS
        for verb in verbs_of(other)
        if other != thing and word in (verb.word, *verb.words) and word != "help"
    ]
    return " and ".join(f"`{line}`" for line in sorted(filter(None, lines), key=_is_of_runs)[:2])


def _is_of_runs(line: str) -> bool:
    """Sort commands about runs first."""
    return " script " not in line


_COLUMN = 38
"""Where the meanings begin; a longer command has its meaning on the next line."""


def _lines(command: str, meaning: str) -> list[str]:
    fits = len(command) < _COLUMN
    lead = " " * (_COLUMN + 2)
    head = f"  {command}".ljust(len(lead)) if fits else lead
    lines = wrapped(meaning, head, lead)
    return lines if fits else [f"  {command}", *lines]
