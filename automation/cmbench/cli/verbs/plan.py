"""``cm plan script``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.format.meta import is_true
from cmbench.format.model import Request
from cmbench.plan.names import unused
from cmbench.plan.node import Plan, sure, walk
from cmbench.plan.resolve import Resolver
from cmbench.plan.tree import Planner, Watcher
from cmbench.render.progress import Silent
from cmbench.run.scheduler import FactTeller
from cmbench.run.step import StepRunner
from cmbench.session.session import Answer, Session

if TYPE_CHECKING:
    from cmbench.plan.explain import Notes


def plan_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm plan script``: the tree of steps; runs nothing and writes nothing but the index."""
    from cmbench.cli.verbs.run import make_resolver, open_lock
    from cmbench.plan.explain import Notes, key_of, node_data
    from cmbench.plan.requirements import total

    session = Session(cmind, i, write=True)
    _check_flags(session.flags)
    request, script = session.script()
    runner = StepRunner(Silent(None), None, True, False, cmind, session.words)
    facts = FactTeller(runner, os.devnull)
    blocks = [script.settings, *(v.settings for v in script.variations.values())]
    key = key_of(str(session.flags.get("explain") or ""), blocks)
    resolver = make_resolver(session, facts, open_lock(session))
    notes = Notes(resolver, key)
    plan = make_plan(session, request, facts, resolver, notes)
    found, certain = (
        [node.detail.needs for node in nodes] for nodes in (walk(plan.root), sure(plan.root))
    )
    totals = total(found, certain, session.root)
    data: Answer = {
        "root": node_data(plan.root),
        "steps": plan.steps,
        "hits": plan.hits,
        "seconds": plan.seconds,
        "totals": totals,
    }
    answer: Answer = {"return": 0, "plan": data}
    if key:
        answer["explain"] = {
            "key": key,
            "origins": [_origin(o) for o in notes.found()],
            "readers": notes.readers,
            "inputs": notes.inputs,
        }
    if i.get("out") == "con":
        # What is decided on the way may have the names.
        if all(node.script for node in walk(plan.root)):
            for text in unused(request, resolver.names):
                print(text, file=sys.stderr)
        print(_shown(session.flags, plan, notes, answer))
    return answer


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


def _shown(flags: Mapping[str, Any], plan: Plan, notes: Notes, answer: Answer) -> str:
    from cmbench.render import plans as plantext

    if is_true(flags.get("json", False)):
        return json.dumps(answer.get("explain") or answer["plan"], indent=1)
    if "explain" in answer:
        return plantext.origins_text(answer["explain"]["key"], notes)
    if is_true(flags.get("dot", False)):
        return plantext.dot_text(plan)
    if is_true(flags.get("mermaid", False)):
        return plantext.mermaid_text(plan)
    why = is_true(flags.get("why", False))
    return plantext.plan_text(plan, answer["plan"]["totals"], why)


def _origin(origin: Any) -> Answer:
    return {name: getattr(origin, name) for name in ("step", "depth", "where", "value", "in_force")}


def make_plan(
    session: Session,
    request: Request,
    facts: FactTeller,
    resolver: Resolver | None = None,
    watcher: Watcher | None = None,
) -> Plan:
    """The plan of ``request``; ``facts`` may run the scripts that tell of this machine."""
    resolver = resolver or Resolver(session.index, session.store, facts)
    facts.resolver = resolver
    try:
        return Planner(resolver, facts, watcher).plan(request)
    finally:
        # By now the files of every script that is known to run have been read.
        session.index.save()
