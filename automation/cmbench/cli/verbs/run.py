"""``cm run script``."""

from __future__ import annotations

import os
from typing import Any

from cmbench.api.running import FinishedRun, run
from cmbench.cli.reply import Answer, Command, Reply
from cmbench.cli.results import answer_of, request_of, script_help
from cmbench.errors import Error
from cmbench.render.progress import screen

_OF_PLANS = ("explain", "why", "dot", "mermaid")


def run_script(command: Command) -> Reply:
    """Run a script and all it needs; raises ``unknown-flag``."""
    from cmbench.render.runs import end_text

    request = request_of(command)
    if command.flags.get("help"):
        whole = command.flags["help"] == "all"
        return script_help(request.script, request.workspace.index, whole)
    for name in _OF_PLANS:
        if name in command.flags and name not in request.script.inputs:
            raise Error(
                "unknown-flag",
                f"--{name} belongs to plans",
                hint="use `cm plan script ...`",
            )
    ran = run(request, on_event=screen(command.console, request.options))
    answer = answer_of(ran)
    lines = _extras(ran, answer) if request.request.modes else []
    shown = ran.secrets.data(answer)
    for line in lines:
        command.say(ran.secrets.text(line))
    # A calling program gets the values; printed or saved answers have no secrets.
    values = shown if command.printed else answer
    return Reply(values, lambda: end_text(ran, {"return": 0, **shown}))


def prepare_script(command: Command) -> Reply:
    """``cm prepare script``: fetch all that a run needs, for a machine without a network.

    Of a script of others, run its dependencies, and not the script itself. Raises ``bad-value``
    without a folder.
    """
    own: dict[str, Any] = {}
    for name in ("output", "for"):
        if name in command.flags:
            own[name] = command.flags.pop(name)
    request = request_of(command)
    if not request.script.dialect.inputs_bind:
        command.flags.update(own, fake_run=True)
        return run_script(command)
    from cmbench.api.preparation import prepare
    from cmbench.render.preparation import prepared_text

    output = own.get("output")
    if not isinstance(output, str) or not output:
        raise Error("bad-value", "no folder is named to prepare", hint="add --output=DIR")
    folder = os.path.abspath(os.path.expanduser(output))
    made = prepare(request, folder, str(own.get("for") or ""), command.say)
    return Reply(made.data(), prepared_text(made, request.command))


def _extras(ran: FinishedRun, answer: Answer) -> list[str]:
    from cmbench.cli.extras import extras

    return extras(ran, answer)
