"""What every verb works with: the user's repositories, the index, the store, the call itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from cmbench import request as requests_in
from cmbench.cache import FORMAT, Store
from cmbench.errors import Error
from cmbench.index import Index, Repository
from cmbench.model import Request, Script
from cmbench.select import choose, refuse_ambiguity

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
    if path and not os.path.isdir(os.path.join(path, f"v{FORMAT}")):
        raise Error(
            "bad-value",
            f"CMBENCH_SHARED={path} holds no cache of cmbench",
            hint="name the folder cmbench of a CM home: export CMBENCH_SHARED=/path/CM/cmbench",
        )
    if not path or os.path.realpath(path) == os.path.realpath(own):
        return ""
    return os.path.abspath(path)


class Session:
    """One call of one verb: the registered repositories, the index and the store of this user."""

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
        self.store = Store(self.root, _shared(self.root))

    def words(self, path: str) -> tuple[str, ...]:
        """Env words of a script's native programs."""
        return self.index.content(path).words

    def script(self) -> tuple[Request, Script]:
        """The requested script and the checked request."""
        tags, uid = requests_in.tags_of(self.i)
        refuse_ambiguity(self.index, tags, uid)
        script = self.index.script(choose(self.index, tags, uid).path)
        request = requests_in.request_of(self.flags, tags, uid, script)
        if self.i.get("out") == "con":
            for name, hint in requests_in.unknown_inputs(request.inputs, script).items():
                text = f"warning: {script.alias} knows no flag --{name}; {hint}"
                print(text, file=sys.stderr)
        return request, script
