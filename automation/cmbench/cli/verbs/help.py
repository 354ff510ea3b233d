"""``cm help script``, ``cm help cache``, and ``cm <verb> <thing> --help``."""

from __future__ import annotations

from cmbench.cli.commands import usage_of
from cmbench.cli.reply import Command, Reply
from cmbench.cli.results import script_help
from cmbench.cli.usage import usage_text
from cmbench.index.select import choose


def show_usage(command: Command) -> Reply:
    """Return the verbs; the flags of one with ``--help``; the inputs of a script."""
    if command.thing == "script" and not command.help_of:
        tags, name = command.query()
        if name or tags.wanted:
            index = command.workspace.index
            return script_help(index.script(choose(index, tags, name).path), index)
    lines = [usage for usage, _ in usage_of(command.thing)]
    return Reply({"usage": lines}, lambda: usage_text(command.thing, command.help_of))
