"""Choose the server to stop, and report the outcome."""

from __future__ import annotations

from typing import Any

from serving import hooks as triton


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the request for the program of run-triton-server."""
    port = i["env"].get("CM_TRITON_SERVER_STOP_PORT")
    triton.ask(i["env"], "stop", {"port": int(port) if port else None})
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error where it could not be ended."""
    triton.answered(i["env"])
    return {"return": 0}
