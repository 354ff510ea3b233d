"""One request to one frame: script, variations, version, settings laid over the caller's env.

Planning and running share this code: a plan resolves with values that may be pending, a run goes on
from it and resolves again only what was open, so both follow the same rules. ``Resolver.look_up``
decides whether a cache entry answers a frame, and why or why not.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cmbench.cache.cache_entry import expiration, expiry, is_over
from cmbench.cache.store import CacheEntry, CacheStore, relied_on_change
from cmbench.errors import Error
from cmbench.format.dialect import Dialect, host_env
from cmbench.format.env import (
    MISSING,
    Pending,
    TracedEnv,
    decide,
    fingerprint,
    merge_value,
    substitute,
)
from cmbench.format.merge import USER, as_meant, merge_dependency, with_replacements
from cmbench.format.model import (
    PHASES,
    Condition,
    Dependency,
    Request,
    Script,
    ScriptSettings,
    StepOutcome,
    VersionRange,
)
from cmbench.index.scripts import Index
from cmbench.index.select import (
    ScriptSelection,
    choose,
    expand,
    merge_order,
    parse_tags,
    variation_of,
    version_variations,
)
from cmbench.plan.entry_reads import recorded, value_now
from cmbench.plan.resolved_step import HANDED_ON, REQUEST, ResolvedStep, visible_const, visible_env
from cmbench.values import immutable, replace

if TYPE_CHECKING:
    from cmbench.cache.listing import EntrySummary

REPEATS = 3
"""How often one script may stand in a chain with the same tags."""

Facts = Callable[[str], StepOutcome]
"""Gives what the ``host_facts`` script at a path says of this machine."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Renewal:
    """Scripts, by their folders, whose work from before a moment is to be done again."""

    scripts: frozenset[str] = frozenset()
    before: float = 0.0


NOTHING = Renewal()


class Resolver:
    """Resolves requests against one index and one cache; remembers what cannot change."""

    def __init__(
        self,
        index: Index,
        store: CacheStore,
        facts: Facts,
        renewal: Renewal = NOTHING,
    ) -> None:
        self.index = index
        self.store = store
        self._facts = facts
        self._renewal = renewal
        self._choices: dict[tuple[Any, ...], ScriptSelection] = {}
        self._blocks: dict[tuple[str, tuple[str, ...], str], tuple[ScriptSettings, ...]] = {}
        self._dependencies: dict[tuple[Any, ...], Mapping[str, tuple[Dependency, ...]]] = {}
        self._sound: dict[str, str] = {}
        self._answering: dict[tuple[str, str], str] = {}
        self.names: set[str] = set()

    def share(self, other: Resolver) -> None:
        """Remember together with ``other``, of the same index, what depends on no env."""
        self._choices = other._choices
        self._blocks = other._blocks
        self._dependencies = other._dependencies

    def resolve(self, request: Request, parent: ResolvedStep | None) -> ResolvedStep:
        """The frame for ``request``. Raises ``Error`` for anything that cannot be resolved."""
        choice = self._choice(request, parent.script if parent else None)
        script = choice.script
        request = as_meant(request, script)
        version = self._version(request, choice)
        blocks = self._settings(choice, version.exact)
        env, const, blocks = self._lay_env(request, script, blocks, version, parent)
        frame = ResolvedStep(
            request=request,
            choice=choice,
            blocks=blocks,
            version=version,
            env=env,
            state=_lay_state(request, blocks, parent),
            adr=_lay_adr(request, blocks),
            const=const,
            deps=self._merged_dependencies(choice, version.exact),
            parent=parent,
        )
        frame.scripts[script.path] = self.index.content(script.path).digest
        used = {name: self.index.libraries.find(script.path, name).digest for name in frame.uses()}
        if used:
            frame.libraries[script.path] = used
        _refuse_cycle(frame)
        if parent is None and request.inputs:
            from cmbench.plan.idle_inputs import refuse_idle

            refuse_idle(frame, request.inputs)
        env.begin()
        frame.state.running = True
        return frame

    def go_on(self, frame: ResolvedStep, parent: ResolvedStep | None) -> ResolvedStep:
        """A step that a plan has resolved, for the run: its caller has done all that it said."""
        frame.parent = parent
        return frame

    def begin(self, store: CacheStore) -> None:
        """Forget what belongs to the plan only; entries are looked up in ``store`` from now on."""
        self.store = store
        self.names.clear()

    def forget(self) -> None:
        """Look at entries again: steps have worked since, and may have changed what those need."""
        self._sound.clear()

    def _choice(self, request: Request, caller: Script | None) -> ScriptSelection:
        own = (caller.repo, caller.dialect) if caller else None
        key = (request.tags, request.uid, request.version.exact, own)
        choice = self._choices.get(key)
        if choice is None:
            row = choose(self.index, request.tags, request.uid, caller)
            script = self.index.script(row.path)
            extra = version_variations(script, request.version.exact)
            choice = self._choices[key] = expand(script, request.tags, extra)
        return choice

    def _version(self, request: Request, choice: ScriptSelection) -> VersionRange:
        bounds = request.version
        if bounds.exact:
            return bounds
        default = _default_version(choice)
        if not default:
            return bounds
        from cmbench.lib import versions

        ceiling = bounds.usable or bounds.maximum
        if bounds.minimum and versions.compare(default, bounds.minimum) < 0:
            default = bounds.minimum
        if bounds.maximum and versions.compare(default, bounds.maximum) > 0:
            default = ceiling
        return replace(bounds, exact=default)

    def _settings(self, choice: ScriptSelection, version: str) -> tuple[ScriptSettings, ...]:
        key = (choice.script.path, choice.variations, version)
        blocks = self._blocks.get(key)
        if blocks is None:
            script = choice.script
            layers = [script.settings]
            versioned = [script.versions[version]] if version in script.versions else []
            varied = [variation_of(script, name).settings for name in merge_order(choice)]
            first = script.dialect.version_first
            layers += versioned + varied if first else varied + versioned
            blocks = self._blocks[key] = tuple(layers)
        return blocks

    def _lay_env(
        self,
        request: Request,
        script: Script,
        blocks: tuple[ScriptSettings, ...],
        version: VersionRange,
        parent: ResolvedStep | None,
    ) -> tuple[TracedEnv, dict[str, Any], tuple[ScriptSettings, ...]]:
        """Env and constants, and the blocks with those that turned out to apply."""
        dialect = script.dialect
        env, const = self._first_env(request, dialect, parent)
        for key, value in call_env(request, version, dialect).items():
            env.overlay(key, value)
        conditional: list[tuple[tuple[Condition, ...], ScriptSettings]] = []
        for number, block in enumerate(blocks):
            mapped = _lay_block(env, block, request)
            if dialect.inputs_are_const:
                const.update(mapped)
            if number or dialect.top_level_rules:
                const.update(block.const)
                conditional = [*block.conditional, *conditional]
            for conditions, settings in conditional:
                if decide(conditions, env)[0]:
                    _lay_block(env, settings, request)
        applied = [settings for conditions, settings in conditional if decide(conditions, env)[0]]
        for settings in applied:
            const.update(settings.const)
        const.update(request.const)
        _lay_constants(env, const, parent.const if parent else {})
        _resolve_references(env)
        return env, const, (*blocks, *applied)

    def _first_env(
        self, request: Request, dialect: Dialect, parent: ResolvedStep | None
    ) -> tuple[TracedEnv, dict[str, Any]]:
        """Env and constants as they come from the caller, or from the user's process."""
        if parent:
            env = parent.env.below(visible_env(parent, request))
            env.rules = dialect
            return env, visible_const(parent)
        env = TracedEnv(host_env(dialect))
        env.rules = dialect
        if dialect.user_directory:
            return env, {dialect.prefix + dialect.user_directory: os.getcwd()}
        return env, {}

    def _merged_dependencies(
        self, choice: ScriptSelection, version: str
    ) -> Mapping[str, tuple[Dependency, ...]]:
        key = (choice.script.path, choice.variations, version)
        merged = self._dependencies.get(key)
        if merged is None:
            lists: dict[str, list[Dependency]] = {phase: [] for phase in PHASES}
            for block in self._settings(choice, version):
                for phase, entries in block.deps.items():
                    lists[phase] = with_replacements(lists[phase], entries)
            merged = {phase: tuple(entries) for phase, entries in lists.items() if entries}
            self._dependencies[key] = merged
        return merged

    def look_up(self, frame: ResolvedStep) -> tuple[CacheEntry | None, str]:
        """Return the entry that answers ``frame``, or ``None``; in words why, either way."""
        if frame.request.new or frame.request.renew:
            return None, "a new entry was asked for"
        why = "no entry was made by a call like this"
        if frame.request.name:
            from cmbench.plan.names import registered

            named = registered(frame, self.store, self.unsound)
            if named is None:
                why = f"nothing is registered as {frame.request.name}"
            elif not (why := self._missing_secret(named, frame)):
                return self._answered(named, frame), f"registered as {frame.request.name}"
        if frame.request.extra_cache_tags:
            from cmbench.plan.names import selected

            if (tagged := selected(frame, self.store, self._mismatch)) is not None:
                return self._answered(tagged, frame), "it has the requested tags"
        entry, reason = self._made_alike(frame)
        return entry, reason or why

    def _made_alike(self, frame: ResolvedStep) -> tuple[CacheEntry | None, str]:
        """Return the entry of an equal call, or of one that supplied what this one lacks."""
        why = ""
        unwanted = set(frame.request.tags.unwanted)
        for entry in self.store.candidates(frame.identity):
            if unwanted & set(entry.tags):
                why = f"the existing entry has an unwanted tag: {','.join(unwanted)}"
            elif not (why := self._mismatch(entry, frame)):
                return self._answered(entry, frame), "same script, variations and inputs"
        if frame.script.meta.get("registered_by"):
            from cmbench.plan.names import handed_in

            if (alike := handed_in(frame, self.store, self._mismatch)) is not None:
                return self._answered(alike, frame), "it was made of what a user handed in"
        return None, why

    def _answered(self, entry: CacheEntry, frame: ResolvedStep) -> CacheEntry:
        """``entry`` with its secrets; its dependencies had names that are not seen again."""
        self.see_names(entry)
        if frame.parent is None and not {"call:ad", "call:add_deps"}.isdisjoint(entry.reads):
            self.names.add(HANDED_ON["ad"])
        if not entry.secrets:
            return entry
        secrets = {key: frame.env.peek(key) for key in entry.secrets}
        return replace(entry, new_env={**entry.new_env, **secrets})

    def see_names(self, entry: CacheEntry) -> None:
        """Record the names of the dependencies of ``entry``, which a user may address."""
        keys = [key.removeprefix("adr:") for key in entry.reads if key.startswith("adr:")]
        self.names.update(key.removeprefix(USER) or HANDED_ON["adr"] for key in keys)

    def _mismatch(
        self, entry: CacheEntry, frame: ResolvedStep, keys: Collection[str] | None = None
    ) -> str:
        """Return why ``entry`` does not answer ``frame``; an empty string when it does.

        With ``keys`` only these of all that it has read count.
        """
        # In an order of its own: steps that run at once may read in any.
        for key, then in sorted(recorded(entry, frame).items()):
            if keys is not None and key not in keys and not key.startswith(REQUEST):
                continue
            now = value_now(key, frame)
            if isinstance(now, Pending):
                return f"unknown until {now.producer} has run ({key})"
            if then != now and not self.store.is_same(then, now):
                from cmbench.plan.read_values import changed

                return changed(key, then, now)
        secret = self._missing_secret(entry, frame)
        return secret or _too_old(entry, frame.request.expires) or self.unsound(entry)

    def _missing_secret(self, entry: CacheEntry, frame: ResolvedStep) -> str:
        """Why an entry cannot give back all that it gave: a secret is had from the caller only."""
        for key, then in entry.secrets.items():
            if not self.store.is_same(then, fingerprint(key, frame.env.peek(key))):
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
        rows = self.index.rows()
        for made_by, digest in entry.scripts.items():
            path = self._script_here(entry, made_by)
            if path not in rows:
                return f"the script {os.path.basename(path)} is gone"
            if self.index.content(path).digest != digest:
                return f"the script {os.path.basename(path)} was edited"
        for made_by, used in entry.libraries.items():
            path = self._script_here(entry, made_by)
            for name, digest in used.items():
                if self.index.libraries.digest(path, name) != digest:
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
                uid = choose(self.index, parse_tags(tags), "", self.index.script(path)).uid
            uid = self._answering[path, tags] = uid or ""
        return uid

    def _script_here(self, entry: CacheEntry, path: str) -> str:
        """Return where a script is in this home, for an entry that was made in another one."""
        if path in self.index.rows() or (self.store.owns(entry) and not entry.imported):
            return path
        rows = self.index.by_uid(os.path.basename(path))
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

    def dependencies(self, frame: ResolvedStep, phase: str) -> Iterator[Dependency]:
        """Yield the entries of one phase, with the updates that reach them by name."""
        for entry in frame.deps.get(phase, ()):
            yield self.updated(frame, entry)

    def updated(self, frame: ResolvedStep, entry: Dependency) -> Dependency:
        """One dependency entry with the updates that reach it by name."""
        if not entry.names:
            return entry
        self.names.update(entry.names)
        sources: list[Mapping[str, Dependency]] = [block.ad for block in frame.blocks]
        sources += [frame.late_updates, frame.request.ad, frame.adr]
        updates = [source.get(name) for source in sources for name in entry.names]
        updates += [frame.adr.get(USER + name) for name in entry.names]
        for update in updates:
            if update and decide(update.conditions, frame.env)[0]:
                entry = merge_dependency(entry, update)
        return entry


def _too_old(entry: CacheEntry, expires: str) -> str:
    """Return why an entry is older than a request allows; empty when it is not.

    A text that is not a time is ignored: making an entry refuses it.
    """
    with suppress(ValueError):
        if is_over(expiration(expires, entry.created)):
            return f"it is older than {expires}"
    return ""


def _default_version(choice: ScriptSelection) -> str:
    """Return the default of the last variation that has one, else of the script."""
    script = choice.script
    chosen = [variation_of(script, name).settings for name in choice.variations]
    defaults = [block.default_version for block in (script.settings, *chosen)]
    return next((version for version in reversed(defaults) if version), "")


def _same_registration(one: EntrySummary, other: CacheEntry) -> bool:
    return (one.script_uid, one.name, one.variations, one.version) == (
        other.script_uid,
        other.name,
        other.variations,
        other.version,
    )


def _refuse_cycle(frame: ResolvedStep) -> None:
    """Refuse a chain that cannot end; a script may meet itself again with another env."""
    again = 0
    above = frame.parent
    while above is not None:
        same = above.script.path == frame.script.path and above.request.tags == frame.request.tags
        again += same
        if again == REPEATS or (same and frame.cacheable and above.identity == frame.identity):
            raise Error(
                "dependency-cycle",
                f"{frame.label} depends on itself",
                context=(" > ".join(frame.chain()),),
                hint="remove one of the dependencies in this chain",
            )
        above = above.parent


def _lay_block(env: TracedEnv, block: ScriptSettings, request: Request) -> dict[str, Any]:
    """Lay one block over ``env``; returns the keys that inputs have set."""
    for key, value in block.default_env.items():
        if key not in env:
            env.overlay(key, value)
    for key, value in block.env.items():
        grows = env.rules.lists_grow and isinstance(value, list)
        env.overlay(key, merge_value(env.get(key), value) if grows else value)
    mapped = {
        key: _input_text(request.inputs[name])
        for name, key in block.input_mapping.items()
        if name in request.inputs
    }
    for key, value in mapped.items():
        env.overlay(key, value)
    return mapped


def _lay_constants(env: TracedEnv, const: Mapping[str, Any], inherited: Mapping[str, Any]) -> None:
    """Lay constants over everything; those of the caller do not count as the step's settings."""
    for key, value in const.items():
        if inherited.get(key, MISSING) != value:
            env.overlay(key, value)
        elif env.peek(key, MISSING) != value:
            env.force(key, value)


def call_env(request: Request, version: VersionRange, dialect: Dialect) -> dict[str, Any]:
    """Env that comes with the call itself, before any meta."""
    prefix = dialect.prefix
    env: dict[str, Any] = dict(request.env)
    if request.path:
        env[prefix + "TMP_PATH"] = request.path
    for start, names in (("", dialect.inputs), ("TMP_", dialect.places)):
        for name in names:
            if name in request.inputs:
                env[prefix + start + name.upper()] = _input_text(request.inputs[name])
    if request.name:
        env[prefix + "NAME"] = request.name
    if request.extra_cache_tags:
        env[prefix + "EXTRA_CACHE_TAGS"] = ",".join(request.extra_cache_tags)
    if not version:
        return env
    from cmbench.lib import versions

    bounds = {
        "VERSION": version.exact,
        "VERSION_MIN": version.minimum,
        "VERSION_MAX": version.maximum,
        "VERSION_MAX_USABLE": version.usable,
        "TMP_PIP_VERSION_STRING": versions.pip_version_string(
            version.exact, version.minimum, version.maximum
        ),
    }
    env.update({prefix + key: value for key, value in bounds.items() if value})
    return env


def _input_text(value: Any) -> Any:
    if value is True:
        return "yes"
    if value is False:
        return "no"
    return value if isinstance(value, list) else str(value)


def _resolve_references(env: TracedEnv) -> None:
    for _ in range(4):
        changed = False
        for key in list(env.laid):
            old = env.peek(key)
            new = substitute(old, env)
            if new is not old and new != old:
                env.overlay(key, new)
                changed = True
        if not changed:
            return


def _lay_state(
    request: Request, blocks: tuple[ScriptSettings, ...], parent: ResolvedStep | None
) -> TracedEnv:
    state = TracedEnv(copy.deepcopy(parent.state.plain()) if parent and parent.state else {})
    for block in blocks:
        for key, value in block.state.items():
            state.overlay(key, copy.deepcopy(value))
    for key, value in request.state.items():
        state.overlay(key, copy.deepcopy(value))
    return state


def _lay_adr(request: Request, blocks: tuple[ScriptSettings, ...]) -> TracedEnv:
    """Updates for dependencies at any depth: the script's own win over those of its callers."""
    adr = TracedEnv(request.adr)
    for block in blocks:
        for name, update in block.adr.items():
            adr.note(name)
            before = adr.peek(name)
            adr.overlay(name, merge_dependency(before, update) if before else update)
    adr.running = True
    return adr
