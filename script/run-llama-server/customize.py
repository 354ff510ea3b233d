"""Write the server's command line."""

from __future__ import annotations

import os
from typing import Any

from serving.llama.inputs import settings_of


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Problem for a model that is none, before anything is started."""
    env = i["env"]
    settings = settings_of(env, env["CM_LLAMA_SERVER_HOST"], int(env["CM_LLAMA_SERVER_PORT"]))
    _, *words = settings.command(env["CM_PYTHON_BIN_WITH_PATH"])
    path = os.path.join(env["CM_TMP_RUN_DIR"], "arguments")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{word}\0" for word in words))
    env["CM_LLAMA_SERVER_ARGUMENTS"] = path
    return {"return": 0}
