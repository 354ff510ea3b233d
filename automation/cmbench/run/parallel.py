"""Siblings side by side: begun when a forecast allows it, taken over in the order of a serial run.

A forecast can be wrong: a hook may read a key whose name could not be foreseen. So what a step has
really read is compared with what its earlier siblings have really set before anything of it counts.
Where the two meet, the step is withdrawn and run again, now in its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cmbench.format.model import Dependency, StepOutcome
from cmbench.plan.step_run import StepRun
from cmbench.run.forecast import Forecast, Forecaster
from cmbench.run.reporter import Reporter
from cmbench.run.workers import Crew, Task, TaskWithdrawn

Step = Callable[[], tuple[StepRun, StepOutcome]]
Take = Callable[[Step], set[str]]
"""Runs a step and takes over its results; returns the env keys that have changed."""


class ParallelSteps:
    """The objects that a run needs to have steps in parallel."""

    def __init__(self, crew: Crew, forecaster: Forecaster, reporter: Reporter) -> None:
        self.crew = crew
        self.forecaster = forecaster
        self.reporter = reporter

    def group(self, step_run: StepRun, phase: str) -> SiblingGroup:
        """Return the dependencies of ``step_run`` in one phase."""
        return SiblingGroup(self, step_run, phase)

    def ended(self, entry: str, status: str, first: int) -> bool:
        """Keep the events of a step that made ``entry``, from ``first`` on.

        A step that is run again uses the entry that it published before it was withdrawn: then the
        events of making it are published now, and true is returned.
        """
        task = self.crew.here
        if status == "done" and entry and task is not None:
            task.made[entry] = task.events[first:]
        if status != "cached" or entry not in self.crew.kept:
            return False
        events = self.crew.kept.pop(entry)
        if task is None:
            for event in events:
                event()
        else:
            task.events += events
            task.made[entry] = events
        return True

    def begun(self, step_run: StepRun) -> int:
        """``step_run`` is what this thread works on now; returns how many events there are so far.

        The first step of a task is its root.
        """
        task = self.crew.here
        if task is not None and task.root is None:
            task.root = step_run
        return len(task.events) if task is not None else 0

    def await_turn(self, step_run: StepRun) -> None:
        """Wait until results of ``step_run`` count; raise ``TaskWithdrawn`` if they must not."""
        task = self.crew.here
        if task is None:
            return
        if not task.counts:
            with self.crew.resting():
                self.crew.wait(lambda: task.counts)
        self.crew.check()
        meeting = _meeting(step_run, task)
        if meeting is not None:
            meeting.withdraw(again=True)
            raise TaskWithdrawn


class SiblingGroup:
    """The siblings of one phase; a context that leaves none of them running."""

    def __init__(self, together: ParallelSteps, step_run: StepRun, phase: str) -> None:
        self._together = together
        self._crew = together.crew
        self._step_run = step_run
        self._phase = phase
        self._running: list[tuple[Task, Forecast, Step, Take]] = []
        self._number = 0

    def __enter__(self) -> SiblingGroup:
        return self

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        tasks = [task for task, *_ in self._running]
        if not tasks:
            return
        self._crew.end(tasks)
        if isinstance(problem, KeyboardInterrupt) and tasks[0].error is not None:
            # As in a serial run, the record ends with the step that was interrupted.
            self._pass_on(tasks[0])
            raise tasks[0].error from None

    @property
    def is_idle(self) -> bool:
        """Whether none of the siblings runs now."""
        return not self._running

    def forecast(self, entry: Dependency) -> Forecast | None:
        """Return the forecast of ``entry`` if it may start now; ``None`` if it has to wait."""
        before = [forecast for _, forecast, *_ in self._running]
        return self._together.forecaster.forecast(self._step_run, entry, self._phase, before)

    def start(self, label: str, forecast: Forecast, step: Step, take: Take) -> None:
        """Start ``step`` in parallel with those that run; ``take`` is called in its turn."""
        task = Task(self._crew.here, self._number, label)
        self._number += 1
        task.turn = not self._running
        self._running.append((task, forecast, step, take))
        self._crew.start(task, lambda: self._finished(step))

    def _finished(self, step: Step) -> tuple[StepRun, StepOutcome]:
        step_run, outcome = step()
        self._together.await_turn(step_run)
        return step_run, outcome

    def take_over(self) -> None:
        """Take over what the siblings give, in their order; raises the first error."""
        while self._running:
            task, _, step, take = self._running[0]
            with self._crew.resting():
                self._crew.wait(lambda task=task: task.done)  # type: ignore[misc]
            if task.error is not None and not task.again and self._misled(task):
                task.withdraw(again=True)
            del self._running[0]
            again = task.again
            if again:
                self._crew.kept.update(task.made)
                changed = take(step)
            else:
                self._pass_on(task)
                changed = take(lambda task=task: _result(task))  # type: ignore[misc]
            for later, *_ in self._running:
                later.changed |= changed
            if self._running:
                self._running[0][0].turn = True

    def _misled(self, task: Task) -> bool:
        """Return whether a step has failed on values that a serial run would not have given it."""
        return task.root is not None and bool(task.changed & _read(task.root, task.root, set()))

    def _pass_on(self, task: Task) -> None:
        """Report the events of a task: now, or with the task that this one belongs to."""
        above = self._crew.here
        if above is not None:
            above.events += task.events
            above.made.update(task.made)
            return
        for event in task.events:
            event()


def _result(task: Task) -> tuple[StepRun, StepOutcome]:
    if task.error is not None:
        raise task.error
    result: tuple[StepRun, StepOutcome] = task.result
    return result


def _meeting(step_run: StepRun, task: Task) -> Task | None:
    """Return the task that has read, as far as ``step_run`` shows, what a sibling has set since."""
    names: set[str] = set()
    current: Task | None = task
    while current is not None and current.root is not None:
        names = _read(step_run, current.root, names)
        if names & current.changed:
            return current
        step_run = current.root.parent
        current = current.above
    return None


def _read(step_run: StepRun, root: StepRun, names: set[str]) -> set[str]:
    """Return what the steps from ``step_run`` up to ``root`` have read of the env of ``root``."""
    while True:
        env = step_run.env
        inner = env.laid | env.written | set(step_run.request.env)
        names = {name for name in names if name not in inner}
        names |= {name for name in env.outer if name not in step_run.request.env}
        parent = step_run.parent
        if step_run is root or parent is None:
            return names
        step_run = parent
