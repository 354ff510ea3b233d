"""Pass the inputs to the program as its options, and export its figures."""

from __future__ import annotations

from typing import Any

from cmbench.lib.programs import run_program
from serving.bench import step
from serving.endpoint.options import OPTIONS, read

PREFIX = "CM_ENDPOINT_BENCH_"
FIGURES = ("output_tokens_per_s", "requests_per_s", "ttft_p99_ms", "best_load")
FILES = {"dataset": "random"}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Measure; raise Problem for what the program does not understand, before it starts."""
    env = i["env"]
    # A server that a step before has started, unless another URL is named.
    defaults = {"url": env.get("CM_LLAMA_SERVER_URL")}
    words = list(step.arguments(OPTIONS, env, PREFIX, FILES, defaults))
    step.hand_over(env, PREFIX, words, read)
    done = run_program(i, "measure")
    step.take_answer(env, PREFIX, FIGURES)
    return done


def refuse(i: dict[str, Any]) -> None:
    """Raise the error of a command line that makes no sense."""
    env = i["env"]
    if env.get(f"{PREFIX}URL"):
        read(list(step.arguments(OPTIONS, env, PREFIX, FILES)))
