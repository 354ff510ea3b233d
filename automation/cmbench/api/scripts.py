"""The scripts of a workspace: those that fit a query, and what one of them is for."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from cmbench.errors import Error
from cmbench.format.model import Script, Tags
from cmbench.index.scripts import Index, ScriptRow
from cmbench.index.select import choose, parse_tags
from cmbench.session.workspace import Workspace
from cmbench.values import immutable


@immutable(frozen=True, slots=True, eq=True, repr=True)
class ScriptSummary:
    """A script in a listing: its names, its path, its purpose."""

    alias: str
    uid: str
    path: str
    repository: str
    tags: tuple[str, ...]
    variations: tuple[str, ...]
    title: str


def find(
    workspace: Workspace, tags: str | Tags = "", name: str = "", words: str = ""
) -> list[ScriptSummary]:
    """Return scripts with these tags, of this name, or else those in which all ``words`` occur.

    Raises ``script-not-found`` where there is none.
    """
    query = parse_tags(tags) if isinstance(tags, str) else tags
    index = workspace.index
    rows = _named(index, name) if name else index.find(query)
    rows = [row for row in rows if all(row.accepts(v) for v in query.variations)]
    rows = rows or _speaking_of(index, words)
    if not rows:
        choose(index, query, name)
    return [
        ScriptSummary(
            alias=row.alias,
            uid=row.uid,
            path=row.path,
            repository=row.repo,
            tags=tuple(sorted(row.tags)),
            variations=tuple(sorted(row.variations)),
            title=_title(index, row),
        )
        for row in rows
    ]


def show(workspace: Workspace, tags: str | Tags = "", name: str = "") -> Script:
    """Return the one script that the tags or the name choose; raises ``script-not-found``."""
    query = parse_tags(tags) if isinstance(tags, str) else tags
    return workspace.index.script(choose(workspace.index, query, name).path)


def _named(index: Index, name: str) -> list[ScriptRow]:
    """Return scripts of that name, in which ``*`` may stand for anything."""
    if not any(mark in name for mark in "*?"):
        return index.named(name)
    return [row for row in index.rows().values() if fnmatchcase(row.alias, name)]


def _speaking_of(index: Index, text: str) -> list[ScriptRow]:
    """Return scripts in whose name, tags or title all words are, ``*`` standing for anything."""
    patterns = [f"*{word}*" for word in re.split(r"[\s,]+", text.lower()) if word]
    if not patterns:
        return []
    return [
        row
        for row in index.rows().values()
        if all(
            fnmatchcase(" ".join((row.alias, *row.tags, row.title)).lower(), p) for p in patterns
        )
    ]


def _title(index: Index, row: ScriptRow) -> str:
    if not row.faults:
        return row.title
    try:
        return index.script(row.path).title
    except Error as error:
        return error.message
