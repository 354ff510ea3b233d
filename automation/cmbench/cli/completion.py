"""Shell completion of ``cm``: verbs, things, tags, variations, flags, inputs and their choices.

The shell passes the line up to the cursor and gets the candidates for the last word; of a word
``--flag=value`` only the text after the ``=``, since bash and zsh complete that part alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from cmbench.author.scaffold import KINDS
from cmbench.cli import commands
from cmbench.errors import Error
from cmbench.format.model import InputSpec
from cmbench.index.scripts import Index, ScriptRow
from cmbench.index.select import parse_tags

LINE = "CMBENCH_LINE"
"""The variable in which the shell hands over the line."""

_SWITCHES = frozenset(
    ["quiet", "silent", "verbose", "json", "debug", "new", "renew", "skip_cache", "force_cache"]
    + ["offline", "help"]
)
_OF_RUNS = ("replay", "log", "diff")
_CHOICES: Mapping[str, Iterable[str]] = {"out": ("json",), "kind": KINDS, "shell": ("bash", "zsh")}

SHELLS: Mapping[str, str] = {
    "bash": f"""\
_cmbench_complete() {{
  local IFS=$'\\n'
  COMPREPLY=($({LINE}="${{COMP_LINE:0:COMP_POINT}}" cm complete script 2>/dev/null))
  case "${{COMPREPLY[0]-}}" in
    *=) compopt -o nospace ;;
  esac
  case "${{COMP_LINE:0:COMP_POINT}}" in
    *--tags=*[!\\ ]) compopt -o nospace ;;
  esac
}}
complete -o default -F _cmbench_complete cm
""",
    "zsh": f"""\
_cmbench_complete() {{
  local -a found
  local line="${{(j: :)words[1,CURRENT-1]}} $PREFIX"
  found=("${{(@f)$({LINE}="$line" cm complete script 2>/dev/null)}}")
  compset -P '*='
  (( ${{#found[1]}} )) && compadd -Q -S '' -- "${{found[@]}}" || _files
}}
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
compdef _cmbench_complete cm
""",
}
"""What a user's shell loads: ``eval "$(cm complete script --shell=bash)"``."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line so far: the finished words, and the one under the cursor."""

    words: tuple[str, ...]
    last: str

    @property
    def verb(self) -> str:
        return self.words[1] if len(self.words) > 1 else ""

    @property
    def thing(self) -> str:
        return self.words[2] if len(self.words) > 2 else ""

    @property
    def tags(self) -> str:
        """The tag query of the finished words; a lone word or a quoted text counts too."""
        for word in self.words[3:]:
            if word.startswith("--tags="):
                return word.removeprefix("--tags=")
        plain = [word for word in self.words[3:] if not word.startswith("-")]
        return ",".join(plain[0].split()) if plain else ""


def complete(
    line: str, verbs: Mapping[str, Iterable[str]], index: Index, runs: Iterable[str] = ()
) -> list[str]:
    """Return the candidates for the last word of ``line``.

    ``verbs`` maps things to their verbs; ``runs`` are ids.
    """
    typed = _split(line)
    if len(typed.words) < 3:
        return _fitting(_first_words(typed, verbs), typed.last)
    if typed.last.startswith("--") and "=" in typed.last:
        flag, _, value = typed.last[2:].partition("=")
        if flag == "tags":
            return _tags(value, index)
        return _fitting(_values(flag, typed, index), value)
    if typed.last.startswith("-"):
        return _fitting(_flags(typed, index), typed.last)
    if typed.verb in _OF_RUNS:
        return _fitting(["last", "last~1", *runs], typed.last)
    return _fitting([row.alias for row in index.rows().values()], typed.last)


def _first_words(line: _Line, verbs: Mapping[str, Iterable[str]]) -> Iterable[str]:
    """Return the candidates after ``cm``: a verb, then the thing that it is for."""
    if not line.verb:
        return chain.from_iterable(verbs.values()) if line.words else ()
    return [thing for thing, words in verbs.items() if line.verb in words]


def _split(line: str) -> _Line:
    """Words as the shell sees them, as far as that goes before the line is complete."""
    parts = re.findall(r"""(?:"[^"]*"?|'[^']*'?|[^\s"'])+""", line)
    words = [re.sub("[\"']", "", part) for part in parts]
    if not line or line[-1].isspace():
        return _Line(tuple(words), "")
    return _Line(tuple(words[:-1]), words[-1] if words else "")


def _fitting(words: Iterable[str], start: str) -> list[str]:
    return sorted({word for word in words if word.startswith(start)})


def _tags(value: str, index: Index) -> list[str]:
    """Tags, or variations where the last part begins with ``_``, that some script still fits."""
    done, comma, last = value.rpartition(",")
    rows = index.find(parse_tags(done))
    chosen = set(done.split(","))
    if last.startswith("_"):
        words = {"_" + name.removesuffix("#") for row in rows for name in row.variations}
    else:
        words = {tag for row in rows for tag in row.tags}
    return [done + comma + word for word in _fitting(words - chosen, last)]


def _row(line: _Line, index: Index) -> ScriptRow | None:
    if not line.tags:
        return None
    rows = index.by_uid(line.tags) or index.find(parse_tags(line.tags))
    return rows[0] if rows else None


def _inputs(line: _Line, index: Index) -> Mapping[str, InputSpec]:
    row = _row(line, index)
    try:
        return index.script(row.path).inputs if row else {}
    except Error:
        return {}


def _flags(line: _Line, index: Index) -> list[str]:
    verb = commands.verb_of(line.thing, line.verb)
    known = verb.flag_meanings if verb is not None else {}
    if verb is None or not verb.of_scripts:
        # The text after the "=" is an example.
        return ["--" + re.sub("(?<==).*", "", flag) for flag in known]
    flags = [f"--{name}" if name in _SWITCHES else f"--{name}=" for name in known]
    if line.verb == "docker":
        from cmbench.container.options import FLAGS as OF_CONTAINERS

        flags += ["--print", *(f"--docker_{name}=" for name in OF_CONTAINERS)]
    return [*flags, *(f"--{name}=" for name in _inputs(line, index))]


def _values(flag: str, line: _Line, index: Index) -> Iterable[str]:
    spec = _inputs(line, index).get(flag)
    if spec is not None and spec.type == "bool":
        return ("yes", "no")
    if spec is not None:
        return spec.choices
    return _CHOICES.get(flag, ())
