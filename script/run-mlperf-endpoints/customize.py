"""Print the plan, and run its missing points with the reference client."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cmbench.lib.programs import run_program
from common.problems import Problem, raise_failure
from mlperf import client_run as runs
from mlperf.endpoints import configs, inputs, plan
from mlperf.endpoints.client_runs import OWN_URL

YES = "yes"
PREFIX = "CM_MLPERF_ENDPOINTS_"
SERVER = "CM_TEXT_SERVER"
REHEARSED = "note: a rehearsal: points are shorter than the rules ask, and nothing can be submitted"
NO_DURATION = (
    "note: how long an answer takes is not known, so every point is one pass over the data, which "
    "may be shorter than the rules ask; --answer_seconds=S, or run again when points are there"
)
NO_SALT = (
    "note: this revision of the client has no key for the salt of every query (Endpoints rules "
    "2.9.5) outside agentic data sets; a submission needs one that has"
)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Plan, and run; raise Problem for inputs that make no plan, and where the client fails."""
    env = i["env"]
    folder = inputs.output_folder(env)
    client_runs = runs.read_runs(folder / configs.RUNS) if folder.is_dir() else ()
    curve = inputs.curve_plan(env, client_runs)
    print("\n".join(plan.text(curve, client_runs)))
    if env.get(f"{PREFIX}ONLY_PLAN") != YES:
        _run(i, curve, folder, client_runs)
        client_runs = runs.read_runs(folder / configs.RUNS)
    missing = plan.missing_points(curve, client_runs)
    env[f"{PREFIX}RESULT_MISSING"] = " ".join(point.name for point in missing) or "none"
    env[f"{PREFIX}RESULT_FOLDER"] = str(folder)
    i["state"]["cm-mlperf-endpoints-plan"] = {
        "hours": curve.hours,
        "seeds": curve.seeds.seeds,
        "points": [asdict(point) for point in curve.points],
        "missing": [point.name for point in missing],
    }
    return {"return": 0}


def refuse(i: dict[str, Any]) -> None:
    """Raise what a run would end with at once: inputs that make no plan, or nothing to measure."""
    env = i["env"]
    curve = inputs.curve_plan(env)
    if env.get(f"{PREFIX}ONLY_PLAN") != YES:
        target = inputs.client_target(env, _address(env))
        configs.configuration(curve, curve.points[0], target, Path("."))


def _run(i: dict[str, Any], curve: plan.CurvePlan, folder: Path, client_runs: Any) -> None:
    """Run the client for the missing points; raise Problem where it fails."""
    env = i["env"]
    target = inputs.client_target(env, _address(env))
    missing = plan.missing_points(curve, client_runs)
    written = configs.write(curve, target, folder)
    print(f"configurations: {folder / configs.CONFIGS}")
    for note in _notes(curve, target):
        print(note)
    call = {
        "client": env[f"{PREFIX}CLIENT"],
        "configs": [str(p) for p in written if p.stem in {point.name for point in missing}],
        "server": json.loads(env[inputs.SERVER_SETTINGS]) if env.get(SERVER) else None,
    }
    place = env["CM_TMP_RUN_DIR"]
    for name, document in (("CALL", call), ("ANSWER", {})):
        env[f"{PREFIX}{name}"] = os.path.join(place, f"{name.lower()}.json")
        Path(env[f"{PREFIX}{name}"]).write_text(json.dumps(document), encoding="utf-8")
    run_program(i, "measure")
    raise_failure(json.loads(Path(env[f"{PREFIX}ANSWER"]).read_text(encoding="utf-8")))


def _notes(curve: plan.CurvePlan, target: configs.ClientTarget) -> list[str]:
    if target.rehearsal:
        return [REHEARSED]
    unknown = [] if curve.answer_s or curve.measured else [NO_DURATION]
    return unknown + ([] if curve.model.agentic else [NO_SALT])


def _address(env: Mapping[str, Any]) -> str:
    url = inputs.value(env, "URL")
    if env.get(SERVER):
        return OWN_URL
    if url:
        return url
    hint = "--url=http://HOST:PORT/v1, --server=llama for one of its own, or _plan to plan only"
    raise Problem("needs-input", "no endpoint is named", hint=hint)
