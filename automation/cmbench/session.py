"""What every verb works with: the user's repositories, the index, the store, the call itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cmbench import request as requests_in
from cmbench.errors import Error
from cmbench.index import Index, Repository
from cmbench.model import Request, Script
from cmbench.select import candidates, refuse_ambiguity

if TYPE_CHECKING:
    from cmbench.cache import Store

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
    from cmbench.cache import FORMAT

    if not os.path.isdir(os.path.join(path, f"v{FORMAT}")):
        raise Error(
            "bad-value",
            f"CMBENCH_SHARED={path} holds no cache of cmbench",
            hint="name the folder cmbench of a CM home: export CMBENCH_SHARED=/path/CM/cmbench",
        )
    if os.path.realpath(path) == os.path.realpath(own):
        return ""
    return os.path.abspath(path)


class Session:
    """One call of one verb: the registered repositories, the index and the store of this user.

    ``write`` lets the call keep the index up to date, as far as the disk allows.
    """

    def __init__(self, cmind: Any, i: Mapping[str, Any], write: bool) -> None:
        self.cmind = cmind
        self.i = i
        self.flags = {**requests_in.flags_of(i), **requests_in.extra_flags(os.environ)}
        self.options = requests_in.options_of(self.flags, i.get("cmd") or ())
        self.root = os.path.join(cmind.repos_path, "cmbench")
        self.repositories = [
            Repository(
                alias=str(repo.meta.get("alias", repo.path_with_prefix)),
                path=repo.path_with_prefix,
                own=repo.meta.get("alias") == OWN_ALIAS,
            )
            for repo in cmind.repos.lst
        ]
        self.index = Index(self.repositories, os.path.join(self.root, "index.db"), write)
        self._shared = _shared(self.root)
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The user's cache, which a look at scripts has no need of."""
        if self._store is None:
            from cmbench.cache import Store

            self._store = Store(self.root, self._shared)
        return self._store

    def words(self, path: str) -> tuple[str, ...]:
        """Env words of a script's native programs."""
        return self.index.content(path).words

    def script(self) -> tuple[Request, Script]:
        """The requested script and the checked request."""
        tags, uid = requests_in.tags_of(self.i)
        refuse_ambiguity(self.index, tags, uid)
        rows = candidates(self.index, tags, uid)
        script = self.index.script(rows[0].path)
        request = requests_in.request_of(self.flags, tags, uid, script)
        if (request.ad or request.adr) and script.dialect.inputs_bind:
            from cmbench.names import refuse_unknown

            refuse_unknown(request, self.index)
        if self.i.get("out") == "con":
            _tell_repositories([row.repo for row in rows])
            for name, hint in requests_in.unknown_inputs(request.inputs, script).items():
                text = f"warning: {script.alias} knows no flag --{name}; {hint}"
                print(text, file=sys.stderr)
        return request, script


def _tell_repositories(names: Sequence[str]) -> None:
    """Say whose script is taken where several repositories have one that fits."""
    others = [name for name in dict.fromkeys(names) if name != names[0]]
    if others:
        places = ", ".join(others)
        text = f"note: {names[0]}'s script is taken; also in: {places} (cd there to take theirs)"
        print(text, file=sys.stderr)
