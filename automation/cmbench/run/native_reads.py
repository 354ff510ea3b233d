"""Which variables a native script counts as reading: those it names, and those its call has set."""

from __future__ import annotations

from collections.abc import Sequence

from cmbench.format.outside import HOST
from cmbench.plan.step_run import StepRun

_OF_BASH = frozenset(
    ("PWD", "OLDPWD", "RANDOM", "SECONDS", "LINENO", "SHLVL", "PPID", "BASHPID", "FUNCNAME", "_")
)


def native_reads(step_run: StepRun, words: Sequence[str]) -> list[str]:
    """Return what a native script counts as reading.

    Every word it names, from the env or else from the process, the facts that it asks for, and
    every value that this very call has set: an input, ``--env.KEY``, the env of a dependency entry.
    """
    if "*" in words:
        words = [*words, "all:", "os:*"]
    facts = [f"os:{word}" for word in words if word.startswith(HOST)]
    named = [word for word in words if not _is_of_bash(word)]
    mapped = [key for block in step_run.step.blocks for key in block.input_mapping.values()]
    variables = variable_reads(step_run, named)
    return [*variables, *facts, *mapped, *step_run.request.env, *step_run.request.const]


def _is_of_bash(word: str) -> bool:
    """Return whether ``word`` is no variable that has a value from outside."""
    return word in _OF_BASH or (word != "BASH_ENV" and word.startswith(("*", "BASH_", HOST)))


def variable_reads(step_run: StepRun, named: Sequence[str]) -> list[str]:
    """The reads of variables: from the env of the step, and what it does not have from outside."""
    present = {key for key, value in step_run.env.plain().items() if value is not None}
    outside = [
        f"os:{word}"
        for word in named
        if ":" not in word and word not in present and f"+{word}" not in named
    ]
    return [*named, *outside]
