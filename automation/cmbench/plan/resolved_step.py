"""One step, resolved and on its way, and the tree of steps that a plan is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from cmbench.cache.cache_entry import CacheEntry, Reliance
from cmbench.cache.store import make_identity
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
from cmbench.format.model import Dependency, Request, Script, ScriptSettings, VersionRange
from cmbench.index.select import ScriptSelection
from cmbench.values import field, immutable, mutable

HANDED_ON = {"adr": "--adr", "ad": "--ad"}
"""Among the names of dependencies: a hook has looked at the updates, which may reach others."""
ALL = "*"
"""The name that stands for all variables of the process."""
if TYPE_CHECKING:
    from cmbench.plan.needs import StepNeeds

OF_THE_ENGINE = ("TMP_", "PROGRESS_FILE", "QUIET")
"""Starts of the keys (after the prefix) that the engine sets for each step and that stay there."""
REQUEST = "request:"
"""Starts the recorded names of fields of a request."""
MODES_OF_RESULTS = frozenset(["fake_deps", "dirty", "debug_script"])
"""Modes with which a step may make something else than without."""


@mutable(slots=True, eq=False, repr=False)
class ResolvedStep:
    """A request resolved against one script; lives as long as the step does.

    ``label`` names it in messages: the alias of its script, and the requested variations.
    ``scripts``, ``facts`` and ``entries`` collect what a cache entry of this step depends on
    beyond its own reads: the content of every script that ran uncached below it, facts of the
    machine that were read, and the entries that were used; ``relies_on`` the files outside, as they
    were when they were first named; ``doubts`` why its result is not to be used again;
    ``chosen`` which scripts answered the tags of its dependencies. ``shared``
    is the ``run_script_input`` that all hooks of one step share, ``requests`` the requests of those
    dependencies that it has taken. ``ended`` says that only the steps that come last, its
    ``post_deps``, are still to run; ``ignored`` that a failure of its native script was, by the
    user's wish: what it made answers no later call. ``call`` is the call as hooks see it, once one
    of them has received it. ``watched`` holds the notes of the watcher of a plan, such as an
    explanation; ``course`` is its node in the plan while the run goes as planned.
    """

    request: Request
    choice: ScriptSelection
    blocks: tuple[ScriptSettings, ...]
    version: VersionRange
    env: TracedEnv
    state: TracedEnv
    adr: TracedEnv
    const: Mapping[str, Any]
    deps: Mapping[str, tuple[Dependency, ...]]
    parent: ResolvedStep | None
    scripts: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    entries: dict[str, None] = field(default_factory=dict)
    relies_on: dict[str, Reliance] = field(default_factory=dict)
    doubts: dict[str, None] = field(default_factory=dict)
    chosen: dict[str, dict[str, str]] = field(default_factory=dict)
    libraries: dict[str, dict[str, str]] = field(default_factory=dict)
    os_reads: set[str] = field(default_factory=set)
    call: TracedEnv = field(default_factory=TracedEnv)
    late_updates: dict[str, Dependency] = field(default_factory=dict)
    cwd: str = ""
    ended: bool = False
    ignored: bool = False
    shared: dict[str, Any] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    watched: Any = None
    course: PlannedStep | None = None
    script: Script = field(init=False)
    label: str = field(init=False)
    _identity: str = ""

    def __post_init__(self) -> None:
        # Both are read some thirty times in the life of a step.
        self.script = self.choice.script
        variations = [f"_{v}" for v in self.request.tags.variations]
        self.label = ",".join([self.script.alias, *variations])

    @property
    def speaks(self) -> bool:
        """Whether the user reads what it prints: the requested step, and those it ends with."""
        return self.parent is None or (self.parent.parent is None and self.parent.ended)

    @property
    def speaks_natively(self) -> bool:
        """Whether the user reads what its native script prints: not that of a build."""
        return self.speaks and not self.cacheable

    @property
    def cacheable(self) -> bool:
        """Whether the result is cached: by the script, or because the request requires it."""
        request = self.request
        is_cached = self.script.cache or (self.script.can_force_cache and request.force_cache)
        return is_cached and not request.skip_cache and not self.is_fake

    @property
    def is_kept(self) -> bool:
        """Whether what the step reads counts for an entry: its own, or that of a step above it."""
        frame: ResolvedStep | None = self
        while frame is not None and not frame.cacheable:
            frame = frame.parent
        return frame is not None

    @property
    def is_fake(self) -> bool:
        """Whether only what it depends on runs."""
        return "fake_run" in self.request.modes

    @property
    def expires(self) -> str:
        """How long an entry of this step is good, as written (``5d``); empty for ever."""
        return self.request.expires or self.last("expires")

    @property
    def identity(self) -> str:
        """The key of what this step is; what it reads is checked entry by entry."""
        if not self._identity:
            version = self.version
            used = self.libraries.get(self.script.path, {})
            self._identity = make_identity(
                self.script.uid or self.script.path,
                self.scripts[self.script.path],
                self.choice.variations,
                (version.exact, version.minimum, version.maximum, version.usable),
                self.request.name,
                self.request.extra_cache_tags,
                *([used] if used else []),
            )
        return self._identity

    def chain(self) -> tuple[str, ...]:
        """Labels from the root request down to this step."""
        above = self.parent.chain() if self.parent else ()
        return (*above, self.label)

    def foreseen(self, phase: str, number: int) -> PlannedStep | None:
        """Return the node of one of its dependencies, as far as the plan still holds."""
        nodes = self.course.below.get(phase) if self.course else None
        return nodes[number] if nodes else None

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
                self.os_reads.add(name)
            elif space == "all":
                self.env.note_all()

    def reads(self) -> dict[str, str]:
        """Return everything read from outside this step, as an entry stores it."""
        values = dict(self.env.reads)
        values.update({f"state:{key}": value for key, value in self.state.reads.items()})
        values.update({f"adr:{key}": value for key, value in self.adr.reads.items()})
        values.update({f"call:{key}": value for key, value in self.call.reads.items()})
        if self.call.whole:
            from cmbench.plan.hook_call import call_value

            values["call:"] = call_value("", self.request)
        if self.adr.whole:
            values["adr:"] = self.names_of_updates()
        for name in self.os_reads:
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
            *(f"os:{name}" for name in self.os_reads),
            *(["adr:"] if self.adr.whole else []),
            *(["all:"] if self.env.whole else []),
        ]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of one list setting (``new_env_keys`` …) over script and variations."""
        items = chain.from_iterable([getattr(block, name) for block in self.blocks])
        return tuple([str(substitute(item, self.env)) for item in dict.fromkeys(items)])

    def uses(self) -> tuple[str, ...]:
        """Return the shared code that the script and its active variations name, as written."""
        return tuple(dict.fromkeys([name for block in self.blocks for name in block.uses]))

    def given_back(self) -> tuple[str, ...]:
        """Return the env keys that the step exports, as written.

        With the first engines those that a call forces replace the script's own.
        """
        forced = self.request.force_new_env_keys
        if forced and not self.script.dialect.inputs_bind:
            return forced
        return (*self.texts("new_env_keys"), *forced)

    def last(self, name: str) -> str:
        """Return the last non-empty value of one text setting."""
        return next((v for b in reversed(self.blocks) if (v := getattr(b, name))), "")

    def labels(self) -> tuple[str, ...]:
        """Return the tags that an entry of this step carries."""
        request = self.request
        extra = [t for t in request.extra_cache_tags if t]
        for key, prefix in self.script.extra_cache_tags_from_env:
            value = self.env.get(key, "")
            extra += [f"deps-{prefix}{part}" for part in str(value).split(",") if part]
        if request.name:
            extra.append("name-" + request.name)
        variations = ["_" + v for v in self.choice.variations]
        return tuple(dict.fromkeys([*self.script.tags, *variations, *extra]))


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
    """Return the fingerprint of the field ``name`` of a request, as ``Frame.reads`` records it."""
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
        from cmbench.format.called_programs import outside_now

        return outside_now(name)
    return fingerprint(name, os.environ.get(name, MISSING))


def visible_env(parent: ResolvedStep, request: Request) -> dict[str, Any]:
    """Return what a dependency sees of its caller's env."""
    dialect = parent.script.dialect
    hidden, notes, starts = _hidden(dialect)
    exact = {*hidden, *request.env, *(notes - parent.env.written - parent.env.laid)}
    local = [key for block in parent.blocks for key in block.local_env_keys]
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


def visible_const(parent: ResolvedStep) -> dict[str, Any]:
    """Return what a dependency sees of its caller's constants, such as the values of inputs."""
    local = [key for block in parent.blocks for key in block.local_env_keys]
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


@immutable(frozen=True, slots=True, eq=False, repr=False)
class NodeDetail:
    """Details that an explanation adds to a node: its requester, what its cache entries lack."""

    requested_by: str
    variations: Mapping[str, str]
    version_from: str
    misses: tuple[str, ...]
    needs: StepNeeds


@mutable(slots=True, eq=False, repr=False)
class PlannedStep:
    """One step of a plan, and of the run that resumes from it.

    ``frame`` is the step resolved, ``None`` where only a run can tell which one it is; ``entry_of``
    is the dependency entry that requests it, ``None`` for the request itself. ``when`` is empty
    for a sure step, else the condition that only a run can decide. ``cached`` is ``hit``,
    ``miss``, ``no`` (never cached), ``fact``, ``above`` (made by an earlier step of the same
    plan) or ``maybe``; ``why`` explains it. ``cached_entry`` is that of a hit. ``detail`` is
    set when an explanation is requested.

    ``children`` are the steps below it, in the order of the run; ``below`` has the nodes of the
    entries of all dependency lists, ``None`` where one is not active. So that the run need not
    resolve the step again, ``start`` is the step as the run begins with it, and ``gives`` the env
    that it exports, as far as these are certain.
    """

    frame: ResolvedStep | None
    entry_of: Dependency | None
    tags: str
    phase: str
    when: str
    cached: str
    why: str
    script: str = ""
    variations: tuple[str, ...] = ()
    version: str = ""
    fetches: tuple[str, ...] = ()
    cached_entry: CacheEntry | None = None
    below: Mapping[str, tuple[PlannedStep | None, ...]] = field(default_factory=dict)
    start: ResolvedStep | None = None
    gives: Mapping[str, Any] | None = None
    children: tuple[PlannedStep, ...] = field(init=False)
    _detail: NodeDetail | None = None

    def __post_init__(self) -> None:
        nodes = [node for below in self.below.values() for node in below]
        self.children = tuple(node for node in nodes if node is not None)

    @property
    def entry(self) -> str:
        """The folder of the entry that answers, empty where none does."""
        return self.cached_entry.path if self.cached_entry else ""

    @property
    def detail(self) -> NodeDetail:
        """What an explanation has added."""
        assert self._detail is not None, "nobody has explained this plan"
        return self._detail

    @detail.setter
    def detail(self, detail: NodeDetail) -> None:
        self._detail = detail


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """What a request would do, found without running anything."""

    root: PlannedStep
    steps: int
    hits: int
    seconds: float

    @property
    def frame(self) -> ResolvedStep:
        """The request itself, resolved; it is never open."""
        assert self.root.frame is not None
        return self.root.frame


def walk(node: PlannedStep) -> Iterator[PlannedStep]:
    """``node`` and everything below it, in the order of the run."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def sure(node: PlannedStep) -> Iterator[PlannedStep]:
    """Of ``node`` and everything below it, the steps that will work whatever happens."""
    if node.when or node.cached not in ("no", "miss"):
        return
    yield node
    for child in node.children:
        yield from sure(child)
