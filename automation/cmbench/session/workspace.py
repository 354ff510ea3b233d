"""What every command works with: the user's repositories, the index of scripts, the cache."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.index.scripts import Index, Repository

if TYPE_CHECKING:
    from cmbench.cache.store import CacheStore

OWN_ALIAS = "cmbench"
_CALLS = 15_000
"""So many calls may stand in each other: those of 500 steps, each a dependency of the last, twice.
The stack that a process has for them, 8 MB nearly everywhere, lasts for more."""


class Workspace:
    """A CM home: its repositories, the index of their scripts, its cache and its records.

    ``root`` is the folder of cmbench in the home. ``write`` lets the index be kept up to date, as
    far as the disk allows. ``cmind`` is what scripts reach as ``automation.cmind``.
    """

    def __init__(
        self, home: str, repositories: Iterable[Repository], cmind: Any = None, write: bool = True
    ) -> None:
        sys.setrecursionlimit(max(_CALLS, sys.getrecursionlimit()))
        self.cmind = cmind or _Deferred(home)
        self.root = os.path.join(home, "cmbench")
        self.repositories = list(repositories)
        self.index = Index(self.repositories, os.path.join(self.root, "index.db"), write)
        self._shared = _shared(self.root)
        self._store: CacheStore | None = None

    @classmethod
    def open(cls, home: str = "", repositories: Iterable[str] = ()) -> Workspace:
        """Return the CM home at ``home``, else that of ``CM_REPOS``, else ``~/CM``.

        With ``repositories``, folders, it has those and cmind is not used; else those that are
        registered in the home.
        """
        home = home or os.environ.get("CM_REPOS", "").strip() or os.path.expanduser("~/CM")
        home = os.path.abspath(home)
        paths = [os.path.abspath(path) for path in repositories]
        pairs = [(_alias(path), path) for path in paths] or _registered(home)
        return cls(home, _named_apart(pairs))

    @classmethod
    def of_cmind(cls, cmind: Any, write: bool) -> Workspace:
        """Return the home and the repositories that the running ``cm`` has."""
        pairs = [_of_cmind(repo) for repo in cmind.repos.lst]
        return cls(cmind.repos_path, _named_apart(pairs), cmind, write)

    @property
    def store(self) -> CacheStore:
        """The user's cache, which listing scripts does not need."""
        if self._store is None:
            from cmbench.cache.store import CacheStore

            self._store = CacheStore(self.root, self._shared)
        return self._store

    def with_index(self, index: Index) -> Workspace:
        """Return the same home, seen with another index."""
        other = copy.copy(self)
        other.index = index
        return other

    def words(self, path: str, uses: tuple[str, ...]) -> tuple[str, ...]:
        """What the programs of a script may read; ``uses`` names shared code that they import."""
        content = self.index.contents.get(path)
        shared = self.index.contents.library_words(path, uses) if uses else ()
        return (*content.words, *shared)

    def library_files(self, path: str, uses: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
        """Return the files of shared code whose digest counts for a script, by their roots."""
        return self.index.contents.libraries.files(path, uses) if uses else {}


class _Deferred:
    """cmind, imported when a script uses it: that takes longer than a small run."""

    def __init__(self, home: str) -> None:
        self.repos_path = home

    def __getattr__(self, name: str) -> Any:
        from cmind.core import CM

        made = CM(repos_path=self.repos_path)
        self.__dict__.update(access=made.access, cfg=made.cfg)
        return getattr(made, name)


def _shared(own: str) -> str:
    """Return the folder of a store to read from besides ``own``, named by ``CMBENCH_SHARED``."""
    path = os.environ.get("CMBENCH_SHARED", "")
    if not path:
        return ""
    from cmbench.cache.store import FORMAT

    if not os.path.isdir(os.path.join(path, f"v{FORMAT}")):
        raise Error(
            "bad-value",
            f"CMBENCH_SHARED={path} is not a cache of cmbench",
            hint="name the folder cmbench of a CM home: `export CMBENCH_SHARED=/path/CM/cmbench`",
        )
    if os.path.realpath(path) == os.path.realpath(own):
        return ""
    return os.path.abspath(path)


def _registered(home: str) -> list[tuple[str, str]]:
    """Return aliases and paths of the repositories of ``home``; raises ``bad-value``."""
    from cmind.core import CM
    from cmind.repos import Repos

    if os.path.exists(home) and not os.path.isdir(home):
        raise Error(
            "bad-value",
            f"{home} is not a CM home: it is a file",
            hint="name a folder: `export CM_REPOS=DIR`",
        )
    cm = CM(repos_path=home)
    repositories = Repos(path=home, cfg=cm.cfg, path_to_internal_repo=cm.path_to_cmind_repo)
    answer = repositories.load()
    if answer["return"]:
        raise Error("bad-value", f"{home} is not a CM home: {answer['error']}")
    return [_of_cmind(repo) for repo in repositories.lst]


def _of_cmind(repo: Any) -> tuple[str, str]:
    path = str(repo.path_with_prefix)
    return str(repo.meta.get("alias", path)), path


def _alias(path: str) -> str:
    """Return the name that a repository gives itself, else that of its folder."""
    from cmbench.format.meta import load_yaml

    mark = os.path.join(path, "cmr.yaml")
    if not os.path.isfile(mark):
        return os.path.basename(path)
    with open(mark, encoding="utf-8") as stream:
        return str(load_yaml(stream.read(), mark).get("alias") or os.path.basename(path))


def _is_installed(path: str) -> bool:
    package, name = os.path.split(os.path.normpath(path))
    return name == "repo" and os.path.isfile(os.path.join(package, "__init__.py"))


def _named_apart(registered: Iterable[tuple[str, str]]) -> Iterator[Repository]:
    """Yield the repositories, under names that differ: a fork has the alias of its origin.

    The copy that an installed package carries gives way to a checkout that is registered.
    """
    taken: set[str] = set()
    pairs = list(registered)
    copies = [path for alias, path in pairs if alias == OWN_ALIAS and _is_installed(path)]
    if sum(alias == OWN_ALIAS for alias, _ in pairs) > len(copies):
        pairs = [pair for pair in pairs if pair[1] not in copies]
    for alias, path in pairs:
        name = f"{alias} at {path}" if alias in taken else alias
        taken.add(name)
        yield Repository(alias=name, path=path, own=alias == OWN_ALIAS)
