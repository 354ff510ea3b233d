"""The inputs of a step that starts a server of a language model."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.problems import Problem, bad_value

from .engines import ENGINES, FOLDER
from .refusals import require_model
from .settings import TextServerSettings

PREFIX = "CM_TEXT_SERVER_"
YES = ("yes", "true", "on", "1")
FOLDER_OF = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).origin)"


def settings_of(
    env: Mapping[str, Any], engine: str, host: str = "127.0.0.1", port: int = 0
) -> TextServerSettings:
    """Return the settings that the inputs name; raise Problem where no model is one."""
    opens = ENGINES[engine].opens
    package, path = env.get(f"{PREFIX}PACKAGE"), env.get(f"{PREFIX}MODEL_PATH")
    if not path and not package:
        small = "--model_path=MODEL.gguf, or _smollm2 for a small one"
        hint = f"--model_path={FOLDER}" if opens == FOLDER else small
        raise Problem("needs-input", "no model is named", hint=hint)
    python = env["CM_PYTHON_BIN_WITH_PATH"]
    cache = str(env.get(f"{PREFIX}PROMPT_CACHE") or "yes").strip().lower() in YES
    settings = TextServerSettings(
        model=os.path.abspath(os.path.expanduser(path))
        if path
        else in_package(python, str(package)),
        engine=engine,
        host=host,
        port=port,
        slots=int(env.get(f"{PREFIX}SLOTS") or 4),
        context=int(env.get(f"{PREFIX}CONTEXT") or 4096),
        threads=int(env.get(f"{PREFIX}THREADS") or 0),
        cache="yes" if cache else "no",
        dtype=str(env.get(f"{PREFIX}DTYPE") or "auto"),
    )
    require_model(settings)
    return settings


def hand_over(env: MutableMapping[str, Any], engine: str) -> dict[str, Any]:
    """Write the server's command line for ``run.sh``; raise Problem where no model is one.

    With ``_prepared`` export the settings instead, for a script that starts the server itself.
    """
    if env.get(f"{PREFIX}ONLY_PREPARED") in YES:
        env[f"{PREFIX}SETTINGS"] = json.dumps(asdict(settings_of(env, engine)))
        return {"return": 0, "skip": True}
    settings = settings_of(env, engine, env[f"{PREFIX}HOST"], int(env[f"{PREFIX}PORT"]))
    _, *words = settings.command(env["CM_PYTHON_BIN_WITH_PATH"])
    path = os.path.join(env["CM_TMP_RUN_DIR"], "arguments")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{word}\0" for word in words))
    env[f"{PREFIX}ARGUMENTS"] = path
    return {"return": 0}


def in_package(python: str, package: str) -> str:
    """Return the model file in a package of ``python``; raise Problem where it has none."""
    done = subprocess.run(
        [python, "-c", FOLDER_OF, package], capture_output=True, text=True, check=False
    )
    origin = done.stdout.strip()
    files = sorted(Path(origin).parent.glob("*.gguf")) if origin else []
    if not files:
        raise bad_value(f"the Python package {package} has no model in the format GGUF")
    return str(files[0])
