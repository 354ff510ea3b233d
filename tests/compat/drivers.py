"""Runs one request with the engine that this Python holds: ``python drivers.py cm|mlc IN OUT``.

``IN`` is a JSON file with the request, ``OUT`` is written with what came back. It imports nothing
of this project: the same file starts our engine (through cmind) and the engines of others.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def with_cmind(request: dict[str, Any]) -> dict[str, Any]:
    import cmind

    answer: dict[str, Any] = cmind.access({"action": "run", "automation": "script", **request})
    return answer


def with_mlc(request: dict[str, Any]) -> dict[str, Any]:
    import yaml

    # The same parser in C: each start of that engine reads every meta file anew.
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    import mlc

    try:
        answer: dict[str, Any] = mlc.access({"action": "run", "target": "script", **request})
    except Exception as problem:
        return {"return": 1, "error": str(problem)}
    return answer


def main(engine: str, source: str, target: str) -> None:
    with open(source, encoding="utf-8") as stream:
        request = json.load(stream)
    answer = {"cm": with_cmind, "mlc": with_mlc}[engine](request)
    kept = {key: answer.get(key) for key in ("return", "error", "code", "new_env", "new_state")}
    with open(target, "w", encoding="utf-8") as stream:
        json.dump(kept, stream, default=str, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
