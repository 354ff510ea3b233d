"""Inputs that have an effect only with others (``only_with``), or not with them (``not_with``).

A condition is ``_variation``, ``input``, which has to be set, or ``input=value``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from cmbench.errors import Error
from cmbench.format.env import Pending
from cmbench.format.meta import is_true
from cmbench.format.model import InputSpec
from cmbench.plan.step_run import StepRun


def refuse_idle(step_run: StepRun, names: Iterable[str], prefix: str = "") -> None:
    """Raise ``bad-value`` for an input of ``names`` that has no effect in this step.

    ``prefix`` comes before the name where it was typed, such as ``adr.python.``.
    """
    specs = [step_run.script.inputs[name] for name in names if name in step_run.script.inputs]
    bound = [spec for spec in specs if spec.only_with or spec.not_with]
    env = step_run.env.plain() if bound else {}
    for spec in bound:
        value, typed = env.get(spec.env), f"--{prefix}{spec.name}"
        if spec.only_with and _has_value(value, spec):
            _check_needed(spec, step_run, env, typed)
        # A value that happens to be the default contradicts as any other does.
        if spec.not_with and _has_value(value, replace(spec, default="")):
            _check_excluded(spec, step_run, env, typed)


def _check_needed(spec: InputSpec, step_run: StepRun, env: Mapping[str, Any], typed: str) -> None:
    if not any(_holds(condition, step_run, env) for condition in spec.only_with):
        conditions = " or ".join(map(_as_typed, spec.only_with))
        raise Error(
            "bad-value",
            f"{typed} has no effect without {conditions}",
            hint=f"leave out {typed}, or add {_as_typed(spec.only_with[0])}",
        )


def _check_excluded(spec: InputSpec, step_run: StepRun, env: Mapping[str, Any], typed: str) -> None:
    for condition in spec.not_with:
        if _holds(condition, step_run, env):
            raise Error(
                "bad-value",
                f"{typed} has no effect with {_as_typed(condition)}",
                hint=f"leave out {typed}, or {_as_typed(condition)}",
            )


def _has_value(value: Any, spec: InputSpec) -> bool:
    """Return whether the value requests more than happens by default."""
    text = str(value if value is not None else "")
    return text not in ("", spec.default) and (spec.type != "bool" or is_true(value))


def _holds(condition: str, step_run: StepRun, env: Mapping[str, Any]) -> bool:
    if condition.startswith("_"):
        return condition[1:] in step_run.step.choice.variations
    name, _, expected = condition.partition("=")
    spec = step_run.script.inputs.get(name)
    value = env.get(spec.env) if spec else None
    if isinstance(value, Pending):
        return True
    if spec is not None and spec.type == "bool":
        return is_true(value) == is_true(expected or "yes")
    return str(value or "") == expected if expected else value not in (None, "")


def _as_typed(condition: str) -> str:
    return condition if condition.startswith("_") else f"--{condition}"


def unknown(
    conditions: Iterable[str], variations: Container[str], inputs: Container[str]
) -> list[str]:
    """Return the conditions that name none of the ``variations`` and ``inputs``."""
    return [
        each
        for each in conditions
        if (each[1:] not in variations if each[:1] == "_" else each.partition("=")[0] not in inputs)
    ]
