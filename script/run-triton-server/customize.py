"""Write the request for the program that starts the server; report the outcome."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from cmbench.errors import Error
from cmbench.lib.probe import probe, which
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
    installed = [name for name in ENGINES if which(name)]
    engine = (installed or ENGINES)[0] if only_print else answering(installed, env)
    images = {"image": "CM_TRITON_SERVER_IMAGE", "sdk_image": "CM_TRITON_SERVER_SDK_IMAGE"}
    return {"engine": engine, **{name: env[key] for name, key in images.items()}}


def answering(installed: Sequence[str], env: Mapping[str, Any]) -> str:
    """The first engine that answers; raise Error with each one's reason where none does."""
    reasons = []
    for name in installed:
        if (answer := probe([name, "version"])).ok:
            return name
        reasons.append(f"{name}: {answer.problem}")
    text = "does not answer" if installed else f"is not here; looked for {' and '.join(ENGINES)}"
    without = shlex.join(["cm", "run", "script", "--tags=run,triton-server", *_models(env)])
    raise Error(
        "no-engine",
        f"a container engine {text}",
        hint=f"start or install one, or see the command with --print_command; without a container: "
        f"{without}",
        context=reasons,
    )


def _models(env: Mapping[str, Any]) -> list[str]:
    return [f"--model_repository={path}"] if (path := repository(env)) else []


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Export the address; raise Error where the server did not become ready."""
    env = i["env"]
    answer = triton.answered(env)
    env["CM_TRITON_SERVER_URL"] = answer.get("url", "")
    env["CM_TRITON_SERVER_GRPC_URL"] = answer.get("grpc_url", "")
    return {"return": 0}
