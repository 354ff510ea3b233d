"""The tiny benchmark for tests: its programs, its data, its model, and settings to run it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from shared_files import make_once
from steps import as_engine_calls
from support import LIB, ROOT, python_env, run

SCRIPT = ROOT / "script"
MODEL = SCRIPT / "get-ml-model-resnet50" / "tiny"
DIGITS = LIB / "modelzoo/datasets/digits" / "make_dataset.py"
PREPROCESS = LIB / "modelzoo/preprocessing/imagenet" / "preprocess.py"

# Programs that a test starts by itself; those of `cm`, which starts without it, find it themselves.
os.environ.update(python_env(LIB))


def module_of(path: Path) -> ModuleType:
    """A Python file: a module of lib, or one of no package, such as a customize.py."""
    if path.is_relative_to(LIB):
        return importlib.import_module(".".join(path.relative_to(LIB).with_suffix("").parts))
    name = "_".join(path.with_suffix("").parts[-3:]).replace("-", "_")
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return as_engine_calls(module) if path.name == "customize.py" else module


def hooks(name: str) -> Any:
    """A module of what the hooks of several scripts share."""
    return as_engine_calls(importlib.import_module(f"modelzoo.hooks.{name}"))


@cache
def digits() -> Path:
    """The data set as its script writes it."""
    words = [sys.executable, str(DIGITS), "--out"]
    return make_once("digits", lambda out: run([*words, str(out)]).ok())


@cache
def arrays(part: str = "val") -> Path:
    """The preprocessed arrays of a part (``val`` or ``train``)."""
    images = digits() / part / f"{part}_map.txt"
    words = ["--map", str(images), "--side", "28", "--name", "digits", "--out"]
    command = [sys.executable, str(PREPROCESS), *words]
    return make_once(f"arrays-{part}", lambda out: run([*command, str(out)]).ok())


def model(**changes: Any) -> dict[str, Any]:
    """The shipped model as the harness's settings describe it."""
    facts = json.loads((MODEL / "model.json").read_text(encoding="utf-8"))
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy", "options")
    return {**{key: facts[key] for key in keys}, "path": str(MODEL / facts["file"]), **changes}


def settings(results: Path, **changes: Any) -> dict[str, Any]:
    """Session settings for runs of a third of a second in one narrow shape."""
    overrides = {"min_duration": 300, "threads": 1, "num_workers": 2, "batch_size": 8}
    return {
        "benchmark": "resnet50",
        "form": "tiny",
        "backend": "onnxruntime",
        "device": "cpu",
        "model": model(),
        "dataset": str(arrays()),
        "results_dir": str(results),
        "hw_name": "lab",
        "round": "6.1",
        "wait_s": 0,
        "overrides": overrides | changes.pop("overrides", {}),
        **changes,
    }


def harness_command(program: str, config: Path) -> list[str]:
    """The command line of one of the harness's programs."""
    return [sys.executable, "-m", "mlperf.harness", program, str(config)]


def harness_environment() -> dict[str, str]:
    """The environment that finds the harness."""
    return {**python_env(LIB, ROOT / "tests"), "PYTHONDONTWRITEBYTECODE": "1"}


def relaxed(initial: Callable[..., Any]) -> Callable[..., Any]:
    """``tuning.targets.initial`` such that a Server run is VALID however slow the host is.

    The rate is high enough for LoadGen's early stopping, and the limit is a minute: a queue that
    grows is worked off.
    """

    def relaxed_initial(profile: Any, given: Any, scenario: str, *rest: Any) -> Any:
        found = initial(profile, given, scenario, *rest)
        if scenario != "Server":
            return found
        return replace(found, qps=max(found.qps, 5000.0), latency_ms=60_000.0)

    return relaxed_initial


def relaxed_session(config: Path) -> list[str]:
    """The command line of a session whose first targets are ``relaxed``."""
    code = (
        "import sys\nfrom pathlib import Path\nimport benchmark_lab\n"
        "from mlperf.harness.session import quiet, session\n"
        "from mlperf.harness.tuning import targets\n"
        "quiet.look = lambda: None\n"
        "targets.initial = benchmark_lab.relaxed(targets.initial)\n"
        "sys.exit(session.main(Path(sys.argv[1])))\n"
    )
    return [sys.executable, "-c", code, str(config)]
