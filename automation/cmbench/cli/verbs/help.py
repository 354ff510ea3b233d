"""``cm help script``, ``cm help cache``, and ``cm <verb> <thing> --help``."""

from __future__ import annotations

from cmbench.cli.commands import usage_of
from cmbench.cli.reply import Command, Reply
from cmbench.cli.usage import usage_text


def show_usage(command: Command) -> Reply:
    """The verbs; of the one that ``--help`` stands behind, its flags."""
    lines = [usage for usage, _ in usage_of(command.thing)]
    return Reply({"usage": lines}, lambda: usage_text(command.thing, command.help_of))
