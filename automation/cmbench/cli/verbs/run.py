"""``cm run script``."""

from __future__ import annotations

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
        return script_help(request.script, request.workspace.index)
    for name in _OF_PLANS:
        if name in command.flags and name not in request.script.inputs:
            raise Error(
                "unknown-flag",
                f"--{name} belongs to plans",
                hint="use cm plan script ...",
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
    """``cm prepare script``: run what a script depends on, and not the script itself."""
    command.flags["fake_run"] = True
    return run_script(command)


def _extras(ran: FinishedRun, answer: Answer) -> list[str]:
    from cmbench.cli.extras import extras

    return extras(ran, answer)
