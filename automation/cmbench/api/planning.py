"""Plans: what a request would do, found without running anything; where a value comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cmbench.api.resolving import (
    check_sources,
    make_context,
    make_plan,
    open_lock,
    renewal_of,
    silent_facts,
)
from cmbench.errors import Error
from cmbench.plan.planned_step import Plan, sure, walk
from cmbench.session.call import RunRequest
from cmbench.session.request import check_places, check_typed_below
from cmbench.values import immutable, replace
from common.problems import Hint

if TYPE_CHECKING:
    from cmbench.plan.explain import ValueOrigin
    from cmbench.plan.planned_step import PlannedStep


@immutable(frozen=True, slots=True, eq=True, repr=True)
class Explanation:
    """The origins of the value of the env key ``key``.

    ``origins`` are the settings and steps that set it, in the order of the run, ``readers`` the
    steps that read it, by value, and ``inputs`` the flags that set it.
    """

    key: str
    origins: Sequence[ValueOrigin]
    readers: Mapping[str, Sequence[str]]
    inputs: Sequence[str]

    def data(self) -> dict[str, Any]:
        """As JSON holds it."""
        origins = [asdict(origin) for origin in self.origins]
        return {
            "key": self.key,
            "origins": [{k: v for k, v in o.items() if k != "number"} for o in origins],
            "readers": self.readers,
            "inputs": self.inputs,
        }


@immutable(frozen=True, slots=True, eq=True, repr=True)
class PlannedRun:
    """The tree of steps of ``request`` as things are now.

    ``totals`` are the sums of downloads (bytes), disk (bytes) and time (seconds). ``warnings`` are
    for the user.
    """

    request: RunRequest
    plan: Plan
    totals: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    explanation: Explanation | None = None

    def data(self) -> dict[str, Any]:
        """As JSON holds it."""
        from cmbench.plan.explain import node_data

        return {
            "root": node_data(self.plan.root),
            "steps": self.plan.steps,
            "hits": self.plan.hits,
            "seconds": self.plan.seconds,
            "totals": self.totals,
        }


def plan(request: RunRequest, explain: str = "") -> PlannedRun:
    """Return what a run of ``request`` would do; runs nothing and writes nothing but the index.

    ``explain`` names an env key or an input, whose value is then explained. Raises ``Error`` where
    something that is sure to be needed is not there, or the script's own ``refuse`` says no.
    """
    from cmbench.plan.explain import PlanNotes, key_of
    from cmbench.plan.names import unused
    from cmbench.plan.requirements import total
    from cmbench.run.customize import refuse, refuse_each

    script, facts = request.script, silent_facts(request.workspace)
    blocks = script.blocks
    key = key_of(explain, blocks)
    lock = open_lock(request)
    context = make_context(request.workspace, facts, lock, renewal_of(request))
    notes = PlanNotes(context, key)
    made = make_plan(request.workspace, request.request, context, notes)
    if not explain:
        refuse(made.step_run)
    planned_steps = list(walk(made.root))
    for planned_step in planned_steps:
        _note_present(planned_step)
    all_needs, certain_needs = (
        [planned_step.detail.needs for planned_step in some]
        for some in (planned_steps, sure(made.root))
    )
    # Steps that are decided during the run may have the names.
    decided = all(planned_step.script for planned_step in planned_steps)
    return PlannedRun(
        request,
        made,
        total(all_needs, certain_needs, request.workspace.root),
        (
            *_refusal(
                lambda: check_places(request.request, request.script),
                lambda: check_sources(request),
                lambda: check_typed_below(made.root),
                lambda: refuse_each(made.root),
            ),
            *(unused(request.request, context.names) if decided else ()),
        ),
        Explanation(key, notes.require_origins(), notes.readers, notes.inputs) if key else None,
    )


def _note_present(planned_step: PlannedStep) -> None:
    """Take from the needs of a step of the plan those that this machine already satisfies."""
    from cmbench.run.customize import foresee

    if planned_step.step_run is None or not planned_step.detail.needs.downloads:
        return
    present = foresee(planned_step.step_run)
    if present:
        needs = replace(
            planned_step.detail.needs,
            downloads=(),
            disk=0,
            disk_known_from="is present",
            present=present,
        )
        planned_step.detail = replace(planned_step.detail, needs=needs)


def _refusal(*checks: Callable[[], None]) -> Sequence[str]:
    """Return why a run would be refused at once on this machine: by the first check that does."""
    try:
        for check in checks:
            check()
    except Error as error:
        what = map(Hint.plain, (f"a run stops here: {error.message}", *error.context))
        return (Hint.joined(*what, error.hint, between="; "),)
    return ()


def explain(request: RunRequest, key: str) -> Explanation:
    """Return where the value of ``key`` comes from in a run of ``request``.

    Raises ``bad-value`` where no step of its plan sets or reads it.
    """
    explanation = plan(request, key).explanation
    assert explanation is not None
    return explanation
