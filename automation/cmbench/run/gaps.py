"""References in the env of a step for which nothing has a value."""

from __future__ import annotations

from cmbench.errors import Error
from cmbench.format.env import unresolved
from cmbench.plan.step_run import StepRun


def refuse_gaps(frame: StepRun) -> None:
    """Raise ``missing-input`` where a caller passes a ``<<<KEY>>>`` for which nothing has a value.

    What the user has typed for the requested script is taken as it is. Scripts that were written
    for other engines are used to such values.
    """
    if frame.parent is None or not frame.script.dialect.faults_bind:
        return
    for key in frame.request.env:
        value = frame.env.peek(key, "")
        if unresolved(value):
            raise Error(
                "missing-input",
                f"{frame.script.alias} needs {key}, and nothing has set {value}",
                hint="see which step sets it: cm plan script --explain, or set it: --env.KEY=VALUE",
            )
