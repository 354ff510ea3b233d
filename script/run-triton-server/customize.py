"""Write the request for the program that starts the server; report the outcome."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib.probe import which
from cmbench.lib.yes_no import is_yes
from serving import hooks as triton

ENGINES = ("docker", "podman")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Check the request before anything is started."""
    env = i["env"]
    settings = {
        "repository": repository(env),
        "models": triton.names(env.get("CM_TRITON_SERVER_MODELS")),
        "ports": triton.ports(env["CM_TRITON_SERVER_PORTS"]),
        "host": env["CM_TRITON_SERVER_HOST"],
        "timeout_s": float(env["CM_TRITON_SERVER_TIMEOUT"]),
        "background": is_yes(env["CM_TRITON_SERVER_BACKGROUND"]),
        "more": shlex.split(str(env.get("CM_TRITON_SERVER_OPTIONS") or "")),
        "url": env.get("CM_TRITON_SERVER_URL") or "",
        "folder": os.path.join(env["CM_TMP_RUN_DIR"], "server"),
    }
    only_print = is_yes(env["CM_TRITON_SERVER_PRINT"])
    if is_yes(env.get("CM_TRITON_SERVER_IN_CONTAINER")):
        settings |= contained(env, only_print)
    elif not settings["url"]:
        settings["launcher"] = env["CM_TRITON_SERVER_BIN_WITH_PATH"]
    triton.ask(env, "print" if only_print else "run", settings)
    return {"return": 0}


def repository(env: Mapping[str, Any]) -> str:
    """The folder of models; raises Error where none is named."""
    path = str(env.get("CM_TRITON_MODEL_REPOSITORY") or "")
    if not path and not env.get("CM_TRITON_SERVER_URL"):
        raise Error(
            "needs-input",
            "no folder of models is named",
            hint="add --model_repository=/folder; gen-triton-model-repository makes one",
        )
    return os.path.abspath(os.path.expanduser(path)) if path else ""


def contained(env: Mapping[str, Any], only_print: bool) -> dict[str, str]:
    """The images, and the engine that runs them; a command can be printed without one.

    Raises Error when there is no container engine.
    """
    engine = next((name for name in ENGINES if which(name)), "")
    if not engine and not only_print:
        raise Error(
            "no-engine",
            f"there is no container engine here; looked for {' and '.join(ENGINES)}",
            hint="install one, see the command with --print_command, or leave out _container",
        )
    images = {"image": "CM_TRITON_SERVER_IMAGE", "sdk_image": "CM_TRITON_SERVER_SDK_IMAGE"}
    return {"engine": engine or ENGINES[0], **{name: env[key] for name, key in images.items()}}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Export the address; raise Error where the server did not become ready."""
    env = i["env"]
    answer = triton.answered(env)
    env["CM_TRITON_SERVER_URL"] = answer.get("url", "")
    env["CM_TRITON_SERVER_GRPC_URL"] = answer.get("grpc_url", "")
    return {"return": 0}
