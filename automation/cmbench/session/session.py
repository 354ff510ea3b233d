"""What every verb works with: the user's repositories, the index, the store, the call itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.model import Request, Script
from cmbench.index.scripts import Index, Repository
from cmbench.index.select import candidates, refuse_ambiguity
from cmbench.session import request as requests_in

if TYPE_CHECKING:
    from cmbench.cache.store import Store

OWN_ALIAS = "cmbench"
Answer = dict[str, Any]
"""What cmind gets back: ``return`` is 0 or the exit code, ``error`` a text, the rest is data."""


class Item(dict[str, Any]):
    """One thing that was found: data to print, with what callers from Python look at."""

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self["path"])

    @property
    def meta(self) -> Mapping[str, Any]:
        """What is known of it, its tags for example."""
        return self


def _shared(own: str) -> str:
    """The folder of a store to read from besides ``own``, named by ``CMBENCH_SHARED``."""
    path = os.environ.get("CMBENCH_SHARED", "")
    if not path:
        return ""
    from cmbench.cache.store import FORMAT

    if not os.path.isdir(os.path.join(path, f"v{FORMAT}")):
        raise Error(
            "bad-value",
            f"CMBENCH_SHARED={path} holds no cache of cmbench",
            hint="name the folder cmbench of a CM home: export CMBENCH_SHARED=/path/CM/cmbench",
        )
    if os.path.realpath(path) == os.path.realpath(own):
        return ""
    return os.path.abspath(path)


def _repositories(registered: Iterable[Any]) -> Iterator[Repository]:
    """The registered repositories, under names that differ: a fork has the alias of its origin."""
    taken: set[str] = set()
    for repo in registered:
        path = repo.path_with_prefix
        alias = str(repo.meta.get("alias", path))
        name = f"{alias} at {path}" if alias in taken else alias
        taken.add(name)
        yield Repository(alias=name, path=path, own=alias == OWN_ALIAS)


def output_fails() -> bool:
    """Whether it is standard output that an ``OSError`` came from: it still cannot be written."""
    try:
        print(end="", flush=True)
    except OSError:
        return True
    return False


class Session:
    """One call of one verb: the registered repositories, the index and the store of this user.

    ``write`` lets the call keep the index up to date, as far as the disk allows.
    """

    def __init__(self, cmind: Any, i: Mapping[str, Any], write: bool) -> None:
        self.cmind = cmind
        self.i = i
        self.flags = requests_in.flags_of(i)
        everywhere = requests_in.extra_flags(os.environ)
        self.options = requests_in.options_of({**self.flags, **everywhere}, i.get("cmd") or ())
        self.root = os.path.join(cmind.repos_path, "cmbench")
        self.repositories = list(_repositories(cmind.repos.lst))
        self.index = Index(self.repositories, os.path.join(self.root, "index.db"), write)
        self._shared = _shared(self.root)
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The user's cache, which a look at scripts has no need of."""
        if self._store is None:
            from cmbench.cache.store import Store

            self._store = Store(self.root, self._shared)
        return self._store

    def words(self, path: str) -> tuple[str, ...]:
        """Env words of a script's native programs."""
        return self.index.content(path).words

    def take_extra_flags(self) -> None:
        """Lay the flags that the user wants for every run over those of this call, which is one."""
        self.flags = _laid_over(self.flags, requests_in.extra_flags(os.environ))

    def script(self) -> tuple[Request, Script]:
        """The requested script and the checked request."""
        self.take_extra_flags()
        tags, uid = requests_in.tags_of(self.i)
        if not (uid or tags.wanted):
            _refuse_misspelt_tags(self.flags)
        refuse_ambiguity(self.index, tags, uid)
        rows = candidates(self.index, tags, uid)
        script = self.index.script(rows[0].path)
        request = requests_in.request_of(self.flags, tags, uid, script)
        if (request.ad or request.adr) and script.dialect.inputs_bind:
            from cmbench.plan.names import refuse_unknown

            refuse_unknown(request, self.index)
        if self.i.get("out") == "con":
            _tell_repositories([row.repo for row in rows])
            for name, hint in requests_in.unknown_inputs(request.inputs, script).items():
                text = f"warning: {script.alias} knows no flag --{name}; {hint}"
                print(text, file=sys.stderr)
        return request, script


def _refuse_misspelt_tags(flags: Iterable[str]) -> None:
    for name in flags:
        hint = did_you_mean(name, ["tags"]) if name != "tags" else ""
        if hint:
            raise Error("unknown-flag", f"there is no flag --{name}", hint=hint)


def _laid_over(flags: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both, groups such as ``adr`` one within the other; ``more`` wins."""
    found = dict(flags)
    for name, value in more.items():
        below = found.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            found[name] = _laid_over(below, value)
        else:
            found[name] = value
    return found


def _tell_repositories(names: Sequence[str]) -> None:
    """Say whose script is taken where several repositories have one that fits."""
    others = [name for name in dict.fromkeys(names) if name != names[0]]
    if others:
        places = ", ".join(others)
        text = f"note: {names[0]}'s script is taken; also in: {places} (cd there to take theirs)"
        print(text, file=sys.stderr)
