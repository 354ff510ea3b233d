"""The inputs of a step that starts llama.cpp's server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.problems import Problem, bad_value

from .settings import LlamaSettings, require_model

PREFIX = "CM_LLAMA_SERVER_"
YES = ("yes", "true", "on", "1")
FOLDER = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).origin)"


def settings_of(env: Mapping[str, Any], host: str = "127.0.0.1", port: int = 0) -> LlamaSettings:
    """Return the settings that the inputs name; raise Problem where no model is one."""
    package = env.get(f"{PREFIX}PACKAGE")
    path = env.get(f"{PREFIX}MODEL_PATH")
    if not path and not package:
        hint = "--model_path=MODEL.gguf, or _smollm2 for a small one"
        raise Problem("needs-input", "no model is named", hint=hint)
    python = env["CM_PYTHON_BIN_WITH_PATH"]
    model = os.path.abspath(os.path.expanduser(path)) if path else in_package(python, str(package))
    require_model(model)
    cache = str(env.get(f"{PREFIX}PROMPT_CACHE") or "yes").strip().lower() in YES
    return LlamaSettings(
        model=model,
        host=host,
        port=port,
        slots=int(env.get(f"{PREFIX}SLOTS") or 4),
        context=int(env.get(f"{PREFIX}CONTEXT") or 4096),
        threads=int(env.get(f"{PREFIX}THREADS") or 0),
        cache="yes" if cache else "no",
    )


def in_package(python: str, package: str) -> str:
    """Return the model file in a package of ``python``; raise Problem where it has none."""
    done = subprocess.run(
        [python, "-c", FOLDER, package], capture_output=True, text=True, check=False
    )
    origin = done.stdout.strip()
    files = sorted(Path(origin).parent.glob("*.gguf")) if origin else []
    if not files:
        raise bad_value(f"the Python package {package} has no model in the format GGUF")
    return str(files[0])
