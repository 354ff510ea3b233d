"""A request to a plan: the whole tree of steps, resolved without running anything.

Values that only a run can compute are pending, and name the step that will compute them; a
dependency on one is shown with its question. What the cache already answers is shown as cached.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from cmbench.cache.cache_entry import CacheEntry
from cmbench.errors import Error
from cmbench.format.env import MISSING, Pending, TracedEnv, decide, merge_value, select_keys
from cmbench.format.model import PHASES, Dependency, Request, Tags
from cmbench.format.sources import Programs
from cmbench.index.select import candidates
from cmbench.lib.secrecy import mask
from cmbench.plan.dependency_request import request_of
from cmbench.plan.planned_step import Plan, PlannedStep, walk
from cmbench.plan.resolve import PlanContext
from cmbench.plan.step_run import StepRun, changes_of, look_at
from cmbench.values import replace

TAGS_FROM = "tags from "
"""How the question of a step begins that is open for its tags and not for a condition."""


class PlanEnv(TracedEnv):
    """An env in which a missing key may be pending: some earlier step is going to set it.

    ``open`` says whether any value is, or may become, another one in the run.
    """

    __slots__ = ("_promises", "open")

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values)
        self._promises: dict[str, Pending] = {}
        self.open = False

    def below(self, values: Mapping[str, Any]) -> TracedEnv:
        """Return the env of a dependency, which is final as long as nothing is open."""
        if not self.open:
            return TracedEnv(values)
        env = PlanEnv(values)
        env._promises, env.open = dict(self._promises), True
        return env

    def promise(self, patterns: Iterable[str], producer: str) -> None:
        """Say that ``producer`` will set the keys that match ``patterns``."""
        for pattern in patterns:
            self._promises[pattern] = Pending(producer)
            self.open = True

    def doubt(self, key: str, producer: str) -> None:
        """Say that ``producer`` may set ``key``, which is empty or not set yet."""
        dict.__setitem__(self, key, Pending(producer))
        self.open = True

    def merge(self, new: Mapping[str, Any]) -> None:
        """Merge what a step exports into the values, as a run does."""
        for key, value in new.items():
            self[key] = merge_value(self.peek(key), value)
            self.open = self.open or isinstance(value, Pending)

    def promised(self, key: str) -> Pending | None:
        """Return the promise that covers ``key``, if any."""
        hits = (p for p in self._promises if select_keys((key,), (p,)))
        return next((self._promises[pattern] for pattern in hits), None)

    def peek(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or what an earlier step promises for it; unnoticed."""
        value = dict.get(self, key, MISSING)
        if value is not MISSING:
            return value
        return self.promised(key) or default

    def get(self, key: str, default: Any = None) -> Any:
        """Return the same, noted as read."""
        self.note(key)
        return self.peek(key, default)


class Watcher(Protocol):
    """Who wants to see a plan while it is made, such as an explanation."""

    def resolved(self, step_run: StepRun, entry: Dependency | None) -> None:
        """Settings are laid, nothing else has happened; ``entry`` is the caller's entry."""

    def planned(self, planned_step: PlannedStep) -> None:
        """The step and all below it are planned."""


class Planner:
    """Walks a request's tree with a resolver whose env class is ``PlanEnv``.

    A step some of whose tags only a run can compute is planned with the others, where these match
    one script only; with ``guess`` false it stays open.
    """

    def __init__(
        self,
        context: PlanContext,
        watcher: Watcher | None = None,
        guess: bool = True,
    ) -> None:
        self._resolver = context.resolver
        self._lookup = context.lookup
        self._facts = context.facts
        self._guess = guess
        self._watcher = watcher
        self._made: dict[str, list[Request]] = {}

    def plan(self, request: Request) -> Plan:
        """Return the plan for ``request``; raises ``Error`` for whatever cannot be resolved."""
        started = time.perf_counter()
        with _no_collection():
            root = self._step(request, None, "", "")
        planned_steps = list(walk(root))
        return Plan(
            root=root,
            steps=len(planned_steps),
            hits=sum(planned_step.cached == "hit" for planned_step in planned_steps),
            seconds=time.perf_counter() - started,
        )

    def _step(
        self,
        request: Request,
        parent: StepRun | None,
        phase: str,
        when: str,
        entry: Dependency | None = None,
    ) -> PlannedStep:
        step_run = look_at(self._resolver.resolve(request, parent), parent)
        try:
            if self._watcher is not None:
                self._watcher.resolved(step_run, entry)
            planned_step = self._planned(step_run, entry, phase, when)
        except Error as error:
            from cmbench.plan.typed_options import add_step

            add_step(error, step_run)
            raise
        if self._watcher is not None:
            self._watcher.planned(planned_step)
        return planned_step

    def _planned(
        self, step_run: StepRun, caller_entry: Dependency | None, phase: str, when: str
    ) -> PlannedStep:
        cached, why, entry = self._state(step_run)
        goes_on = cached not in ("fact", "above") and _is_looked_into(step_run, cached)
        # Planning goes on with a copy of the values: the run begins with those of the step.
        view = _view(step_run) if goes_on else step_run
        below = self._below(view, dynamic_only=cached == "hit") if goes_on else {}
        gives = self._export_to_caller(view, cached, entry, when)
        fetches = () if cached in ("hit", "above") else view.texts("fetches")
        return PlannedStep(
            step_run=view,
            entry_of=caller_entry,
            tags=str(step_run.request.tags) or step_run.script.alias,
            phase=phase,
            when=when,
            cached=cached,
            why=why,
            version=(entry.version if entry else "") or _version_text(step_run),
            fetches=tuple([mask(re.sub(r"<<<(\w+)>>>", r"\1", text)) for text in fetches]),
            cached_entry=entry,
            below=below,
            gives=gives,
        )

    def _state(self, step_run: StepRun) -> tuple[str, str, CacheEntry | None]:
        """Return how a step is ``cached``, why, and the entry that answers."""
        if step_run.script.host_facts:
            return "fact", "read from this machine, at every run", None
        if not step_run.step.cacheable:
            return "no", "runs every time", None
        entry, why = self._lookup.look_up(step_run)
        if entry is not None:
            return "hit", why, entry
        if self._made_above(step_run):
            return "above", "made by an earlier step of this plan", None
        return "maybe" if why.startswith("unknown until") else "miss", why, None

    def _made_above(self, step_run: StepRun) -> bool:
        """Whether an earlier step makes this entry too; from now on, this one counts as such."""
        earlier = self._made.setdefault(step_run.step.identity, [])
        if any(self._asks_the_same(step_run, request) for request in earlier):
            return True
        earlier.append(step_run.request)
        return False

    def _asks_the_same(self, step_run: StepRun, request: Request) -> bool:
        """Return whether ``request`` equals that of ``step_run``, as far as its script reads it."""
        if changes_of(request) != changes_of(step_run.request):
            return False
        own, other = step_run.request.env, request.env
        keys = [key for key in {**own, **other} if own.get(key) != other.get(key)]
        text = f"{self._programs(step_run).hooks}{step_run.script.meta}" if keys else ""
        return not any(key in text for key in keys)

    def _below(
        self, step_run: StepRun, dynamic_only: bool
    ) -> dict[str, tuple[PlannedStep | None, ...]]:
        """Return the steps of the dependency entries by phase, ``None`` where one is not active."""
        planned_steps: dict[str, tuple[PlannedStep | None, ...]] = {}
        for phase in PHASES:
            if phase != "deps":
                self._promise_own_keys(step_run, phase)
            if phase in step_run.step.deps:
                planned_steps[phase] = tuple(
                    self._child(step_run, entry, phase)
                    if entry.dynamic or not dynamic_only
                    else None
                    for entry in self._resolver.dependencies(step_run, phase)
                )
        return planned_steps

    def below(self, step_run: StepRun, entry: Dependency, phase: str) -> PlannedStep | None:
        """Return the plan of one dependency of ``step_run``, its updates by name included."""
        return self._child(step_run, self._resolver.updated(step_run, entry), phase)

    def _child(self, step_run: StepRun, entry: Dependency, phase: str) -> PlannedStep | None:
        answer, reason = decide(entry.conditions, step_run.env)
        if answer is False:
            return None
        when = reason if answer is None else ""
        request = request_of(step_run, entry)
        if isinstance(request, Pending):
            question = TAGS_FROM + request.producer
            partial_request = self._partial_request(step_run, entry) if self._guess else None
            if partial_request is None:
                return self._open(entry, phase, question, "the step to run is not known yet")
            when, request = when or question, partial_request
        if when and request.tags in _tags_above(step_run):
            why = "it refers back to a step above, which a run may execute again"
            return self._open(entry, phase, when, why)
        try:
            return self._step(request, step_run, phase, when, entry)
        except Error as error:
            if not when:
                raise
            return self._open(entry, phase, when, f"if so: {error.message}")

    def _partial_request(self, step_run: StepRun, entry: Dependency) -> Request | None:
        """The request without the tags that are not known yet, if it can mean one script only."""
        request = request_of(step_run, entry, known_only=True)
        if isinstance(request, Pending):
            return None
        try:
            scripts = candidates(self._resolver.index, request.tags, caller=step_run.script)
        except Error:
            return None
        return request if len(scripts) == 1 else None

    def _open(self, entry: Dependency, phase: str, when: str, why: str) -> PlannedStep:
        planned_step = PlannedStep(None, entry, entry.tags, phase, when, "maybe", why)
        if self._watcher is not None:
            self._watcher.planned(planned_step)
        return planned_step

    def _promise_own_keys(self, step_run: StepRun, phase: str) -> None:
        """Mark keys as pending that this step's own code may set before ``phase`` reads them."""
        programs = self._programs(step_run)
        source = programs.hooks
        if not source or not isinstance(step_run.env, PlanEnv):
            return
        if phase != "prehook_deps":
            step_run.env.promise(step_run.texts("new_env_keys"), step_run.script.alias)
        entries = step_run.step.deps.get(phase, ())
        for key in (key for e in entries for c in e.conditions for key in c.keys):
            if key in source and step_run.env.peek(key, MISSING) is MISSING:
                step_run.env.promise((key,), step_run.script.alias)
        for key in (key for entry in entries for key in _tag_keys(entry)):
            if step_run.env.peek(key, "") == "" and programs.hooks_set(key):
                step_run.env.doubt(key, step_run.script.alias)

    def _programs(self, step_run: StepRun) -> Programs:
        return self._resolver.index.contents.programs(step_run.script.path)

    def _learn_facts(self, path: str, env: PlanEnv) -> Mapping[str, Any]:
        """Set in ``env`` the facts of this machine that a script has read; return them."""
        new = self._facts(path).new_env
        for key, value in new.items():
            env.learn(key, value, path)
        return new

    def _export_to_caller(
        self, step_run: StepRun, cached: str, entry: CacheEntry | None, when: str
    ) -> Mapping[str, Any] | None:
        """Set in the caller's env what the step exports; return that where all of it is known."""
        env = step_run.parent.env if step_run.parent else None
        if not isinstance(env, PlanEnv):
            return None
        if cached == "fact":
            return self._learn_facts(step_run.script.path, env)
        new = entry.new_env if entry else _known_exports(step_run)
        env.merge(dict.fromkeys(new, Pending(step_run.script.alias)) if when else new)
        if entry is None and self._programs(step_run).hooks:
            rest = [pattern for pattern in step_run.texts("new_env_keys") if pattern not in new]
            env.promise(rest, step_run.script.alias)
            return None
        return None if when else new


@contextmanager
def _no_collection() -> Iterator[None]:
    """A plan keeps all that it makes: looking for garbage again and again would find none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _is_looked_into(step_run: StepRun, cached: str) -> bool:
    """Return whether a plan needs more of a step than its settings."""
    return bool(step_run.step.deps) or (
        cached != "hit" and any(block.fetches for block in step_run.step.blocks)
    )


def _view(step_run: StepRun) -> StepRun:
    """Return the step for a plan to go on with, of which the step itself notices nothing."""
    if isinstance(step_run.env, PlanEnv):
        return step_run
    env, adr = PlanEnv(), TracedEnv()
    step_run.env.copy_to(env)
    step_run.adr.copy_to(adr)
    return replace(step_run, env=env, adr=adr)


def _known_exports(step_run: StepRun) -> dict[str, Any]:
    """Return what a step that has not run gives back for certain: what its settings say."""
    env = step_run.env
    return {
        key: dict.__getitem__(env, key)
        for key in select_keys(dict.keys(env), step_run.texts("new_env_keys"))
        if key in env.written or key in env.laid
    }


def _tag_keys(entry: Dependency) -> Iterator[str]:
    """Yield the keys whose values become tags of a dependency, or decide about them."""
    yield from entry.tags_from_env
    for _, keys in entry.tags_from_env_with_prefix:
        yield from keys
    for _, rules in entry.tags_if_env:
        yield from (key for condition in rules for key in condition.keys)


def _tags_above(step_run: StepRun) -> list[Tags]:
    own = [step_run.request.tags]
    return own + _tags_above(step_run.parent) if step_run.parent else own


def _version_text(step_run: StepRun) -> str:
    version = step_run.step.version
    if version.exact:
        return version.exact
    bounds = [f">={version.minimum}" if version.minimum else ""]
    bounds.append(f"<={version.maximum}" if version.maximum else "")
    return ",".join(b for b in bounds if b)
