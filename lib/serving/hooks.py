"""What the scripts around a Triton server share: their programs report through a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from common.problems import Problem, raise_failure

AUTO = "auto"
PORTS = 3


def names(text: Any) -> list[str]:
    """Names with commas between them."""
    return [word.strip() for word in str(text or "").split(",") if word.strip()]


def ports(text: str) -> list[int]:
    """Return three ports, or none for any free ones; raise Problem for anything else."""
    if text.strip().lower() == AUTO:
        return []
    words = names(text)
    numbers = [int(word) for word in words if word.isdecimal() and 0 < int(word) < 1 << 16]
    if len(words) != PORTS or len(set(numbers)) != PORTS:
        raise Problem(
            "bad-value",
            f"--ports={text}: three different ports are needed, of HTTP, gRPC and metrics",
            hint="give them as in --ports=8000,8001,8002, or --ports=auto",
        )
    return numbers


def ask(env: MutableMapping[str, Any], program: str, fields: Mapping[str, Any]) -> None:
    """Write what the native program is to do, and where its answer belongs."""
    folder = env["CM_TMP_RUN_DIR"]
    request = os.path.join(folder, "request.json")
    with open(request, "w", encoding="utf-8") as file:
        json.dump({**fields, "answer": os.path.join(folder, "answer.json")}, file, indent=2)
    env["CM_TRITON_SERVER_PROGRAM"] = program
    env["CM_TRITON_SERVER_REQUEST"] = request


def answered(env: Mapping[str, Any]) -> dict[str, Any]:
    """What the program answered; raises Problem where that is a failure."""
    with open(os.path.join(env["CM_TMP_RUN_DIR"], "answer.json"), encoding="utf-8") as file:
        answer: dict[str, Any] = json.load(file)
    raise_failure(answer)
    return answer
