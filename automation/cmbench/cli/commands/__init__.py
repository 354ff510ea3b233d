"""The commands, declared once, in a module for each thing that they are about.

Dispatch, ``cm help``, ``--help``, the shell's completion and cmind's adapter read them from here. A
new verb is a ``Verb`` in ``VERBS`` of the module of its thing, and a function that takes a
``Command`` and returns a ``Reply``.
"""

from __future__ import annotations

from importlib import import_module

from cmbench.cli.verb import Flags, Verb

THINGS = ("script", "cache", "results", "runs", "experiment", "site", "crowd")


def verbs_of(thing: str) -> tuple[Verb, ...]:
    """Return the verbs of one thing; only its module is imported, for a quick start."""
    if thing not in THINGS:
        return ()
    declared: tuple[Verb, ...] = import_module(f"{__name__}.{thing}").VERBS
    return declared


def verb_of(thing: str, word: str) -> Verb | None:
    """Return the verb that users or cmind call ``word``."""
    declared = verbs_of(thing)
    by_cmind = (verb for verb in declared if word in verb.words)
    return next(by_cmind, None) or next((v for v in declared if v.word == word), None)


def verbs() -> dict[str, list[str]]:
    """Return the verbs by their things, as users write them."""
    return {thing: [verb.word for verb in verbs_of(thing)] for thing in THINGS}


def words_of(thing: str) -> list[str]:
    """Return the words that cmind uses for the verbs of ``thing``."""
    return [word for verb in verbs_of(thing) for word in verb.words]


def usage_of(thing: str) -> list[tuple[str, str]]:
    """Return the command lines of ``thing`` with what they are for."""
    return [line for verb in verbs_of(thing) for line in verb.usage.items()]


def flags_of_verb(thing: str, word: str) -> Flags:
    """Return what the flags of one verb do; one that takes a value is written ``name=VALUE``."""
    verb = verb_of(thing, word)
    return verb.flag_meanings if verb is not None else {}
