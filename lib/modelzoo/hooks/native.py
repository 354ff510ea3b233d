"""Native programs that a ``customize.py`` runs in addition to its ``run.sh``."""

from __future__ import annotations

from typing import Any


def run_program(i: dict[str, Any], name: str) -> dict[str, Any]:
    """Run ``NAME.sh`` of the step in its environment; return what a hook returns.

    Raise the error of the program where it fails: a hook has nothing to try after that.
    """
    request = {"run_script_input": i["run_script_input"], "env": i["env"], "script_name": name}
    answer: dict[str, Any] = i["automation"].run_native_script(request)
    cause = getattr(answer, "cause", None)
    if cause is not None:
        raise cause
    return answer
