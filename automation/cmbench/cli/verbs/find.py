"""``cm find script`` and ``cm show script``."""

from __future__ import annotations

from dataclasses import replace

from cmbench.api import scripts
from cmbench.cli.reply import Command, Reply
from cmbench.cli.results import ScriptItem, script_help, warn
from cmbench.errors import Error


def find_script(command: Command) -> Reply:
    """Those with the tags, of the name, or else that speak of the words."""
    words = "" if command.flags.get("tags") else " ".join(command.names)
    tags, name = command.search()
    try:
        rows = scripts.find(command.workspace, tags, name, words)
    except Error as error:
        if error.code != "script-not-found" or ":" in name:
            raise
        # To look and find nothing is no failure, as with the first engines.
        warn(command, [error.message, *error.hint.lines()])
        return Reply({"list": []}, None, [])
    listed = [
        ScriptItem(alias=r.alias, uid=r.uid, path=r.path, repo=r.repository, tags=list(r.tags))
        for r in rows
    ]

    def text() -> str:
        if command.lists_paths:
            return "\n".join(row.path for row in rows)
        from cmbench.render.listing import scripts_text

        return scripts_text(rows)

    return Reply({"list": listed}, text, listed)


def show_script(command: Command) -> Reply:
    """What one script is for, its inputs and variations."""
    tags, name = command.query()
    script = scripts.show(command.workspace, tags, name)
    return replace(
        script_help(script, command.workspace.index),
        data={"path": script.path, "meta": script.meta},
    )
