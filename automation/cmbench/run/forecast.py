"""Forecasts of which steps may run in parallel.

A dependency is planned against the values that its caller has now. It is independent of siblings
that are still running when nothing in its plan, in the reads of the cache entries that would answer
and in the words of its own files is among the keys that those siblings may give back, and when no
entry that one would make is used by the other. In doubt a dependency is not independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cmbench.errors import Error
from cmbench.format.env import TracedEnv, select_keys
from cmbench.format.model import Dependency
from cmbench.plan.planned_step import PlannedStep, walk
from cmbench.plan.resolve import PlanContext
from cmbench.plan.step_run import DependencyTrace, StepRun
from cmbench.plan.tree import PlanEnv, Planner
from cmbench.run.step import ALONE
from cmbench.values import immutable, replace


class WatchedEnv(PlanEnv):
    """A planned env that notices reads of keys which others may still set."""

    __slots__ = ("others", "touched")

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values)
        self.others: tuple[str, ...] = ()
        self.touched: set[str] = set()

    def below(self, values: Mapping[str, Any]) -> TracedEnv:
        """Return an env that looks out for the same."""
        env = WatchedEnv(values)
        env._promises, env.open = dict(self._promises), self.open
        env.others, env.touched = self.others, self.touched
        return env

    def note(self, key: str) -> None:
        """Note a read, and whether another step that runs now may set the key."""
        self._note_touched(key)
        super().note(key)

    def peek(self, key: str, default: Any = None) -> Any:
        """Return the value; it counts as a read of what other steps may set."""
        self._note_touched(key)
        return super().peek(key, default)

    def _note_touched(self, key: str) -> None:
        """Note that ``key`` was read which another step may set."""
        if self.others and key not in self.laid and key not in self.written:
            self.touched.update(select_keys((key,), self.others))


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Forecast:
    """What running one dependency takes: keys it may set, scripts whose entries it uses, makes."""

    writes: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()
    makes: frozenset[str] = frozenset()
    works: bool = False

    def blocks(self, later: Forecast) -> bool:
        """Return whether ``later`` must wait for it, whatever that one reads."""
        programs = later.works and any(key.startswith("+") for key in self.writes)
        return programs or bool(self.makes & later.uses or self.uses & later.makes)


class Forecaster:
    """Forecasts with a resolver whose env class is ``WatchedEnv``."""

    def __init__(self, context: PlanContext) -> None:
        self._context = context
        self._index = context.resolver.index

    def forecast(
        self, step_run: StepRun, entry: Dependency, phase: str, before: Sequence[Forecast]
    ) -> Forecast | None:
        """Return the forecast of ``entry`` after those ``before``; ``None`` if it has to wait."""
        env = WatchedEnv(step_run.env.plain())
        env.others = tuple(key for one in before for key in one.writes)
        env.rules = step_run.env.rules
        env.laid, env.running = set(), True
        shadow = replace(
            step_run,
            env=env,
            state=TracedEnv(step_run.state.plain()),
            adr=TracedEnv(step_run.adr.plain()),
            trace=DependencyTrace(),
        )
        try:
            planner = Planner(self._context, guess=False)
            planned_step = planner.below(shadow, entry, phase)
            forecast = self._judged(planned_step, env) if planned_step else Forecast()
        except Error:
            return None
        if forecast is None or env.touched or any(one.blocks(forecast) for one in before):
            return None
        return forecast

    def _judged(self, planned_step: PlannedStep, env: WatchedEnv) -> Forecast | None:
        root = planned_step.step_run
        if root is None or planned_step.when or not _is_kept(root):
            return None
        steps, writes = list(walk(planned_step)), _writes(root)
        working = [each.step_run for each in steps if each.step_run and _works(each)]
        is_open = any(each.step_run is None for each in steps)
        if is_open or writes is None or any(map(self._must_be_alone, working)):
            return None
        for step_run in working:
            words = (word for word in self._words(step_run) if word not in step_run.env.laid)
            env.touched.update(select_keys(words, env.others))
        return Forecast(
            writes,
            uses=_of_entries(each.step_run for each in steps),
            makes=_of_entries(working),
            works=bool(working),
        )

    def _must_be_alone(self, step_run: StepRun) -> bool:
        names = self._index.contents.get(step_run.script.path).names
        return (
            "validate_cache.sh" in names
            or any(ALONE in name.split() or "<" in name for name in step_run.texts("exclusive"))
            or self._index.contents.programs(step_run.script.path).runs_cm
        )

    def _words(self, step_run: StepRun) -> Iterable[str]:
        index, path = self._index, step_run.script.path
        used = [
            word
            for name in step_run.step.uses
            for word in index.contents.libraries.find(path, name).words
        ]
        return {*index.contents.get(path).words, *index.contents.programs(path).keys, *used}


def _is_kept(step_run: StepRun) -> bool:
    """Return whether its results are kept: what runs every time has unknown effects."""
    return step_run.step.cacheable or step_run.script.host_facts


def _works(planned_step: PlannedStep) -> bool:
    """Return whether code of the step's script is going to run."""
    return planned_step.cached not in ("hit", "fact")


def _of_entries(step_runs: Iterable[StepRun | None]) -> frozenset[str]:
    """Return the scripts of those steps that have entries in the cache."""
    cacheable = (f for f in step_runs if f and f.step.cacheable and not f.script.host_facts)
    return frozenset(step_run.script.path for step_run in cacheable)


def _writes(step_run: StepRun) -> tuple[str, ...] | None:
    """The patterns of all env keys that a step may give back; ``None`` where that is open."""
    state = [key for block in step_run.step.blocks for key in block.new_state_keys]
    raw = [key for block in step_run.step.blocks for key in block.new_env_keys]
    raw += step_run.request.force_new_env_keys
    return None if state or any("<<<" in key for key in raw) else tuple(raw)
