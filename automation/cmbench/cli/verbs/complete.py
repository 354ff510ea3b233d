"""``cm complete script``: what a shell loads for completion, and what it then asks for."""

from __future__ import annotations

import os
from typing import Any

from cmbench.cli.completion import LINE, SHELLS, complete
from cmbench.cli.usage import verbs
from cmbench.errors import Error
from cmbench.session.session import Answer, Session


def complete_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """The code for ``--shell``, or the candidates for the line in ``CMBENCH_LINE``."""
    session = Session(cmind, i, write=True)
    shell = str(session.flags.get("shell") or "")
    line = os.environ.get(LINE, "")
    if shell not in SHELLS and (shell or not line):
        raise Error(
            "bad-value",
            f'completion is there for {" and ".join(SHELLS)}, not for "{shell}"',
            hint='put into ~/.bashrc: eval "$(cm complete script --shell=bash)"',
        )
    found = [] if shell else complete(line, verbs(), session.index)
    if i.get("out") == "con":
        print(SHELLS[shell] if shell else "\n".join(found))
    return {"return": 0, "candidates": found}
