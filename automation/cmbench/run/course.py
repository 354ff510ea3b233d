"""The course of a run: which of its steps still go as the plan says."""

from __future__ import annotations

from cmbench.plan.planned_step import PlannedStep
from cmbench.plan.step_run import StepRun


class PlanCourse:
    """The nodes of the plan that steps of a run follow."""

    def __init__(self) -> None:
        self._nodes: dict[StepRun, PlannedStep] = {}

    def follow(self, frame: StepRun, node: PlannedStep | None) -> None:
        """From now on the step goes as ``node`` says, if there is one."""
        if node is not None:
            self._nodes[frame] = node

    def leave(self, frame: StepRun) -> PlannedStep | None:
        """The step goes another way now, or has ended; return the node that it followed."""
        return self._nodes.pop(frame, None)

    def node(self, frame: StepRun) -> PlannedStep | None:
        """Return the node that the step follows."""
        return self._nodes.get(frame)

    def below(self, frame: StepRun, phase: str, number: int) -> PlannedStep | None:
        """Return the node of one of its dependencies, as far as the plan still holds."""
        node = self._nodes.get(frame)
        nodes = node.below.get(phase) if node is not None else None
        return nodes[number] if nodes else None
