"""The scripts of a workspace: those that fit a query, and what one of them is for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from cmbench.errors import Error, did_you_mean
from cmbench.format.model import Script, Tags
from cmbench.index.scripts import Index, ScriptRow
from cmbench.index.select import choose, parse_tags
from cmbench.session.workspace import Workspace
from cmbench.values import immutable
from common.problems import Hint

_FILLERS = (
    *("a", "about", "an", "and", "are", "can", "command", "do", "does", "for", "how", "i", "in"),
    *("is", "it", "me", "my", "of", "on", "or", "our", "script", "scripts", "that", "the", "this"),
    *("to", "want", "what", "which", "with", "you", "your"),
)


@immutable(frozen=True, slots=True, eq=True, repr=True)
class ScriptSummary:
    """A script in a listing: its names, its path, its purpose.

    ``matches`` are the values of inputs that a search has matched, as options of a command.
    """

    alias: str
    uid: str
    path: str
    repository: str
    tags: tuple[str, ...]
    variations: tuple[str, ...]
    title: str
    matches: tuple[str, ...] = ()


def find(
    workspace: Workspace, tags: str | Tags = "", name: str = "", words: str = ""
) -> list[ScriptSummary]:
    """Return scripts with these tags, of this name, or else those in which all ``words`` occur.

    Of the last, those come first whose inputs take such a value. Raises ``script-not-found``
    where there is none.
    """
    query = parse_tags(tags) if isinstance(tags, str) else tags
    index = workspace.index
    rows = _requested(index, query, name)
    matches = {} if rows else _matching(index, words)
    rows = rows or [index.rows()[path] for path in sorted(matches, key=lambda p: not matches[p])]
    if not rows:
        _refuse_search(index, query, name, words)
    return [_summary(index, row, matches.get(row.path, ())) for row in rows]


def _summary(index: Index, row: ScriptRow, matches: tuple[str, ...]) -> ScriptSummary:
    return ScriptSummary(
        alias=row.alias,
        uid=row.uid,
        path=row.path,
        repository=row.repo,
        tags=tuple(sorted(row.tags)),
        variations=tuple(sorted(row.variations)),
        title=_title(index, row),
        matches=matches,
    )


def show(workspace: Workspace, tags: str | Tags = "", name: str = "") -> Script:
    """Return the one script that the tags or the name choose; raises ``script-not-found``."""
    query = parse_tags(tags) if isinstance(tags, str) else tags
    return workspace.index.script(choose(workspace.index, query, name).path)


def _requested(index: Index, query: Tags, name: str) -> list[ScriptRow]:
    rows = _named(index, name) if name else index.find(query)
    return [row for row in rows if all(row.accepts(v) for v in query.variations)]


def _named(index: Index, name: str) -> list[ScriptRow]:
    """Return scripts of that name, in which ``*`` may stand for anything."""
    if not any(mark in name for mark in "*?"):
        return index.by_name(name)
    return [row for row in index.rows().values() if fnmatchcase(row.alias, name)]


def _matching(index: Index, text: str) -> dict[str, tuple[str, ...]]:
    """Return by path the scripts that all words match, and the values of inputs among them.

    A word matches a name, tag, title or choice of an input that it is part of; ``*`` stands for
    anything. An input that is named, or that all of several words describe, matches as well.
    """
    words = _significant(text)
    patterns = [f"*{word}*" for word in words]
    if not patterns:
        return {}
    matches = {}
    for path, row in index.rows().items():
        options = [option for option in _options(index, row) if _fits(option, patterns)]
        values = [option.partition("=")[2].lower() for option in options]
        line = " ".join((row.alias, *row.tags, row.title)).lower()
        inputs = _inputs(index, row, words, patterns)
        if inputs or all(any(fnmatchcase(text, p) for text in (line, *values)) for p in patterns):
            matches[path] = (*inputs, *options)
    return matches


def _significant(text: str) -> list[str]:
    """Return the words to look for: without those of a question, unless there are no others."""
    words = re.findall(r"[^\s,?]+", text.lower())
    return [word for word in words if word not in _FILLERS] or words


def _options(index: Index, row: ScriptRow) -> list[str]:
    """Return the values that inputs of a script take, as ``--input=value``."""
    if row.faults:
        return []
    inputs = index.script(row.path).inputs.values()
    return [f"--{spec.name}={choice}" for spec in inputs for choice in spec.choices]


def _inputs(
    index: Index, row: ScriptRow, words: Sequence[str], patterns: Sequence[str]
) -> list[str]:
    """Return the inputs that are named, or that all of several words describe."""
    if row.faults:
        return []
    inputs = index.script(row.path).inputs.values()
    if len(words) == 1:
        return [f"--{i.name}" for i in inputs if "_" in i.name and i.name == words[0].lstrip("-")]
    texts = ((i.name, f"{i.name} {i.description}".lower()) for i in inputs)
    return [f"--{name}" for name, text in texts if all(fnmatchcase(text, p) for p in patterns)]


def _fits(option: str, patterns: Iterable[str]) -> bool:
    value = option.partition("=")[2].lower()
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _refuse_search(index: Index, query: Tags, name: str, words: str) -> None:
    """Raise ``script-not-found``, with the nearest word of another script."""
    try:
        choose(index, query, name)
    except Error as error:
        searches = [f"`cm find script {word}`" for word in _occurring(index, words)]
        if searches:
            error.hint = Hint.joined(f"some of the words: {', '.join(searches)}", error.hint)
        elif error.hint.startswith("list what exists") and words:
            terms = {term for row in index.rows().values() for term in (row.alias, *row.tags)}
            terms |= {
                o.partition("=")[2] for r in index.rows().values() for o in _options(index, r)
            }
            close = did_you_mean(words.lower(), terms)
            error.hint = f"{close}\n{error.hint}".lstrip()
        raise


def _occurring(index: Index, words: str) -> list[str]:
    """Return those of several words that occur in scripts, if not all in one of them."""
    several = list(dict.fromkeys(_significant(words)))
    return [word for word in several if len(several) > 1 and _matching(index, word)]


def _title(index: Index, row: ScriptRow) -> str:
    if not row.faults:
        return row.title
    try:
        return index.script(row.path).title
    except Error as error:
        return error.message
