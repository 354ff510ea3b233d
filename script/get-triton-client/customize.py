"""Put the client on the path of programs, and report its protocols."""

from __future__ import annotations

from typing import Any

import cmbench
from cmbench.errors import Error
from cmbench.lib import pythons

MODULE = "tritonclient.grpc.service_pb2"


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    version = grpc_version(
        env["CM_PYTHON_BIN_WITH_PATH"], env.get("CM_TRITON_CLIENT_GRPC") == "yes"
    )
    folder = cmbench.LIBRARIES
    env["+PYTHONPATH"] = [folder]
    env["CM_TRITON_CLIENT_PATH"] = folder
    env["CM_TRITON_CLIENT_PROTOCOLS"] = "http,grpc" if version else "http"
    env["CM_TRITON_CLIENT_VERSION"] = version
    return {"return": 0}


def grpc_version(python: str, wanted: bool) -> str:
    """The version of a tritonclient that works; empty without one.

    Raises Error without one where it is wanted.
    """
    package = pythons.installed(python, "tritonclient")
    problem = pythons.import_problem(python, MODULE) if package else None
    if package and not problem:
        return package.version
    if wanted:
        raise Error(
            "import-failed",
            f"gRPC does not work in {python}: {MODULE} cannot be imported",
            hint="install it again:\n"
            f'`{python} -m pip install --force-reinstall "tritonclient[grpc]"`',
            context=problem.tail(4) if problem else [],
        )
    return ""
