"""What all parts of a run work with: its reports, and how far it still goes as planned."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.plan.cache_lookup import CacheLookup
from cmbench.plan.planned_step import PlannedStep
from cmbench.plan.step_run import StepRun
from cmbench.run.reporter import Reporter, StepEnd
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.plan.resolve import PlanContext
    from cmbench.run.parallel import ParallelSteps
    from cmbench.run.prefetch import Prefetcher
    from cmbench.run.step import StepRunner
    from cmbench.run.workers import Crew


class PlanCourse:
    """The steps of the plan that a run follows; ``has_worked`` once code of one has run."""

    def __init__(self, lookup: CacheLookup) -> None:
        self.has_worked = False
        self._lookup = lookup
        self._planned_steps: dict[StepRun, PlannedStep] = {}

    def act(self, step_run: StepRun) -> None:
        """Code of the script is going to run: what comes of it, no plan can foresee."""
        self.leave(step_run)
        if not self.has_worked:
            self.has_worked = True
            self._lookup.forget()

    def follow(self, step_run: StepRun, planned_step: PlannedStep | None) -> None:
        """From now on the step goes as ``planned_step`` says, if there is one."""
        if planned_step is not None:
            self._planned_steps[step_run] = planned_step

    def leave(self, step_run: StepRun) -> PlannedStep | None:
        """The step goes another way now, or has ended; return the planned step that it followed."""
        return self._planned_steps.pop(step_run, None)

    def planned_step(self, step_run: StepRun) -> PlannedStep | None:
        """Return the planned step that the step follows."""
        return self._planned_steps.get(step_run)

    def below(self, step_run: StepRun, phase: str, number: int) -> PlannedStep | None:
        """Return the planned step of one of its dependencies, as far as the plan still holds."""
        planned_step = self._planned_steps.get(step_run)
        planned_steps = planned_step.below.get(phase) if planned_step is not None else None
        return planned_steps[number] if planned_steps else None


class StepReports:
    """Reports steps to ``reporters``; ends of parallel steps in the order of a serial run."""

    def __init__(self, reporters: Sequence[Reporter], crew: Crew | None) -> None:
        self._reporters = reporters
        self._crew = crew

    def started(self, step_run: StepRun, depth: int) -> None:
        """Report that a step has started."""
        for reporter in self._reporters:
            reporter.started(step_run, depth)

    def failed(self, step_run: StepRun, depth: int, started: float, error: Error) -> None:
        """Report that a step which began at ``started`` has failed, or was interrupted."""
        seconds = time.perf_counter() - started
        status = error.code if error.code == "interrupted" else "failed"
        self.ended(step_run, depth, StepEnd(status, seconds, error=error.message))

    def ended(self, step_run: StepRun, depth: int, end: StepEnd, is_reported: bool = False) -> None:
        """Report an end in its turn; ``is_reported`` says that this has been done before."""
        for reporter in self._reporters:
            reporter.left(step_run)
        if is_reported:
            return
        task = self._crew.here if self._crew is not None else None
        for reporter in self._reporters:
            if task is None:
                reporter.finished(step_run, depth, end)
            else:
                task.events.append(partial(reporter.finished, step_run, depth, end))

    def waiting(self, does: str) -> Callable[[str], None]:
        """Return what reports for whom the run waits, who ``does`` something."""

        def report(who: str) -> None:
            for reporter in self._reporters:
                reporter.waiting(f"waiting for {who}, which {does}")

        return report

    def note(self, text: str) -> None:
        """Report what a user should know."""
        for reporter in self._reporters:
            reporter.note(text)


@immutable(frozen=True, slots=True, eq=False, repr=False)
class RunContext:
    """The collaborators of a run, and its ``directory``.

    ``together`` is there where steps run in parallel, ``prefetcher`` where files are fetched ahead.
    """

    plan: PlanContext
    runner: StepRunner
    reports: StepReports
    course: PlanCourse
    directory: str
    together: ParallelSteps | None = None
    prefetcher: Prefetcher | None = None

    @property
    def wait(self) -> Callable[[int], None]:
        """What waits for the lock on an open file."""
        return locks.lock if self.together is None else self.together.crew.lock_file
