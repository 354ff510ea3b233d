"""The commands: what each is for, how it is written, which flags it takes.

``cm help``, ``cm <verb> <thing> --help`` and the shell's completion tell the same, from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cmbench.author.scaffold import KINDS
from cmbench.render.listing import flag_lines
from cmbench.session.request import FLAGS

USAGE: Mapping[str, Sequence[tuple[str, str]]] = {
    "script": (
        ("cm run script --tags=detect,os", "run a script and all it needs"),
        ('cm run script "detect os"', "the same, shorter"),
        ("cm run script --tags=detect,os --help", "its inputs, variations and flags"),
        ("cm plan script --tags=detect,os", "what a run would do; runs nothing"),
        ("cm docker script --tags=detect,os", "the same run in a container (--print)"),
        ("cm doctor script", "look at the machine before you start"),
        ("cm replay script last", "repeat a recorded run"),
        ("cm log script last [--errors]", "what a run printed, whole or the trouble"),
        ("cm diff script <record> <record>", "what differs between two runs"),
        ("cm find script --tags=get", "the scripts with these tags"),
        ("cm show script --tags=detect,os", "what a script is for"),
        ("cm add script get-cmake --kind=detect", "begin a new script"),
        ("cm lint script get-python3 [--fix]", "its faults; without a name, of all"),
        ("cm test script get-python3", "plan and try what it detects"),
        ("cm complete script --shell=bash", "completion, for eval in ~/.bashrc"),
        ("cm doc script get-python3 [--check]", "write what comes from its meta"),
    ),
    "cache": (
        ("cm show cache [--tags=get,python3]", "what is kept, its size and last use"),
        ("cm rm cache --tags=get,python3 [-f]", "remove entries; -f does not ask"),
        ("cm why cache --tags=get,python3", "what made it, what it read, is it sound"),
        ("cm verify cache [--tags=...]", "are its files as published?"),
        ("cm pin cache <id>", "keep an entry whatever happens"),
        ("cm unpin cache <id>", "let go of it"),
        ("cm du cache", "what uses the disk, by script"),
        ("cm gc cache --max-size=20GB [--yes]", "make room; without --yes only shows"),
        ("cm gc cache --older-than=30d [--yes]", "what was not used for so long"),
        ("cm export cache --tags=... --output=F", "entries and their needs, in a file"),
        ("cm bundle cache --tags=... --output=F", "the same"),
        ("cm import cache --input=F", "bring them into this cache, checked"),
    ),
}
"""The commands as users write them, with what they are for."""

LIKE_RUN = ("run", "plan", "docker", "replay")
"""Verbs that take the flags of runs and the inputs of a script."""

_JSON = {"json": "print the result as JSON"}
_WHICH = {
    "tags=TAGS": "only those with these tags; words that are no flags do as well",
    **_JSON,
}
_ENTRIES = {"tags=TAGS": "entries with these tags; an id or a script's name does as well"}
_AUTHOR = {
    "tags=TAGS": "the script with these tags; its name does as well",
    "path=DIR": "a script, or all of a repository; else all of the one you are in",
    **_JSON,
}
_OF_VERBS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("script", "find"): _WHICH,
    ("script", "show"): {"tags=TAGS": "the script with these tags; its name does as well", **_JSON},
    ("script", "doctor"): _JSON,
    ("script", "log"): {
        "errors": "only the lines that look like trouble, with their numbers",
        "step=TEXT": "only of the steps with this text in their names",
    },
    ("script", "diff"): _JSON,
    ("script", "add"): {
        "kind=KIND": "; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items()),
        "name=TEXT": "what it is for, in one line",
        "tags=TAGS": "its tags, where those of its name do not do",
        "repo=NAME": "the repository that gets it; else the one you are in",
        "url=URL": "of what it downloads",
        "sha256=HEX": "of that file",
    },
    ("script", "lint"): {
        "fix": "correct what is safe to correct",
        "only=CMB101,...": "only these checks",
        "skip=CMB101,...": "all but these checks",
        "strict": "hold scripts of other dialects to all checks too",
        **_AUTHOR,
    },
    ("script", "test"): _AUTHOR,
    ("script", "doc"): {"check": "write nothing; fail where a page is out of date", **_AUTHOR},
    ("script", "complete"): {"shell=SHELL": "bash or zsh"},
    ("cache", "show"): {**_ENTRIES, **_JSON},
    ("cache", "rm"): {**_ENTRIES, "all": "all entries", "force": "do not ask (-f)", **_JSON},
    ("cache", "why"): {
        **_ENTRIES,
        "all": "all entries",
        "INPUT=VALUE": "an input of the script: about a call that was not made yet",
        **_JSON,
    },
    ("cache", "verify"): {**_ENTRIES, **_JSON},
    ("cache", "pin"): {**_ENTRIES, "all": "all entries", **_JSON},
    ("cache", "unpin"): {**_ENTRIES, "all": "all entries", **_JSON},
    ("cache", "du"): _JSON,
    ("cache", "gc"): {
        "max-size=20GB": "remove what was used least recently until no more is left",
        "older-than=30d": "remove what was not used for so long",
        "keep-runs=7d": "keep what runs of this time have used; 7d by default",
        "dry-run": "only show what would be removed, as without --yes",
        "yes": "remove it",
        **_JSON,
    },
    ("cache", "export"): {
        **_ENTRIES,
        "all": "all entries",
        "output=FILE": "the archive: .tar.gz, or .tar, which is faster",
        **_JSON,
    },
    ("cache", "import"): {"input=FILE": "the archive", **_JSON},
}
_SAME = {("cache", "bundle"): ("cache", "export")}
_WORDS = {"search": "find", "delete": "rm"}
"""Verbs that users know by another word than the engine."""


def verbs() -> dict[str, list[str]]:
    """The verbs of each thing, as users write them."""
    return {
        thing: list(dict.fromkeys(["help", *(usage.split()[1] for usage, _ in lines)]))
        for thing, lines in USAGE.items()
    }


def flags_of_verb(thing: str, verb: str) -> Mapping[str, str]:
    """What the flags of one verb do; a flag that takes a value is written ``name=VALUE``."""
    verb = _WORDS.get(verb, verb)
    if thing == "script" and verb in LIKE_RUN:
        return FLAGS
    return _OF_VERBS.get(_SAME.get((thing, verb), (thing, verb)), {})


def usage_text(thing: str, verb: str = "") -> str:
    """All commands of a thing; of one verb, its command lines and its flags."""
    word = _WORDS.get(verb, verb)
    if thing == "cache" and word == "find":
        word = "show"
    shown = [(line, text) for line, text in USAGE[thing] if word in ("", line.split()[1])]
    lines = [f"  {line:<38}{text}" for line, text in shown]
    flags = flags_of_verb(thing, word) if word else {}
    if flags:
        lines.append("")
        for name, meaning in flags.items():
            lines += flag_lines(name, meaning)
    if thing == "script" and word in LIKE_RUN:
        lines += ["", "inputs and variations of a script: cm run script --tags=detect,os --help"]
    return "\n".join(lines)
