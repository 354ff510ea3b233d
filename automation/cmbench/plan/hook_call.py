"""``i['input']``, the call of a script as its hooks see it, and ``add_deps_recursive``.

What a hook reads of them counts for the cache entry, as its reads of the env do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cmbench.format.env import MISSING, TracedEnv, fingerprint
from cmbench.format.model import Dependency, Request

_RECURSIVE = ("adr", "add_deps_recursive")
OF_CMIND = ("action", "automation", "parsed_automation", "cmd", "out")
"""What a call through cmind says besides, which hooks of MLC do not know."""
_OF_THE_RUN = frozenset(
    [
        *(*OF_CMIND, "target", "details"),
        *("artifact", "parsed_artifact", "parsed_artifacts", "mlc_run_cmd", "save_to_json"),
        *("quiet", "q", "silent", "s", "verbose", "v", "json", "j", "debug", "time", "space"),
        *("jobs", "offline", "no_prefetch", "lock", "new", "renew", "renew_from", "skip_cache"),
        *("find_links", "prepared"),
    ]
)
"""How a run is started and shown; what is made does not depend on it."""
_LIVE = frozenset(
    [
        *("env", "state", "const", "const_state", "run_state", "recursion", "recursion_spaces"),
        *("local_env", "local_state", "local_const", "local_const_state"),
        "remembered_selections",
    ]
)
"""What hooks find as the step has it now; the step itself records what is read there."""


class TracedUpdates(TracedEnv):
    """``adr`` of a step as plain dictionaries; a look at any counts as a look at all of them."""

    __slots__ = ("_adr",)

    def __init__(self, adr: TracedEnv) -> None:
        super().__init__(_plain(adr.plain()))
        self._adr = adr

    def note(self, key: str) -> None:
        """Record all of them as read: a hook may pass them to any function."""
        self._adr.note_all()

    def note_all(self) -> None:
        """Record the same."""
        self._adr.note_all()

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        import copy

        return copy.deepcopy(self.copy(), memo)


class HookCall(TracedEnv):
    """The call of one step. ``show`` adds values that are no part of the request.

    ``adr`` is that of the step. Hooks do not see the words ``unseen``. The call of a dependency
    has what it was called with, in the words of its entry.
    """

    __slots__ = ("_adr", "_request")

    def __init__(
        self, request: Request, adr: TracedEnv, dependency: bool, unseen: Iterable[str] = ()
    ) -> None:
        named = [key for key in _RECURSIVE if key in request.call]
        if dependency:
            named.append("add_deps_recursive")
        elif request.adr and not named:
            named.append("adr")
        shown = _OF_THE_RUN.difference(unseen)
        super().__init__(
            {
                **{key: value for key, value in request.call.items() if key in shown},
                **call_of(request),
                **{key: TracedUpdates(adr) for key in named},
            }
        )
        self._adr, self._request = adr, request
        self.begin()

    def show(self, values: Mapping[str, Any]) -> None:
        """Lay ``values`` over it; reads of them are recorded elsewhere, or not at all."""
        self.update(values)

    def note(self, key: str) -> None:
        """Record a read of ``key``."""
        if key in self.written or key in self.reads:
            return
        if key in _RECURSIVE:
            self._adr.note_all()
        elif key not in _OF_THE_RUN | _LIVE:
            self.reads[key] = call_value(key, self._request)

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        import copy

        return copy.deepcopy(self.copy(), memo)


def call_of(request: Request) -> dict[str, Any]:
    """What counts of a call as hooks see it, without the updates for dependencies at any depth."""
    skipped = _OF_THE_RUN | _LIVE | {*_RECURSIVE}
    words = {key: value for key, value in request.call.items() if key not in skipped}
    if request.arguments:
        words["artifacts"] = list(request.arguments)
    if request.force_cache:
        words["force_cache"] = True
    if request.extra_cache_tags:
        words["extra_cache_tags"] = ",".join(request.extra_cache_tags)
    words.update({key: _plain(request.ad) for key in ("ad", "add_deps") if key in words})
    if request.version:
        from cmbench.format.plain_updates import plain_version

        words.update(plain_version(request.version))
    return {**words, **request.inputs, "tags": str(request.tags)}


def _plain(updates: Mapping[str, Dependency]) -> dict[str, Any]:
    if not updates:
        return {}
    from cmbench.format.plain_updates import plain_updates  # Most calls have none.

    return plain_updates(updates)


def call_value(name: str, request: Request) -> str:
    """The fingerprint of what a call says of ``name``; of an empty name, of which there are."""
    call = call_of(request)
    return fingerprint(name, call.get(name, MISSING) if name else sorted(call))
