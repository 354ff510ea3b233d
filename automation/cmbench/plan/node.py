"""The tree that a plan is: each node is a step, with all that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cmbench.cache.cache_entry import Entry
from cmbench.format.model import Dependency
from cmbench.plan.resolved_step import Frame
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.plan.requirements import Needs


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Detail:
    """What an explanation adds to a node: who asked for it, what its cache entries lack."""

    asked: str
    variations: Mapping[str, str]
    version_from: str
    misses: tuple[str, ...]
    needs: Needs


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One step of a plan, and of the run that goes on from it.

    ``frame`` is the step resolved, ``None`` where only a run can tell which one it is; ``entry_of``
    is the dependency entry that asks for it, ``None`` for the request itself. ``when`` is empty
    for a sure step, else the condition that only a run can decide. ``cached`` is ``hit``,
    ``miss``, ``no`` (never cached), ``fact``, ``above`` (made by an earlier step of the same
    plan) or ``maybe``; ``why`` explains it. ``found`` is the cache entry of a hit. ``detail`` is
    there when an explanation was asked for.

    ``children`` are the steps below it, in the order of the run; ``below`` has for each entry of
    each dependency list its node, ``None`` where it is not wanted.
    What was settled when the plan was made need not be found out again: ``start`` is the step as
    the run begins with it, and ``gives`` the env that it gives back, as far as these are certain.
    """

    frame: Frame | None
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
    found: Entry | None = None
    below: Mapping[str, tuple[Node | None, ...]] = field(default_factory=dict)
    start: Frame | None = None
    gives: Mapping[str, Any] | None = None
    children: tuple[Node, ...] = field(init=False)
    _detail: Detail | None = field(default=None)

    def __post_init__(self) -> None:
        nodes = [node for below in self.below.values() for node in below]
        self.children = tuple(node for node in nodes if node is not None)

    @property
    def entry(self) -> str:
        """The folder of the entry that answers, empty where none does."""
        return self.found.path if self.found else ""

    @property
    def detail(self) -> Detail:
        """What an explanation has added."""
        assert self._detail is not None, "nobody has explained this plan"
        return self._detail

    @detail.setter
    def detail(self, detail: Detail) -> None:
        self._detail = detail


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """What a request would do, found without running anything."""

    root: Node
    steps: int
    hits: int
    seconds: float

    @property
    def frame(self) -> Frame:
        """The request itself, resolved; it is never open."""
        assert self.root.frame is not None
        return self.root.frame


def walk(node: Node) -> Iterator[Node]:
    """``node`` and everything below it, in the order of the run."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def sure(node: Node) -> Iterator[Node]:
    """Of ``node`` and everything below it, the steps that will work whatever happens."""
    if node.when or node.cached not in ("no", "miss"):
        return
    yield node
    for child in node.children:
        yield from sure(child)
