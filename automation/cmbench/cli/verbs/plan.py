"""``cm plan script``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cmbench.api.planning import PlannedRun, plan
from cmbench.cli.reply import Answer, Command, Reply
from cmbench.cli.results import request_of, warn
from cmbench.errors import Error
from cmbench.format.meta import is_true


def plan_script(command: Command) -> Reply:
    """The tree of steps; runs nothing and writes nothing but the index."""
    _check_flags(command.flags)
    container = None
    if command.asks_for_container():
        from cmbench.cli.container_reply import planned_container

        container = planned_container(command)
    planned = plan(request_of(command), str(command.flags.get("explain") or ""))
    answer: Answer = {"plan": planned.data()}
    if container is not None:
        answer["container"] = container.answer
    if planned.explanation is not None:
        answer["explain"] = planned.explanation.data()
    warn(command, planned.warnings)
    return Reply(answer, lambda: _shown(command.flags, planned, answer, container))


def _check_flags(flags: Mapping[str, Any]) -> None:
    if flags.get("explain") is True:
        raise Error("bad-value", "--explain needs a key", hint="write --explain=KEY")
    views = [name for name in ("json", "dot", "mermaid", "explain") if flags.get(name)]
    if len(views) > 1 and views != ["json", "explain"]:
        raise Error(
            "bad-value",
            f"--{views[0]} and --{views[1]} exclude each other",
            hint="a plan is printed in one form at a time",
        )


def _shown(
    flags: Mapping[str, Any], planned: PlannedRun, answer: Answer, container: Reply | None
) -> str:
    from cmbench.render import plans

    if is_true(flags.get("json", False)):
        more = {"container": answer["container"]} if container else {}
        return json.dumps(answer.get("explain") or {**answer["plan"], **more}, indent=1)
    if planned.explanation is not None:
        return plans.origins_text(planned.explanation)
    if is_true(flags.get("dot", False)):
        return plans.dot_text(planned.plan)
    if is_true(flags.get("mermaid", False)):
        return plans.mermaid_text(planned.plan)
    why = is_true(flags.get("why", False))
    text = plans.plan_text(planned.plan, planned.totals, why)
    return f"{text}\n\n{container.shown(False)}" if container else text
