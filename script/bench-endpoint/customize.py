"""Pass the inputs to the program as its options, and export its figures."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.programs import run_program
from serving.bench import step
from serving.endpoint.options import OPTIONS, read

PREFIX = "CM_ENDPOINT_BENCH_"
FIGURES = ("output_tokens_per_s", "requests_per_s", "ttft_p99_ms", "best_load")
FILES = {"dataset": "random", "beside": ""}
OWN = "http://127.0.0.1:0"
"""Stands for the URL of a server that is to be started."""


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Measure; raise Problem for what the program does not understand, before it starts."""
    env = i["env"]
    own = env.get("CM_TEXT_SERVER")
    results = results_file(i)
    defaults = {"json": str(results) if results else "", "url": OWN if own else ""}
    words = list(step.arguments(OPTIONS, env, PREFIX, FILES, defaults))
    step.hand_over(env, PREFIX, words, read)
    env[f"{PREFIX}MODULE"] = "serving.endpoint.served" if own else "serving.endpoint"
    done = run_program(i, "measure")
    if results:
        register(i, results)
    step.take_answer(env, PREFIX, FIGURES)
    return done


def results_file(i: dict[str, Any]) -> Path | None:
    """Return where the results are written that are registered; None where none are."""
    env = i["env"]
    if str(env.get(f"{PREFIX}REGISTER") or "yes").strip().lower() not in step.YES:
        return None
    if named := env.get(f"{PREFIX}JSON"):
        path = Path(named).expanduser().absolute()
        return None if path.exists() and not path.is_file() else path
    folder = _home(i) / "results" / "endpoint"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.json"


def register(i: dict[str, Any], path: Path) -> None:
    """Let ``cm … results`` know of these results, also where requests have failed."""
    from cmbench_results.result_sources import SourceFiles

    if not path.is_file():
        return
    try:
        SourceFiles(_home(i)).add(path)
    except Error as problem:
        print(f"note: these results are not kept for cm find results: {problem.message}")
        return
    print(f"results: {path}")
    # The database of results is an extra, and a next command must be one that runs.
    if find_spec("sqlalchemy"):
        print("next:   cm find results --benchmark=endpoint")


def _home(i: dict[str, Any]) -> Path:
    return Path(i["automation"].cmind.repos_path, "cmbench")


def refuse(i: dict[str, Any]) -> None:
    """Raise the error of a command line that makes no sense."""
    env = i["env"]
    if env.get(f"{PREFIX}URL"):
        read(list(step.arguments(OPTIONS, env, PREFIX, FILES)))
