"""The tree of steps that a plan is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cmbench.format.env import TracedEnv
from cmbench.values import field, immutable, mutable

if TYPE_CHECKING:
    from cmbench.cache.cache_entry import CacheEntry
    from cmbench.format.model import Dependency
    from cmbench.plan.needs import StepNeeds
    from cmbench.plan.resolved_step import ResolvedStep
    from cmbench.plan.step_run import StepRun


@immutable(frozen=True, slots=True, eq=False, repr=False)
class PlannedStepDetail:
    """Details that an explanation adds to a step: its requester, what its cache entries lack."""

    requested_by: str
    variations: Mapping[str, str]
    version_from: str
    misses: tuple[str, ...]
    needs: StepNeeds


@mutable(slots=True, eq=False, repr=False)
class PlannedStep:
    """One step of a plan, and of the run that resumes from it.

    ``step_run`` is the step with its planned values, ``None`` where only a run can decide which
    one; ``entry_of`` is the dependency entry that requests it, ``None`` for the request itself.
    ``when`` is empty for a sure step, else the condition that only a run can decide. ``cached`` is
    ``hit``, ``miss``, ``no`` (never cached), ``fact``, ``above`` (made by an earlier step of the
    same plan) or ``maybe``; ``why`` explains it. ``cached_entry`` is that of a hit. ``detail`` is
    set when an explanation is requested.

    ``children`` are the steps below it, in the order of the run; ``below`` has the steps of the
    entries of all dependency lists, ``None`` where one is not active. ``gives`` is the env that it
    exports, as far as that is certain.
    """

    step_run: StepRun | None
    entry_of: Dependency | None
    tags: str
    phase: str
    when: str
    cached: str
    why: str
    version: str = ""
    fetches: tuple[str, ...] = ()
    cached_entry: CacheEntry | None = None
    below: Mapping[str, tuple[PlannedStep | None, ...]] = field(default_factory=dict)
    gives: Mapping[str, Any] | None = None
    children: tuple[PlannedStep, ...] = field(init=False)
    _detail: PlannedStepDetail | None = None

    def __post_init__(self) -> None:
        planned_steps = [planned_step for below in self.below.values() for planned_step in below]
        self.children = tuple(
            planned_step for planned_step in planned_steps if planned_step is not None
        )

    @property
    def start(self) -> ResolvedStep | None:
        """The step for a run to begin with, without resolving it again; None if that is open."""
        step = self.step_run.step if self.step_run is not None else None
        return step if step is not None and type(step.env) is TracedEnv else None

    @property
    def script(self) -> str:
        """The alias of its script, empty where only a run can tell."""
        return self.step_run.script.alias if self.step_run is not None else ""

    @property
    def variations(self) -> tuple[str, ...]:
        """Its variations, the default ones included."""
        return self.step_run.step.choice.variations if self.step_run is not None else ()

    @property
    def entry(self) -> str:
        """The folder of the entry that answers, empty where none does."""
        return self.cached_entry.path if self.cached_entry else ""

    @property
    def detail(self) -> PlannedStepDetail:
        """What an explanation has added."""
        assert self._detail is not None, "nobody has explained this plan"
        return self._detail

    @detail.setter
    def detail(self, detail: PlannedStepDetail) -> None:
        self._detail = detail


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """What a request would do, found without running anything."""

    root: PlannedStep
    steps: int
    hits: int
    seconds: float

    @property
    def step_run(self) -> StepRun:
        """The request itself, resolved; it is never open."""
        assert self.root.step_run is not None
        return self.root.step_run


def walk(planned_step: PlannedStep) -> Iterator[PlannedStep]:
    """``planned_step`` and everything below it, in the order of the run."""
    pending = [planned_step]
    while pending:
        planned_step = pending.pop()
        yield planned_step
        pending.extend(reversed(planned_step.children))


def in_every_arm(root: PlannedStep) -> Iterator[PlannedStep]:
    """Yield steps that are open, but work in each of the alternatives that a sure step may take.

    Alternatives are dependencies of one script under different conditions.
    """
    for planned_step in sure(root):
        arms: dict[str, list[PlannedStep]] = {}
        for child in planned_step.children:
            if child.when:
                arms.setdefault(child.script, []).append(child)
        for first, *others in arms.values():
            names = [{step.tags for step in walk(other)} for other in others]
            for step in walk(first) if names else ():
                if all(step.tags in tags for tags in names):
                    yield step


def sure(planned_step: PlannedStep) -> Iterator[PlannedStep]:
    """Of ``planned_step`` and everything below it, the steps that will work whatever happens."""
    if planned_step.when or planned_step.cached not in ("no", "miss"):
        return
    yield planned_step
    for child in planned_step.children:
        yield from sure(child)
