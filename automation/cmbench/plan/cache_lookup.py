"""Which cache entry answers a step, why or why not, and whether an entry can still be trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from cmbench.cache.cache_entry import CacheEntry, expiration, expiry, is_over, relied_on_change
from cmbench.errors import Error
from cmbench.format.env import MISSING, Pending, fingerprint
from cmbench.format.merge import USER
from cmbench.format.model import StepOutcome
from cmbench.index.scripts import Index
from cmbench.index.select import choose, parse_tags
from cmbench.plan.entry_reads import recorded, value_now
from cmbench.plan.step_run import HANDED_ON, REQUEST, StepRun
from cmbench.values import immutable, replace

if TYPE_CHECKING:
    from cmbench.cache.listing import EntrySummary
    from cmbench.cache.store import CacheStore

Facts = Callable[[str], StepOutcome]
"""Gives what the ``host_facts`` script at a path says of this machine."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Renewal:
    """Scripts, by their folders, whose work from before a moment is to be done again."""

    scripts: frozenset[str] = frozenset()
    before: float = 0.0


NOTHING = Renewal()


class CacheLookup:
    """Looks steps up in one cache; remembers which entries are sound."""

    def __init__(
        self, index: Index, store: CacheStore, facts: Facts, renewal: Renewal = NOTHING
    ) -> None:
        self.store = store
        self.names: set[str] = set()
        self._index = index
        self._facts = facts
        self._renewal = renewal
        self._sound: dict[str, str] = {}
        self._answering: dict[tuple[str, str], str] = {}

    def forget(self) -> None:
        """Look at entries again: steps have worked since, and may have changed what those need."""
        self._sound.clear()

    def look_up(self, step_run: StepRun) -> tuple[CacheEntry | None, str]:
        """Return the entry that answers ``step_run``, or ``None``; in words why, either way."""
        if step_run.request.new or step_run.request.renew:
            return None, "a new entry was asked for"
        why = "no entry was made by a call like this"
        if step_run.request.name:
            from cmbench.plan.names import registered

            named = registered(step_run, self.store, self.unsound)
            if named is None:
                why = f"nothing is registered as {step_run.request.name}"
            elif not (why := self._missing_secret(named, step_run)):
                return self._answered(named, step_run), f"registered as {step_run.request.name}"
        if step_run.request.extra_cache_tags:
            from cmbench.plan.names import selected

            if (tagged := selected(step_run, self.store, self._mismatch)) is not None:
                return self._answered(tagged, step_run), "it has the requested tags"
        entry, reason = self._made_alike(step_run)
        return entry, reason or why

    def _made_alike(self, step_run: StepRun) -> tuple[CacheEntry | None, str]:
        """Return the entry of an equal call, or of one that supplied what this one lacks."""
        why = ""
        unwanted = set(step_run.request.tags.unwanted)
        for entry in self.store.candidates(step_run.step.identity):
            if unwanted & set(entry.tags):
                why = f"the existing entry has an unwanted tag: {','.join(unwanted)}"
            elif not (why := self._mismatch(entry, step_run)):
                return self._answered(entry, step_run), "same script, variations and inputs"
        if step_run.script.meta.get("registered_by"):
            from cmbench.plan.names import handed_in

            if (alike := handed_in(step_run, self.store, self._mismatch)) is not None:
                return self._answered(alike, step_run), "it was made of what a user handed in"
        return None, why

    def _answered(self, entry: CacheEntry, step_run: StepRun) -> CacheEntry:
        """``entry`` with its secrets; its dependencies had names that are not seen again."""
        self.see_names(entry)
        if step_run.parent is None and not {"call:ad", "call:add_deps"}.isdisjoint(entry.reads):
            self.names.add(HANDED_ON["ad"])
        if not entry.secrets:
            return entry
        secrets = {key: step_run.env.peek(key) for key in entry.secrets}
        return replace(entry, new_env={**entry.new_env, **secrets})

    def see_names(self, entry: CacheEntry) -> None:
        """Record the names of the dependencies of ``entry``, which a user may address."""
        keys = [key.removeprefix("adr:") for key in entry.reads if key.startswith("adr:")]
        self.names.update(key.removeprefix(USER) or HANDED_ON["adr"] for key in keys)

    def _mismatch(
        self, entry: CacheEntry, step_run: StepRun, keys: Collection[str] | None = None
    ) -> str:
        """Return why ``entry`` does not answer ``step_run``; an empty string when it does.

        With ``keys`` only these of all that it has read count.
        """
        # In an order of its own: steps that run at once may read in any.
        for key, then in sorted(recorded(entry, step_run).items()):
            if keys is not None and key not in keys and not key.startswith(REQUEST):
                continue
            now = value_now(key, step_run)
            if isinstance(now, Pending):
                return f"unknown until {now.producer} has run ({key})"
            if then != now and not self.store.is_same(then, now):
                from cmbench.plan.read_values import changed

                return changed(key, then, now)
        secret = self._missing_secret(entry, step_run)
        return secret or _too_old(entry, step_run.request.expires) or self.unsound(entry)

    def _missing_secret(self, entry: CacheEntry, step_run: StepRun) -> str:
        """Why an entry cannot give back all that it gave: a secret is had from the caller only."""
        for key, then in entry.secrets.items():
            if not self.store.is_same(then, fingerprint(key, step_run.env.peek(key))):
                return f"it gave back the secret {key}, which no cache keeps"
        return ""

    def unsound(self, entry: CacheEntry) -> str:
        """Why an entry can no longer be trusted, its dependencies included; empty when it can."""
        reason = self._sound.get(entry.uid)
        if reason is None:
            reason = self._sound[entry.uid] = self._broken(entry) or (
                self._superseded(entry)
                if entry.name
                else self._changed(entry) or self._lost_dependency(entry)
            )
        return reason

    def _superseded(self, entry: CacheEntry) -> str:
        """Return why a registered entry is no longer valid: what it was made with, or a newer one.

        An edited script does not undo a registration: it is the user's choice, not a result.
        """
        if any(self.store.entry(key) is None for key in entry.deps):
            return "an entry that it was made with is gone"
        newer = self.store.listed(
            lambda other: other.created > entry.created and _same_registration(other, entry)
        )
        return f"a newer one is registered as {entry.name}" if newer else ""

    def _broken(self, entry: CacheEntry) -> str:
        if entry.created < self._renewal.before:
            for made_by in entry.scripts:
                if self._script_here(entry, made_by) in self._renewal.scripts:
                    return f"{os.path.basename(made_by)} has to run again"
        why = next(iter(entry.doubts), "") or expiry(entry) or self.store.damage(entry)
        return why or next((r for item in entry.relies_on if (r := relied_on_change(item))), "")

    def _changed(self, entry: CacheEntry) -> str:
        rows = self._index.rows()
        for made_by, digest in entry.scripts.items():
            path = self._script_here(entry, made_by)
            if path not in rows:
                return f"the script {os.path.basename(path)} is gone"
            if self._index.contents.get(path).digest != digest:
                return f"the script {os.path.basename(path)} was edited"
        for made_by, used in entry.libraries.items():
            path = self._script_here(entry, made_by)
            for name, digest in used.items():
                if self._index.contents.libraries.digest(path, name) != digest:
                    return f"the library {name} was edited"
        for made_by, reads in entry.facts.items():
            path = self._script_here(entry, made_by)
            facts = self._facts(path).new_env if path in rows else {}
            for key, then in reads.items():
                if fingerprint(key, facts.get(key, MISSING)) != then:
                    return f"{key} of this machine has changed"
        return self._chosen_otherwise(entry)

    def _chosen_otherwise(self, entry: CacheEntry) -> str:
        for made_by, choices in entry.chosen.items():
            path = self._script_here(entry, made_by)
            for tags, then in choices.items():
                if self._who_answers(path, tags) != then:
                    return f"another script answers {tags} now"
        return ""

    def _who_answers(self, path: str, tags: str) -> str:
        """Return the uid of the script that ``tags`` mean for the script at ``path``."""
        uid = self._answering.get((path, tags))
        if uid is None:
            with suppress(Error):
                uid = choose(self._index, parse_tags(tags), "", self._index.script(path)).uid
            uid = self._answering[path, tags] = uid or ""
        return uid

    def _script_here(self, entry: CacheEntry, path: str) -> str:
        """Return where a script is in this home, for an entry that was made in another one."""
        if path in self._index.rows() or (self.store.owns(entry) and not entry.imported):
            return path
        rows = self._index.by_uid(os.path.basename(path))
        return rows[0].path if rows and path not in repr(entry.new_env) else path

    def _lost_dependency(self, entry: CacheEntry) -> str:
        for key in entry.deps:
            dependency = self.store.entry(key)
            if dependency is None:
                return f"an entry it was made with ({key}) is gone"
            why = self.unsound(dependency)
            if why:
                return f"{dependency.script}: {why}"
        return ""


def _too_old(entry: CacheEntry, expires: str) -> str:
    """Return why an entry is older than a request allows; empty when it is not.

    A text that is not a time is ignored: making an entry refuses it.
    """
    with suppress(ValueError):
        if is_over(expiration(expires, entry.created)):
            return f"it is older than {expires}"
    return ""


def _same_registration(one: EntrySummary, other: CacheEntry) -> bool:
    return (one.script_uid, one.name, one.variations, one.version) == (
        other.script_uid,
        other.name,
        other.variations,
        other.version,
    )
