"""Which programs and files a command line names, and which programs a script starts.

A program has a bare name, a file an absolute one or one in the user's home folder. A source is
looked at for words that stand where a program is named. Too many such words cost nothing but a
look: only a program or file that is another one now makes a step run again.
"""

from __future__ import annotations

import os
import re

from cmbench.format.outside import HOST

_WORD = rb"[A-Za-z_][\w+.-]*"
_TOKENS = rb"[^\s;&|()`{}]+|[\n;&|()`{}]"
_ENDS = frozenset(b"\n;&|()`{}")
_COMMENT = rb"(?m)(?:^|(?<=\s))#(?!!).*$"
_FUNCTION = rb"(?m)^\s*(?:function\s+([\w.-]+)|([\w.-]+)\s*\(\))"
_DEFAULT = rb"\$\{\w+:?[-=](" + _WORD + rb")\}"
_VARIABLE = rb"\$\{[^}\n]*\}"
_ASSIGNED = rb"\w+[+:?]?=[\"']?(" + _WORD + rb")?"
_IN_PYTHON = rb"[\[(=]\s*f?[\"'](?:sudo )?(" + _WORD + rb")(?=[ \"'])"
_BEFORE_PROGRAM = frozenset(
    b"-c -P -p -v ! builtin command do elif else env exec hash if ionice nice nohup numactl stdbuf"
    b" sudo taskset then time timeout type until which while xargs := = ?=".split()
)
"""Words after which a program may follow."""
_OF_SHELL = frozenset(
    b"alias bg break builtin case cd command continue coproc declare dirs disown do done echo"
    b" elif else enable esac eval exec exit export fi for function getopts hash help history if"
    b" in jobs let local logout mapfile popd printf pushd pwd read readarray readonly return"
    b" select set shift shopt source suspend test then time times trap true false type typeset"
    b" ulimit umask unalias unset until wait while".split()
)
_PATH = (
    rb"(?:^|[\s;&|<>()'\"`=,:@]|\s-\w|\bfile://)(~|\$HOME|\$\{HOME\})?(/(?!/)[^\s;&|<>()'\"`:,*?]+)"
)
_PROXIES = b"http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY"
_LOCALE = b"LC_ALL LC_CTYPE LC_COLLATE LANG LANGUAGE PYTHONIOENCODING PYTHONUTF8"
_CALLS = {
    rb"\bPath\.home\(\)": b"HOME",
    # With a path of the source itself: one that an input gives seldom begins so.
    rb"(?s)['\"]~['\"/].*\bexpanduser\(|\bexpanduser\(.*['\"]~['\"/]": b"HOME",
    rb"\bgetuser\(": b"LOGNAME USER LNAME USERNAME",
    rb"\bget_exec_path\(": b"PATH",
    rb"\b(?:localtime|mktime|fromtimestamp|ctime|strftime|astimezone)\(|\btzname\b": b"TZ",
    rb"%\([^()]*\)T": b"TZ",
    rb"\b(?:setlocale|get(?:default)?locale|get(?:preferred)?encoding)\(": _LOCALE,
    rb"\bgetproxies(?:_environment)?\(|\bproxy_bypass\(": _PROXIES,
    rb"\bget(?:user(?:base|sitepackages))\(": b"PYTHONUSERBASE HOME",
}


def called_by_shell(code: bytes) -> set[bytes]:
    """Words of a shell script or makefile that may be programs; builtins and functions are not."""
    code = re.sub(_COMMENT, b"", code.replace(b"\\\n", b" "))
    own = {name for pair in re.findall(_FUNCTION, code) for name in pair}
    words = set(re.findall(_DEFAULT, code))
    begins = True
    for token in re.findall(_TOKENS, re.sub(_VARIABLE, b"$", code)):
        word = token.lstrip(b"\"'@+").rstrip(b"\"'")
        assigned = re.match(_ASSIGNED, word)
        if assigned:
            words.add(assigned[1] or b"")
        elif begins and re.fullmatch(_WORD, word):
            words.add(word)
        begins = _may_precede_program(token, word, begins) or bool(assigned and begins)
    return words - _OF_SHELL - own - {b""}


def _may_precede_program(token: bytes, word: bytes, begins: bool) -> bool:
    """Return whether a program may follow ``word``; options and numbers are passed over."""
    if token[0] in _ENDS or word in _BEFORE_PROGRAM:
        return True
    return begins and (word[:1] == b"-" or word.isdigit())


def is_launcher(program: str) -> bool:
    """Return whether ``program`` starts the one named in its command line, as ``nice`` does."""
    return program.encode(errors="replace") in _BEFORE_PROGRAM


def called_by_python(code: bytes) -> set[bytes]:
    """Return the first words of Python string literals that may be command lines."""
    return {word for word in re.findall(_IN_PYTHON, code) if not word.isupper()}


def read_by_calls(code: bytes) -> set[bytes]:
    """Return the environment variables that Python functions read which ``code`` calls.

    A folder for temporary files is none: it differs from job to job, and its files are removed.
    """
    return {
        word for call, names in _CALLS.items() if re.search(call, code) for word in names.split()
    }


def named_paths(line: str) -> list[str]:
    """Return the absolute paths in a command line; those in the home folder begin with ``~``."""
    matches = re.findall(_PATH, line.encode(errors="surrogateescape"))
    return [os.fsdecode((b"~" if home else b"") + path) for home, path in matches]


_FACTS = {
    b"name": rb"\bhostname\b|\bHOSTNAME\b|\buname\s+-\w*[na]|\bget(?:hostname|fqdn)\("
    rb"|\bplatform\.(?:node|uname|platform)\(|\buname\(\)(?!\.(?:machine|sysname|release|version))",
    b"kernel": rb"\buname\s+-\w*[rva]|\bplatform\.(?:release|version|platform|uname)\("
    rb"|\buname\(\)(?!\.(?:machine|sysname|nodename))",
    b"machine": rb"\buname\b|\barch\b|\bplatform\.(?:machine|processor|architecture)\(",
}


def queried_host_facts(code: bytes) -> set[bytes]:
    """Return reads of the machine's name, kernel and kind, where ``code`` queries the system."""
    return {HOST.encode() + name for name, asks in _FACTS.items() if re.search(asks, code)}
