"""A request to a plan: the whole tree of steps, found without running anything.

Values that only a run can tell are pending, and name the step that will tell them; a dependency
that hangs on one is shown with its question. What the cache already answers is shown as cached.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from cmbench.cache.cache_entry import Entry
from cmbench.errors import Error
from cmbench.format.env import MISSING, Pending, TracedEnv, decide, mask, merge_value, select_keys
from cmbench.format.model import PHASES, Dependency, Request, Tags
from cmbench.index.select import candidates
from cmbench.lib.text_files import read_or_empty
from cmbench.plan.node import Node, Plan, walk
from cmbench.plan.resolve import Facts, Resolver
from cmbench.plan.resolved_step import Frame

TAGS_FROM = "tags from "
"""How the question of a step begins that is open for its tags and not for a condition."""


class PlanEnv(TracedEnv):
    """An env in which a missing key may be pending: some earlier step is going to set it."""

    __slots__ = ("_promises",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values)
        self._promises: dict[str, Pending] = {}

    def inherit(self, caller: TracedEnv) -> None:
        """Take over the caller's promises."""
        if isinstance(caller, PlanEnv):
            self._promises = dict(caller._promises)

    def promise(self, patterns: Iterable[str], producer: str) -> None:
        """Say that ``producer`` will set the keys that match ``patterns``."""
        for pattern in patterns:
            self._promises[pattern] = Pending(producer)

    def doubt(self, key: str, producer: str) -> None:
        """Say that ``producer`` may set ``key``, which is empty or not set yet."""
        dict.__setitem__(self, key, Pending(producer))

    def promised(self, key: str) -> Pending | None:
        """The promise that covers ``key``, if any."""
        hits = (p for p in self._promises if select_keys((key,), (p,)))
        return next((self._promises[pattern] for pattern in hits), None)

    def peek(self, key: str, default: Any = None) -> Any:
        value = dict.get(self, key, MISSING)
        if value is not MISSING:
            return value
        return self.promised(key) or default

    def get(self, key: str, default: Any = None) -> Any:
        self.note(key)
        return self.peek(key, default)


class Watcher(Protocol):
    """Who wants to see a plan while it is made, such as an explanation."""

    def resolved(self, frame: Frame, asked: Dependency | None) -> None:
        """Settings are laid, nothing else has happened; ``asked`` is the caller's entry."""

    def planned(self, node: Node) -> None:
        """The step and all below it are planned."""


class Planner:
    """Walks a request's tree with a resolver whose env class is ``PlanEnv``.

    A step some of whose tags only a run can tell is planned with the others, where these can mean
    one script only; with ``guess`` false it stays open.
    """

    def __init__(
        self,
        resolver: Resolver,
        facts: Facts,
        watcher: Watcher | None = None,
        guess: bool = True,
    ) -> None:
        self._resolver = resolver
        self._guess = guess
        self._facts = facts
        self._watcher = watcher
        self._made: dict[str, list[Mapping[str, Any]]] = {}
        self._customize: dict[str, str] = {}

    def plan(self, request: Request) -> Plan:
        """The plan for ``request``; raises ``Error`` for whatever cannot be resolved."""
        started = time.perf_counter()
        root = self._step(request, None, "", "")
        nodes = list(walk(root))
        return Plan(
            root=root,
            steps=len(nodes),
            hits=sum(node.cached == "hit" for node in nodes),
            seconds=time.perf_counter() - started,
        )

    def _step(
        self,
        request: Request,
        parent: Frame | None,
        phase: str,
        when: str,
        asked: Dependency | None = None,
    ) -> Node:
        frame = self._resolver.resolve(request, parent)
        try:
            if self._watcher is not None:
                self._watcher.resolved(frame, asked)
            node = self._resolved_step(frame, asked, phase, when)
        except Error as error:
            error.within(frame.label)
            raise
        if self._watcher is not None:
            self._watcher.planned(node)
        return node

    def _resolved_step(self, frame: Frame, asked: Dependency | None, phase: str, when: str) -> Node:
        parent = frame.parent
        node = partial(_node, frame, asked, phase, when)
        if frame.script.host_facts:
            self._give_facts(frame, parent)
            return node("fact", "told by this machine, at every run")
        if not frame.cacheable:
            children = self._children(frame)
            self._give(frame, parent, when)
            return node("no", "runs every time", children=children)
        entry, why = self._resolver.look_up(frame)
        if entry is not None:
            children = self._children(frame, dynamic_only=True)
            if parent is not None:
                _merge(parent.env, _doubted(entry.new_env, when, frame))
            return node("hit", why, entry, children)
        if self._made_above(frame):
            self._give(frame, parent, when)
            return node("above", "made by an earlier step of this plan")
        children = self._children(frame)
        self._give(frame, parent, when)
        cached = "maybe" if why.startswith("unknown until") else "miss"
        return node(cached, why, children=children)

    def _made_above(self, frame: Frame) -> bool:
        """Whether an earlier step makes this entry too; from now on, this one counts as such."""
        earlier = self._made.setdefault(frame.identity, [])
        if any(self._asks_the_same(frame, env) for env in earlier):
            return True
        earlier.append(frame.request.env)
        return False

    def _asks_the_same(self, frame: Frame, other: Mapping[str, Any]) -> bool:
        """Whether ``other`` asks for what ``frame`` was asked for, as far as its script looks."""
        own = frame.request.env
        keys = [key for key in {**own, **other} if own.get(key) != other.get(key)]
        text = f"{self._own_code(frame)}{frame.script.meta}" if keys else ""
        return not any(key in text for key in keys)

    def _children(self, frame: Frame, dynamic_only: bool = False) -> tuple[Node, ...]:
        found: list[Node] = []
        for phase in PHASES:
            if phase != "deps":
                self._promise_own_keys(frame, phase)
            for entry in self._resolver.dependencies(frame, phase):
                if entry.dynamic or not dynamic_only:
                    found += self._child(frame, entry, phase)
        return tuple(found)

    def below(self, frame: Frame, entry: Dependency, phase: str) -> list[Node]:
        """The plan of one dependency of ``frame``, its updates by name included."""
        return self._child(frame, self._resolver.updated(frame, entry), phase)

    def _child(self, frame: Frame, entry: Dependency, phase: str) -> list[Node]:
        answer, reason = decide(entry.conditions, frame.env)
        if answer is False:
            return []
        when = reason if answer is None else ""
        request = self._resolver.child(frame, entry)
        if isinstance(request, Pending):
            question = TAGS_FROM + request.producer
            known = self._known_part(frame, entry) if self._guess else None
            if known is None:
                return [self._open(entry, phase, question, "the step to run is not known yet")]
            when, request = when or question, known
        if when and request.tags in _tags_above(frame):
            why = "it leads back to a step above, which a run may enter again"
            return [self._open(entry, phase, when, why)]
        try:
            return [self._step(request, frame, phase, when, entry)]
        except Error as error:
            if not when:
                raise
            return [self._open(entry, phase, when, f"if so: {error.message}")]

    def _known_part(self, frame: Frame, entry: Dependency) -> Request | None:
        """The request without the tags that are not known yet, if it can mean one script only."""
        request = self._resolver.child(frame, entry, known_only=True)
        if isinstance(request, Pending):
            return None
        try:
            found = candidates(self._resolver.index, request.tags, caller=frame.script)
        except Error:
            return None
        return request if len(found) == 1 else None

    def _open(self, entry: Dependency, phase: str, when: str, why: str) -> Node:
        node = Node(None, entry, entry.tags, phase, when, "maybe", why)
        if self._watcher is not None:
            self._watcher.planned(node)
        return node

    def _promise_own_keys(self, frame: Frame, phase: str) -> None:
        """Keys that this step's own code may set before ``phase`` and that the phase asks for."""
        source = self._own_code(frame)
        if not source or not isinstance(frame.env, PlanEnv):
            return
        if phase != "prehook_deps":
            frame.env.promise(frame.texts("new_env_keys"), frame.script.alias)
        for entry in frame.deps.get(phase, ()):
            for condition in entry.conditions:
                for key, _ in condition.rules:
                    if key in source and frame.env.peek(key, MISSING) is MISSING:
                        frame.env.promise((key,), frame.script.alias)
            for key in _tag_keys(entry):
                if frame.env.peek(key, "") == "" and _sets(source, key):
                    frame.env.doubt(key, frame.script.alias)

    def _own_code(self, frame: Frame) -> str:
        path = frame.script.path
        if path not in self._customize:
            there = self._resolver.index.content(path).names
            files = [name for name in ("customize.py", "run.sh") if name in there]
            self._customize[path] = "".join(read_or_empty(f"{path}/{name}") for name in files)
        return self._customize[path]

    def _give(self, frame: Frame, parent: Frame | None, when: str) -> None:
        """Pass what is known of the step's exports to its caller; promise the rest."""
        if parent is None:
            return
        patterns = frame.texts("new_env_keys")
        known = {
            key: dict.__getitem__(frame.env, key)
            for key in select_keys(dict.keys(frame.env), patterns)
            if key in frame.env.written or key in frame.env.laid
        }
        _merge(parent.env, _doubted(known, when, frame))
        if self._own_code(frame) and isinstance(parent.env, PlanEnv):
            parent.env.promise((p for p in patterns if p not in known), frame.script.alias)

    def _give_facts(self, frame: Frame, parent: Frame | None) -> None:
        path = frame.script.path
        if parent is not None:
            for key, value in self._facts(path).new_env.items():
                parent.env.learn(key, value, path)


def _tag_keys(entry: Dependency) -> Iterator[str]:
    """The keys whose values become tags of a dependency, or decide about them."""
    yield from entry.tags_from_env
    for _, keys in entry.tags_from_env_with_prefix:
        yield from keys
    for _, rules in entry.tags_if_env:
        yield from (key for condition in rules for key, _ in condition.rules)


def _sets(source: str, key: str) -> bool:
    """Whether a step's own code sets ``key``, and does not only look at it."""
    if key not in source:
        return False
    name = re.escape(key)
    found = rf"""['"]{name}['"]\s*(?:\]\s*=(?!=)|:)|setdefault\(\s*['"]{name}['"]|\b{name}=(?!=)"""
    return re.search(found, source) is not None


def _tags_above(frame: Frame) -> list[Tags]:
    own = [frame.request.tags]
    return own + _tags_above(frame.parent) if frame.parent else own


def _merge(env: TracedEnv, new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        env[key] = merge_value(env.peek(key), value)


def _doubted(new: Mapping[str, Any], when: str, frame: Frame) -> Mapping[str, Any]:
    """What a step gives back; open as long as it is open whether the step runs."""
    return dict.fromkeys(new, Pending(frame.script.alias)) if when else new


def _node(
    frame: Frame,
    asked: Dependency | None,
    phase: str,
    when: str,
    cached: str,
    why: str,
    entry: Entry | None = None,
    children: tuple[Node, ...] = (),
) -> Node:
    fetches = () if cached in ("hit", "above") else frame.texts("fetches")
    return Node(
        frame=frame,
        entry_of=asked,
        tags=str(frame.request.tags) or frame.script.alias,
        phase=phase,
        when=when,
        cached=cached,
        why=why,
        script=frame.script.alias,
        variations=frame.choice.variations,
        version=(entry.version if entry else "") or _version_text(frame),
        fetches=tuple(mask(re.sub(r"<<<(\w+)>>>", r"\1", text)) for text in fetches),
        entry=entry.path if entry else "",
        children=children,
    )


def _version_text(frame: Frame) -> str:
    version = frame.version
    if version.exact:
        return version.exact
    bounds = [f">={version.minimum}" if version.minimum else ""]
    bounds.append(f"<={version.maximum}" if version.maximum else "")
    return ",".join(b for b in bounds if b)
