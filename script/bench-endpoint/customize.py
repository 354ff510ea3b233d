"""Pass the inputs to the program as its options, and export its figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from cmbench.lib.programs import run_program
from serving.bench import step
from serving.endpoint.options import OPTIONS, read
from serving.text_server.inputs import settings_of

PREFIX = "CM_ENDPOINT_BENCH_"
FIGURES = ("output_tokens_per_s", "requests_per_s", "ttft_p99_ms", "best_load")
FILES = {"dataset": "random"}
OWN = "http://127.0.0.1:0"
"""Stands for the URL of a server that is to be started."""


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Measure; raise Problem for what the program does not understand, before it starts."""
    env = i["env"]
    own = env.get(f"{PREFIX}SERVER")
    words = list(step.arguments(OPTIONS, env, PREFIX, FILES, {"url": OWN} if own else {}))
    step.hand_over(env, PREFIX, words, read)
    env[f"{PREFIX}MODULE"] = "serving.endpoint.served" if own else "serving.endpoint"
    if own:
        env[f"{PREFIX}SERVER_SETTINGS"] = json.dumps(asdict(settings_of(env, engine=own)))
    done = run_program(i, "measure")
    step.take_answer(env, PREFIX, FIGURES)
    return done


def refuse(i: dict[str, Any]) -> None:
    """Raise the error of a command line that makes no sense."""
    env = i["env"]
    if env.get(f"{PREFIX}URL"):
        read(list(step.arguments(OPTIONS, env, PREFIX, FILES)))
