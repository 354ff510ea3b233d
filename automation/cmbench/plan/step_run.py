"""A resolved step on its way, in a plan or a run: its values, and what is read of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from cmbench.format.dialect import Dialect
from cmbench.format.env import (
    MISSING,
    TracedEnv,
    as_json,
    fingerprint,
    fingerprints,
    is_pattern,
    select_keys,
    substitute,
    unresolved,
)
from cmbench.format.model import Dependency, Request, Script
from cmbench.values import field, mutable

if TYPE_CHECKING:
    from cmbench.cache.cache_entry import Reliance
    from cmbench.plan.resolved_step import ResolvedStep

HANDED_ON = {"adr": "--adr", "ad": "--ad"}
"""Among the names of dependencies: a hook has looked at the updates, which may reach others."""
ALL = "*"
"""The name that stands for all variables of the process."""
OF_THE_ENGINE = ("TMP_", "PROGRESS_FILE", "QUIET")
"""Starts of the keys (after the prefix) that the engine sets for a step and that stay there."""
REQUEST = "request:"
"""Starts the recorded names of fields of a request."""
MODES_OF_RESULTS = frozenset(["fake_deps", "dirty", "debug_script"])
"""Modes with which a step may make something else than without."""


@mutable(slots=True, eq=False, repr=False)
class DependencyTrace:
    """What an entry of a step depends on beyond its own reads.

    ``scripts`` and ``libraries`` are the content of every script that ran uncached below it and
    of the shared code that these use, ``facts`` what was read of this machine, ``entries`` those
    that were used, ``chosen`` which scripts answered the tags of dependencies, ``relies_on`` the
    files outside, as they were when they were first named, ``os_reads`` what was read of the
    process. ``doubts`` say why the result is not to be used again.
    """

    scripts: dict[str, str] = field(default_factory=dict)
    libraries: dict[str, dict[str, str]] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    entries: dict[str, None] = field(default_factory=dict)
    chosen: dict[str, dict[str, str]] = field(default_factory=dict)
    relies_on: dict[str, Reliance] = field(default_factory=dict)
    os_reads: set[str] = field(default_factory=set)
    doubts: dict[str, None] = field(default_factory=dict)

    def add(self, other: DependencyTrace) -> None:
        """Depend on what a step below depends on that has no entry of its own."""
        self.scripts.update(other.scripts)
        self.entries.update(other.entries)
        self.doubts.update(other.doubts)
        self.relies_on = {**other.relies_on, **self.relies_on}
        _add_each(self.libraries, other.libraries)
        _add_each(self.chosen, other.chosen)
        _add_each(self.facts, other.facts)

    def depend_on(self, other: DependencyTrace, entry: str) -> None:
        """Depend on a step that has run: on its ``entry``, or else on what it depends on."""
        if entry:
            self.entries[entry] = None
        else:
            self.add(other)

    def add_facts(self, reads: Mapping[str, Mapping[str, str]]) -> None:
        """Depend on facts of this machine, by the scripts that report them."""
        _add_each(self.facts, reads)


def _add_each(values: dict[str, dict[str, str]], more: Mapping[str, Mapping[str, str]]) -> None:
    for path, items in more.items():
        values.setdefault(path, {}).update(items)


NESTED_RUN, LOADED_CODE, IMPORTED_FILE = "cmbench.run", "cmbench.uses", "cmbench.import"
"""Events for who observes a hook: a run in it, what code used as it was loaded, the file of it."""
NO_CALL = TracedEnv()
"""The call of a step none of whose hooks has received it."""


@mutable(slots=True, eq=False, repr=False)
class HookState:
    """What the hooks of one step have in common.

    ``call`` is the call as they see it, once one of them has received it, ``shared`` their
    ``run_script_input``, ``late_updates`` what they have changed of dependencies to come. ``began``
    is when the first of them began, in nanoseconds since 1970.
    """

    call: TracedEnv = field(default_factory=lambda: NO_CALL)
    began: int = 0
    shared: dict[str, Any] = field(default_factory=dict)
    late_updates: dict[str, Dependency] = field(default_factory=dict)


@mutable(slots=True, eq=False, repr=False)
class StepRun:
    """A resolved step on its way, planned or real; lives as long as that takes.

    ``requests`` are those of the dependencies that it has taken. ``ended`` says that only the steps
    that come last, its ``post_deps``, are still to run; ``ignored`` that a failure of its native
    script was, by the user's wish: what it made answers no later call. ``is_kept`` says that what
    the step reads counts for an entry: its own, or that of a step above it.
    """

    step: ResolvedStep
    parent: StepRun | None
    env: TracedEnv
    state: TracedEnv
    adr: TracedEnv
    const: dict[str, Any]
    trace: DependencyTrace
    hooks: HookState = field(default_factory=HookState)
    requests: list[Request] = field(default_factory=list)
    cwd: str = ""
    ended: bool = False
    ignored: bool = False
    request: Request = field(init=False)
    script: Script = field(init=False)
    is_kept: bool = field(init=False)

    def __post_init__(self) -> None:
        # Both are read some thirty times in the life of a step.
        self.request = self.step.request
        self.script = self.step.script
        above = self.parent
        self.is_kept = self.step.cacheable or (above is not None and above.is_kept)

    @property
    def speaks(self) -> bool:
        """Whether the user reads what it prints: the requested step, and those it ends with."""
        return self.parent is None or (self.parent.parent is None and self.parent.ended)

    @property
    def speaks_natively(self) -> bool:
        """Whether the user reads what its native script prints: not that of a build."""
        return self.speaks and not self.step.cacheable

    def chain(self) -> tuple[str, ...]:
        """Labels from the root request down to this step."""
        labels: list[str] = []
        above: StepRun | None = self
        while above is not None:
            labels.append(above.step.label)
            above = above.parent
        return tuple(reversed(labels))

    def note(self, keys: Iterable[str]) -> None:
        """Record reads by their recorded names: ``KEY``, ``state:KEY``, ``adr:NAME``, ``os:NAME``.

        ``all:`` is the whole env, ``adr:`` all updates of dependencies,
        ``os:*`` the whole environment of the process.
        """
        keys = [*keys]
        self.env.note_each([key for key in keys if ":" not in key])
        for key in keys:
            space, _, name = key.partition(":")
            if space == "state":
                self.state.note(name)
            elif space == "adr":
                self.adr.note(name) if name else self.adr.note_all()
            elif space == "os":
                self.trace.os_reads.add(name)
            elif space == "all":
                self.env.note_all()

    def reads(self) -> dict[str, str]:
        """Return everything read from outside this step, as an entry stores it."""
        values = dict(self.env.reads)
        values.update({f"state:{key}": value for key, value in self.state.reads.items()})
        values.update({f"adr:{key}": value for key, value in self.adr.reads.items()})
        values.update({f"call:{key}": value for key, value in self.hooks.call.reads.items()})
        if self.hooks.call.whole:
            from cmbench.plan.hook_call import call_value

            values["call:"] = call_value("", self.request)
        if self.adr.whole:
            values["adr:"] = self.names_of_updates()
        for name in self.trace.os_reads:
            values[f"os:{name}"] = process_value(name)
        if self.env.whole:
            values["all:"] = self.names()
        for pattern in self.given_back():
            if is_pattern(pattern) or self._untouched(pattern):
                values[f"laid:{pattern}"] = self.laid(pattern)
        own = self._of_the_engine()
        written = [key for key in self.env.written if not key.startswith(own)]
        values.update(fingerprints("const", written, self.const))
        values.update(changes_of(self.request))
        modes = self.request.modes & MODES_OF_RESULTS
        if modes:
            values[f"{REQUEST}modes"] = _modes_value(modes)
        return values

    def updates_read(self) -> dict[str, str]:
        """The changes of dependencies that count as read, in full, by their recorded names."""
        updates = {f"{REQUEST}ad.{name}": as_json(v) for name, v in self.request.ad.items()}
        for name in self.adr.reads:
            if (update := self.adr.peek(name)) is not None:
                updates[f"adr:{name}"] = as_json(update)
        return updates

    def names(self) -> str:
        """Return which keys the step saw when it began, for one that looks at all of them."""
        own = self._of_the_engine()
        seen = [key for key in self.env.names if "_TMP_" not in key and not key.startswith(own)]
        return fingerprint("", " ".join(sorted(seen)))

    def names_of_updates(self) -> str:
        """Which updates of dependencies reach the step, for one that looks at all of them."""
        return fingerprint("", " ".join(sorted(dict.keys(self.adr))))

    def _of_the_engine(self) -> tuple[str, ...]:
        prefix = self.script.dialect.prefix
        return tuple([prefix + name for name in OF_THE_ENGINE])

    def _untouched(self, key: str) -> bool:
        """Whether ``key`` is as when the step began: given back only if a setting laid it."""
        env = self.env
        return env.peek(key) is not None and key not in env.written and key not in env.facts

    def laid(self, pattern: str) -> str:
        """Return which keys that match ``pattern`` the settings and the call have set."""
        return " ".join(sorted(select_keys(self.env.laid, (pattern,))))

    def outer_reads(self) -> list[str]:
        """Return names of what was read from the caller, for the caller to record in turn."""
        return [
            *self.env.outer,
            *(f"state:{key}" for key in self.state.outer),
            *(f"adr:{key}" for key in self.adr.outer),
            *(f"os:{name}" for name in self.trace.os_reads),
            *(["adr:"] if self.adr.whole else []),
            *(["all:"] if self.env.whole else []),
        ]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of one list setting (``new_env_keys`` …) over script and variations."""
        items = chain.from_iterable([getattr(block, name) for block in self.step.blocks])
        return tuple([str(substitute(item, self.env)) for item in dict.fromkeys(items)])

    def given_back(self) -> tuple[str, ...]:
        """Return the env keys that the step exports, as written.

        With the first engines those that a call forces replace the script's own.
        """
        forced = self.request.force_new_env_keys
        if forced and not self.script.dialect.inputs_bind:
            return forced
        return (*self.texts("new_env_keys"), *forced)

    def labels(self) -> tuple[str, ...]:
        """Return the tags that an entry of this step carries."""
        request = self.request
        extra = [t for t in request.extra_cache_tags if t]
        for key, prefix in self.script.extra_cache_tags_from_env:
            value = self.env.get(key, "")
            extra += [f"deps-{prefix}{part}" for part in str(value).split(",") if part]
        if request.name:
            extra.append("name-" + request.name)
        variations = ["_" + v for v in self.step.choice.variations]
        return tuple(dict.fromkeys([*self.script.tags, *variations, *extra]))


def look_at(step: ResolvedStep, parent: StepRun | None) -> StepRun:
    """Return a run of ``step`` that only looks at the values with which it begins."""
    return _run(step, parent, step.env, step.state, step.adr)


def begin(step: ResolvedStep, parent: StepRun | None) -> StepRun:
    """Return a run of ``step`` with values of its own."""
    return _run(step, parent, *map(_copy, (step.env, step.state, step.adr)))


def _copy(values: TracedEnv) -> TracedEnv:
    # Many are made, and ``copy_to`` sets all that a new one would have.
    copy = TracedEnv.__new__(TracedEnv)
    values.copy_to(copy)
    return copy


def _run(
    step: ResolvedStep,
    parent: StepRun | None,
    env: TracedEnv,
    state: TracedEnv,
    adr: TracedEnv,
) -> StepRun:
    path = step.script.path
    libraries = {path: dict(step.libraries)} if step.libraries else {}
    trace = DependencyTrace(scripts={path: step.content}, libraries=libraries)
    return StepRun(step, parent, env, state, adr, dict(step.const), trace)


def changes_of(request: Request) -> dict[str, str]:
    """Return fingerprints of what a request changes besides env, state and what its identity holds.

    That is how it changes its own dependencies (``ad.NAME``) and which keys it wants given back.
    An entry answers only a request that has the same of these: one that was made without knows
    nothing of them.
    """
    fingerprints_by_name = {
        f"{REQUEST}ad.{name}": fingerprint(name, v) for name, v in request.ad.items()
    }
    if request.force_new_env_keys:
        keys = ",".join(sorted({*request.force_new_env_keys}))
        fingerprints_by_name[f"{REQUEST}force_new_env_keys"] = fingerprint("", keys)
    return fingerprints_by_name


def request_value(name: str, request: Request) -> str:
    """Return the fingerprint of the field ``name`` of a request, as ``StepRun.reads`` has it."""
    if name == "modes":
        return _modes_value(request.modes & MODES_OF_RESULTS)
    return changes_of(request).get(REQUEST + name, MISSING)


def _modes_value(modes: Iterable[str]) -> str:
    return ",".join(sorted(modes)) or MISSING


def process_value(name: str) -> str:
    """Return the fingerprint of a variable of this process, of all, or of what lies outside.

    That is a program or file (``PATH/NAME``) or a fact of this machine (``HOST/NAME``).
    """
    if name == ALL:
        from cmbench.format.environment_reads import process_variables

        return fingerprint("", repr(sorted(process_variables().items())).ljust(201))
    if "/" in name:
        from cmbench.format.outside import outside_now

        return outside_now(name)
    return fingerprint(name, os.environ.get(name, MISSING))


def visible_env(parent: StepRun, request: Request) -> dict[str, Any]:
    """Return what a dependency sees of its caller's env."""
    dialect = parent.script.dialect
    hidden, notes, starts = _hidden(dialect)
    exact = {*hidden, *request.env, *(notes - parent.env.written - parent.env.laid)}
    local = [key for block in parent.step.blocks for key in block.local_env_keys]
    if local:
        exact.update(select_keys(dict.keys(parent.env), local))
    # Most values are plain texts: the others are sorted out of a copy, which is cheap.
    visible = parent.env.plain()
    for key in exact.intersection(visible):
        del visible[key]
    for key in [key for key in visible if key.startswith(starts)]:
        del visible[key]
    _tidy(visible)
    return visible


def visible_const(parent: StepRun) -> dict[str, Any]:
    """Return what a dependency sees of its caller's constants, such as the values of inputs."""
    local = [key for block in parent.step.blocks for key in block.local_env_keys]
    hidden = {*select_keys(parent.const, local)} if local else ()
    return {key: value for key, value in parent.const.items() if key not in hidden}


def _tidy(visible: dict[str, Any]) -> None:
    """Remove unresolved values, and copy lists."""
    odd = [(k, v) for k, v in visible.items() if type(v) is not str or "<<<" in v]
    for key, value in odd:
        if unresolved(value):
            del visible[key]
        elif isinstance(value, list):
            visible[key] = list(value)


@lru_cache(maxsize=16)
def _hidden(dialect: Dialect) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
    """Keys that no dependency sees, notes for the dependencies of one step, starts of keys."""
    names = (dialect.hidden, dialect.notes, dialect.hidden_starts)
    hidden, notes, starts = (tuple(dialect.prefix + n for n in group) for group in names)
    return frozenset(hidden), frozenset(notes), starts
