"""What the scripts around MLPerf Endpoints take from their env keys."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from common.problems import Problem, bad_value
from mlperf.client_run import ClientRun

from . import rules
from .client_runs import OWN_MODEL, OWN_URL
from .configs import ClientTarget
from .plan import CurvePlan, next_cohort, plan_curve
from .rules import PUBLISHED, SeedSet, division_of, model_of, regions_of

PREFIX = "CM_MLPERF_ENDPOINTS_"
SERVER_SETTINGS = "CM_TEXT_SERVER_SETTINGS"
OUTPUT = "~/mlperf-endpoints"


def value(env: Mapping[str, Any], name: str, default: str = "") -> str:
    """Return an input as text."""
    return str(env.get(f"{PREFIX}{name}") or default).strip()


def folder(env: Mapping[str, Any], name: str, default: str = "") -> Path:
    """Return the path of an input, absolute; raise Problem where there is none."""
    text = value(env, name, default)
    if not text:
        raise Problem("needs-input", "a path is missing", hint=f"--{name.lower()}=PATH")
    return Path(os.path.abspath(os.path.expanduser(text)))


def output_folder(env: Mapping[str, Any]) -> Path:
    """Return where configurations and runs of a model are kept."""
    return folder(env, "OUTPUT_DIR", f"{OUTPUT}/{value(env, 'MODEL') or 'runs'}")


def seed_sets(env: Mapping[str, Any]) -> tuple[SeedSet, ...]:
    """Return the published seed sets, those of a file too; raise Problem where it has none."""
    if not value(env, "SEED_SETS"):
        return PUBLISHED
    text = folder(env, "SEED_SETS").read_text(encoding="utf-8")
    return (*PUBLISHED, *rules.seed_sets(text))


def curve_plan(
    env: Mapping[str, Any], runs: Sequence[ClientRun] = (), today: date | None = None
) -> CurvePlan:
    """Return the plan of the curve that the inputs describe, with the ``runs`` made until now.

    Raises Problem for inputs that make none.
    """
    model = model_of(required(env, "MODEL", ", ".join(rules.MODELS)))
    c_max = number(required(env, "CMAX", "the most requests that the endpoint serves at a time"))
    division = division_of(value(env, "DIVISION", "rdi"))
    cohort = value(env, "COHORT") or next_cohort(today or date.today())
    return plan_curve(
        model,
        division,
        regions_of(c_max, number(value(env, "CMIN", "1"))),
        rules.seeds_for(cohort, seed_sets(env)),
        cohort,
        points=number(value(env, "POINTS", str(rules.LEAST_POINTS))),
        offline=value(env, "OFFLINE", rules.ELECTED),
        answer_s=float(value(env, "ANSWER_SECONDS", "0")),
        runs=runs,
    )


def required(env: Mapping[str, Any], name: str, meaning: str) -> str:
    """Return an input; raise Problem where it lacks."""
    text = value(env, name)
    if not text:
        option = f"--{name.lower()}"
        raise Problem("needs-input", f"{option} is missing", hint=f"{option}=...: {meaning}")
    return text


def number(text: str) -> int:
    """Return a whole number; raise Problem for anything else."""
    try:
        return int(text)
    except ValueError:
        raise bad_value(f'"{text}" is no whole number') from None


def client_target(env: Mapping[str, Any], url: str) -> ClientTarget:
    """Return what the client measures: the endpoint at ``url``, its model, API and prompts.

    Raises Problem for a rehearsal without prompts.
    """
    dataset = value(env, "DATASET")
    rehearsal = number(value(env, "REHEARSAL", "0"))
    if rehearsal and not dataset:
        raise bad_value("a rehearsal needs prompts", '--dataset=FILE.jsonl, {"prompt": ...} a line')
    return ClientTarget(
        url.rstrip("/").removesuffix("/v1"),
        value(env, "SERVED_MODEL") or (OWN_MODEL if url == OWN_URL else value(env, "MODEL")),
        value(env, "API", "openai"),
        str(folder(env, "DATASET")) if dataset else "",
        value(env, "TOKENIZER") or _own_folder(env),
        rehearsal,
        url == OWN_URL,
    )


def _own_folder(env: Mapping[str, Any]) -> str:
    """Return the folder of an own server's model, which has its tokenizer; empty without one."""
    settings = json.loads(env.get(SERVER_SETTINGS) or "{}")
    path = str(settings.get("model") or "")
    return path if Path(path, "tokenizer.json").is_file() else ""
