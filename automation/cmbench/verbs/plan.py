"""``cm plan script``."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any

from cmbench.model import Plan, Request
from cmbench.plan import PlanEnv, Planner
from cmbench.report import Silent
from cmbench.resolve import Resolver
from cmbench.run import StepRunner
from cmbench.schedule import FactTeller
from cmbench.session import Answer, Session


def plan_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm plan script``: the tree of steps; runs nothing and writes nothing."""
    session = Session(cmind, i, write=False)
    request, _ = session.script()
    runner = StepRunner(Silent(None), None, True, False, cmind, session.words)
    plan = make_plan(session, request, FactTeller(runner, os.devnull))
    if i.get("out") == "con":
        from cmbench.text import plan_text

        print(json.dumps(asdict(plan), indent=1) if session.flags.get("json") else plan_text(plan))
    return {"return": 0, "plan": asdict(plan)}


def make_plan(session: Session, request: Request, facts: FactTeller) -> Plan:
    """The plan of ``request``; ``facts`` may run the scripts that tell of this machine."""
    facts.resolver = resolver = Resolver(session.index, session.store, facts, PlanEnv)
    return Planner(resolver, facts).plan(request)
