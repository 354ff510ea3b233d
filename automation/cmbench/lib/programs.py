"""Programs that a step brings: what a ``customize.py`` runs beside its ``run.sh``."""

from __future__ import annotations

from typing import Any


def run_program(i: dict[str, Any], name: str) -> dict[str, Any]:
    """Run ``NAME.sh`` of the step in its environment; returns what a hook returns.

    Raises Error where the program fails: a hook of ours has nothing to try after that.
    """
    action = {"run_script_input": i["run_script_input"], "env": i["env"], "script_name": name}
    answer: dict[str, Any] = i["automation"].run_native_script(action)
    cause = getattr(answer, "cause", None)
    if cause is not None:
        raise cause
    return answer
