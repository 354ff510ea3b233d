"""Name the installed program, after it has said its version."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from cmbench.errors import Error

PROGRAM = os.path.join("client", "bin", "inference-endpoint")
LONGEST_S = 120


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Export the program; raises Error where it does not run."""
    env = i["env"]
    program = os.path.join(os.getcwd(), PROGRAM)
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _broken(program, str(error)) from error
    said = done.stdout.split()
    if done.returncode or not said:
        raise _broken(program, done.stderr.strip() or "no version")
    env["CM_MLPERF_ENDPOINTS_CLIENT"] = program
    return {"return": 0, "version": said[-1]}


def _broken(program: str, why: str) -> Error:
    hint = f"see what it says: {program} --version"
    return Error("install-failed", f"inference-endpoint does not run: {why[-300:]}", hint=hint)
