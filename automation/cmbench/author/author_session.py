"""Which scripts an author's command is about, and an index that shows them as they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from cmbench.errors import Error, did_you_mean
from cmbench.format.dialect import DIALECTS
from cmbench.format.meta import META_FILES
from cmbench.format.model import Script, Tags
from cmbench.index.scripts import Index, Repository
from cmbench.index.select import choose
from cmbench.session.workspace import Workspace
from common.problems import shell_word


class Workbench:
    """The scripts that an author's command is about, and an index that knows them and the rest.

    They are named by tags, by alias or by ``path`` (a script directory or a repository). Without
    a name they are all scripts of the repository that holds the current directory, or of all that
    are registered (``every``).
    ``as_written`` is the workspace as their author sees it: the files as they are, faults and all.
    """

    def __init__(
        self,
        workspace: Workspace,
        tags: Tags | None = None,
        name: str = "",
        path: str = "",
        every: bool = False,
    ) -> None:
        if every:
            roots = [repository.path for repository in workspace.repositories]
            chosen = [
                directory
                for root in roots
                if _is_repository(root)
                for directory in scripts_in(root)
            ]
            chosen.sort()
        else:
            chosen = _chosen(workspace.index, tags or Tags(), name, path)
        self.paths = [os.path.realpath(path) for path in chosen]
        # What the home knows of a file that has not changed is not read again.
        known = os.path.join(workspace.root, "index.db")
        self.as_written = workspace.with_index(
            Index(_lenient(workspace.repositories, self.paths), known, write=False)
        )
        self.index = self.as_written.index

    def scripts(self) -> Iterator[Script]:
        """The typed scripts; raises ``Error`` for one that cannot be read."""
        for path in self.paths:
            row = self.index.rows()[path]
            if row.faults and not row.tags:
                raise Error(
                    "bad-meta",
                    row.faults[0],
                    hint=f"see: `cm lint script --path={shell_word(path)}`",
                )
            yield self.index.script(path)

    def by_repository(self) -> dict[str, list[Script]]:
        """The scripts under the root of their repository."""
        scripts: dict[str, list[Script]] = {}
        for script in self.scripts():
            scripts.setdefault(_root(script.path), []).append(script)
        return scripts


def _chosen(index: Index, tags: Tags, name: str, path: str) -> list[str]:
    """The directories of the scripts that are meant."""
    if name or tags.wanted:
        if not path:
            return [choose(index, tags, name).path]
        raise Error("bad-value", "tags and --path both name scripts", hint="give only one of them")
    directory = os.path.realpath(os.path.expanduser(path)) if path else os.getcwd()
    if _is_script(directory):
        return [directory]
    root = repository_above(directory)
    directories = sorted(scripts_in(root)) if root else []
    if not directories:
        raise Error(
            "bad-value",
            f"{directory} is neither a script nor a repository of scripts",
            hint="name one: by its tags, by its alias, or by --path=DIR",
        )
    return directories


def _is_script(path: str) -> bool:
    # Repositories of MLC have a meta.yaml at their root as well.
    inside = os.path.basename(os.path.dirname(path)) == "script"
    return inside and any(os.path.isfile(os.path.join(path, name)) for name in META_FILES)


def scripts_in(root: str) -> list[str]:
    """The script directories of the repository at ``root``."""
    with os.scandir(os.path.join(root, "script")) as entries:
        return [e.path for e in entries if e.is_dir() and _is_script(e.path)]


def repository_above(path: str) -> str:
    """The nearest directory at or above ``path`` that is a repository with scripts."""
    while not _is_repository(path):
        if os.path.dirname(path) == path:
            return ""
        path = os.path.dirname(path)
    return path


def _is_repository(path: str) -> bool:
    """Whether it has scripts, and the mark of one of the dialects at its root."""
    marks = (os.path.join(path, name) for name in DIALECTS)
    return os.path.isdir(os.path.join(path, "script")) and any(map(os.path.isfile, marks))


def _root(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))


def _lenient(repositories: Iterable[Repository], paths: Iterable[str]) -> list[Repository]:
    """The repositories, none of which refuses a faulty script, and those of ``paths``."""
    repositories_by_path = {
        os.path.realpath(r.path): Repository(r.alias, os.path.realpath(r.path))
        for r in repositories
    }
    for path in paths:
        root = _root(path)
        repositories_by_path.setdefault(root, Repository(root, root))
    return list(repositories_by_path.values())


def repository_to_write(workspace: Workspace, name: str) -> str:
    """Where a new script goes: the repository ``name``, else the current one, else ``local``.

    A point is the one that we are in and no other. Raises ``bad-value`` where there is none.
    """
    known = {r.alias: r.path for r in workspace.repositories}
    if name not in ("", "."):
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            raise Error("bad-value", f'no repository is named "{name}"', hint=hint)
        return known[name]
    current = os.path.realpath(os.getcwd())
    around = [
        p for p in map(os.path.realpath, known.values()) if (current + "/").startswith(p + "/")
    ]
    if around:
        return max(around, key=len)
    if "local" in known and not name:
        return known["local"]
    raise Error(
        "bad-value",
        "this folder is in no repository that cm knows",
        hint="name one with --repo, or make one:\n`cm add repo my-scripts`",
        context=[f"{alias}: {path}" for alias, path in known.items()],
    )
