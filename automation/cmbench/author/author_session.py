"""Which scripts an author's command is about, and an index that shows them as they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.dialect import DIALECTS
from cmbench.format.meta import META_FILES
from cmbench.format.model import Script
from cmbench.index.scripts import Index, Repository
from cmbench.index.select import choose
from cmbench.session import request as requests_in
from cmbench.session.session import Session

_COMMON = {"tags", "path", "out", "json", "quiet", "silent", "verbose", "help"}


class Workbench:
    """The scripts that an author's command is about, and an index that knows them and the rest.

    They are named by tags, by alias or by ``--path`` (a script directory or a repository). Without
    a name they are all scripts of the repository that holds the current directory.
    """

    def __init__(self, cmind: Any, i: Mapping[str, Any], flags: Iterable[str] = ()) -> None:
        self.session = Session(cmind, i, write=False)
        self.flags = self.session.flags
        refuse_unknown(self.flags, {*_COMMON, *flags})
        self.index = self.session.index
        self.paths = [os.path.realpath(path) for path in self._paths()]
        # What an author is told is about the files as they are, faults and all.
        self.index = Index(_lenient(self.session.repositories, self.paths), os.devnull, write=False)

    def _paths(self) -> list[str]:
        tags, uid = requests_in.tags_of(self.session.i)
        path = str(self.flags.get("path") or "")
        if uid or tags.wanted:
            if not path:
                return [choose(self.index, tags, uid).path]
            raise Error("bad-value", "tags and --path name scripts in two ways", hint="give one")
        place = os.path.realpath(os.path.expanduser(path)) if path else os.getcwd()
        if _is_script(place):
            return [place]
        root = repository_above(place)
        found = sorted(scripts_in(root)) if root else []
        if not found:
            raise Error(
                "bad-value",
                f"{place} is neither a script nor a repository of scripts",
                hint="name one: by its tags, by its alias, or by --path=DIR",
            )
        return found

    def words(self, path: str) -> tuple[str, ...]:
        """Env words of a script's native programs."""
        return self.index.content(path).words

    def scripts(self) -> Iterator[Script]:
        """The typed scripts; raises ``Error`` for one that cannot be read."""
        for path in self.paths:
            row = self.index.rows()[path]
            if row.faults and not row.tags:
                raise Error("bad-meta", row.faults[0], hint=f"see: cm lint script --path={path}")
            yield self.index.script(path)

    def by_repository(self) -> dict[str, list[Script]]:
        """The scripts under the root of their repository."""
        found: dict[str, list[Script]] = {}
        for script in self.scripts():
            found.setdefault(_root(script.path), []).append(script)
        return found


def refuse_unknown(flags: Mapping[str, Any], known: set[str]) -> None:
    """Raise ``Error`` for a flag that a command does not know."""
    for name in flags:
        if name not in known:
            hint = did_you_mean(name, known) or "its flags: put --help behind the command"
            raise Error("unknown-flag", f"this command knows no flag --{name}", hint=hint)


def _is_script(path: str) -> bool:
    # Repositories of MLC have a meta.yaml at their root as well.
    inside = os.path.basename(os.path.dirname(path)) == "script"
    return inside and any(os.path.isfile(os.path.join(path, name)) for name in META_FILES)


def scripts_in(root: str) -> list[str]:
    """The script directories of the repository at ``root``."""
    with os.scandir(os.path.join(root, "script")) as entries:
        return [e.path for e in entries if e.is_dir() and _is_script(e.path)]


def repository_above(place: str) -> str:
    """The nearest directory at or above ``place`` that is a repository with scripts."""
    while not _is_repository(place):
        if os.path.dirname(place) == place:
            return ""
        place = os.path.dirname(place)
    return place


def _is_repository(path: str) -> bool:
    """Whether it has scripts, and the mark of one of the dialects at its root."""
    marks = (os.path.join(path, name) for name in DIALECTS)
    return os.path.isdir(os.path.join(path, "script")) and any(map(os.path.isfile, marks))


def _root(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))


def _lenient(repositories: Iterable[Repository], paths: Iterable[str]) -> list[Repository]:
    """The repositories, none of which refuses a faulty script, and those of ``paths``."""
    found = {
        os.path.realpath(r.path): Repository(r.alias, os.path.realpath(r.path))
        for r in repositories
    }
    for path in paths:
        root = _root(path)
        found.setdefault(root, Repository(root, root))
    return list(found.values())


def repository_to_write(session: Session, name: str) -> str:
    """Where a new script goes: the repository ``name``, else the one we are in, else ``local``."""
    known = {r.alias: r.path for r in session.repositories}
    if name:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            raise Error("bad-value", f'no repository is named "{name}"', hint=hint)
        return known[name]
    here = os.path.realpath(os.getcwd())
    around = [p for p in map(os.path.realpath, known.values()) if (here + "/").startswith(p + "/")]
    if around:
        return max(around, key=len)
    if "local" in known:
        return known["local"]
    raise Error(
        "bad-value",
        "you are in none of the repositories that cm knows",
        hint="name one with --repo, or make one:\ncm add repo my-scripts",
        context=[f"{alias}: {path}" for alias, path in known.items()],
    )
