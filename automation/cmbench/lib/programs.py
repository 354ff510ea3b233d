"""Programs that a step brings: what a ``customize.py`` runs beside its ``run.sh``."""

from __future__ import annotations

from typing import Any


def run_program(i: dict[str, Any], name: str) -> dict[str, Any]:
    """Run ``NAME.sh`` of the step in its environment; return what a hook returns.

    Raises Error, the one of the program, if it fails.
    """
    action = {"run_script_input": i["run_script_input"], "env": i["env"], "script_name": name}
    answer: dict[str, Any] = i["automation"].run_native_script(action)
    cause = getattr(answer, "cause", None)
    if cause is not None:
        raise cause
    return answer
