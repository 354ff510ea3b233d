"""Which programs the sources of a script start, and what the first of a name in PATH is now.

A source is looked at for words that stand where a program is named. Too many such words cost
nothing but a look: only a program that is another one now makes a step run again.
"""

from __future__ import annotations

import os
import re

from cmbench.format.env import MISSING

IN_PATH = "PATH/"
"""How the read of a program's place in PATH begins; no variable has a name with a slash."""
_WORD = rb"[A-Za-z_][\w+.-]*"
_TOKENS = rb"[^\s;&|()`{}]+|[\n;&|()`{}]"
_ENDS = frozenset(b"\n;&|()`{}")
_COMMENT = rb"(?m)(?:^|(?<=\s))#(?!!).*$"
_FUNCTION = rb"(?m)^\s*(?:function\s+([\w.-]+)|([\w.-]+)\s*\(\))"
_DEFAULT = rb"\$\{\w+:?[-=](" + _WORD + rb")\}"
_VARIABLE = rb"\$\{[^}\n]*\}"
_ASSIGNED = rb"\w+[+:?]?=[\"']?(" + _WORD + rb")?"
_IN_PYTHON = rb"[\[(=]\s*f?[\"'](?:sudo )?(" + _WORD + rb")(?=[ \"'])"
_LEADS_ON = frozenset(
    b"-c -P -p -v ! builtin command do elif else env exec hash if ionice nice nohup numactl stdbuf"
    b" sudo taskset then time timeout type until which while xargs := = ?=".split()
)
"""Words after which a program may stand."""
_OF_SHELL = frozenset(
    b"alias bg break builtin case cd command continue coproc declare dirs disown do done echo"
    b" elif else enable esac eval exec exit export fi for function getopts hash help history if"
    b" in jobs let local logout mapfile popd printf pushd pwd read readarray readonly return"
    b" select set shift shopt source suspend test then time times trap true false type typeset"
    b" ulimit umask unalias unset until wait while".split()
)
_OF_THE_SYSTEM = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")


def called_by_shell(code: bytes) -> set[bytes]:
    """Words of a shell script or makefile that may be programs; builtins and functions are not."""
    code = re.sub(_COMMENT, b"", code.replace(b"\\\n", b" "))
    own = {name for pair in re.findall(_FUNCTION, code) for name in pair}
    found = set(re.findall(_DEFAULT, code))
    begins = True
    for token in re.findall(_TOKENS, re.sub(_VARIABLE, b"$", code)):
        word = token.lstrip(b"\"'@+").rstrip(b"\"'")
        assigned = re.match(_ASSIGNED, word)
        if assigned:
            found.add(assigned[1] or b"")
        elif begins and re.fullmatch(_WORD, word):
            found.add(word)
        begins = _goes_on(token, word, begins) or bool(assigned and begins)
    return found - _OF_SHELL - own - {b""}


def _goes_on(token: bytes, word: bytes, begins: bool) -> bool:
    """Whether a program may stand behind ``word``; options and numbers are passed over."""
    if token[0] in _ENDS or word in _LEADS_ON:
        return True
    return begins and (word[:1] == b"-" or word.isdigit())


def called_by_python(code: bytes) -> set[bytes]:
    """Words with which a text of Python begins that may be a command line."""
    return {word for word in re.findall(_IN_PYTHON, code) if not word.isupper()}


def program_now(name: str) -> str:
    """The first program ``name`` in PATH as an entry keeps it; ``MISSING`` where there is none.

    A program of the system is its path without links: what an update of the system changes in it
    does not count, or each update would make all native steps anew. Any other one is its path as
    it was found (each virtual environment has a Python of its own), size and time.
    """
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        place = f"{folder}/{name}"
        if os.access(place, os.X_OK) and os.path.isabs(folder) and os.path.isfile(place):
            if place.startswith(_OF_THE_SYSTEM):
                return os.path.realpath(place)
            info = os.stat(place)
            return f"{place} ({info.st_size} bytes of {info.st_mtime_ns / 1e9:.6f})"
    return MISSING
