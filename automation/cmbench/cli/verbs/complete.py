"""``cm complete script``: the shell code for completion, and the candidates."""

from __future__ import annotations

import os

from cmbench.api import history
from cmbench.cli.commands import verbs
from cmbench.cli.completion import LINE, SHELLS, complete
from cmbench.cli.reply import Command, Reply
from cmbench.errors import Error

_RUNS = 20
"""Ids of runs that are offered, the newest ones."""


def complete_script(command: Command) -> Reply:
    """The code for ``--shell``, or the candidates for the line in ``CMBENCH_LINE``.

    Raises ``bad-value`` for another shell.
    """
    shell = str(command.flags.get("shell") or "")
    line = os.environ.get(LINE, "")
    if shell not in SHELLS and (shell or not line):
        raise Error(
            "bad-value",
            f'completion is there for {" and ".join(SHELLS)}, not for "{shell}"',
            hint='put into ~/.bashrc: `eval "$(cm complete script --shell=bash)"`',
        )
    runs = (run.id for run in history.runs(command.workspace, _RUNS))
    candidates = [] if shell else complete(line, verbs(), command.workspace.index, runs)
    return Reply({"candidates": candidates}, SHELLS[shell] if shell else "\n".join(candidates))
