"""``cm log script``: what a run has printed."""

from __future__ import annotations

from cmbench.api.repeating import log
from cmbench.cli.reply import Command, Reply
from cmbench.errors import Error
from cmbench.format.meta import is_true


def log_script(command: Command) -> Reply:
    """``cm log script [run]``: the whole log of a run, the newest if none is named.

    Raises ``bad-value`` for several.
    """
    if len(command.names) > 1:
        raise Error(
            "bad-value",
            "only one log can be shown at a time",
            hint="name one: `cm log script last`",
        )
    run = command.names[0] if command.names else "last"
    step = str(command.flags.get("step") or "")
    errors = is_true(command.flags.get("errors", False))
    excerpt = log(command.workspace, run, step, errors)
    text = "\n".join([*excerpt.lines, f"log: {excerpt.path}"])
    if errors and not excerpt.lines:
        of_steps = f" of steps named {step}" if step else ""
        text = f"no errors{of_steps} in {excerpt.path}"
    return Reply({"log": excerpt.path, "lines": list(excerpt.lines)}, text)
