"""``cm find script`` and ``cm show script``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cmbench.api import scripts
from cmbench.cli.reply import Command, Item, Reply
from cmbench.cli.results import script_help
from cmbench.format.meta import read_meta


class Found(Item):
    """One script that was found."""

    @property
    def meta(self) -> dict[str, Any]:
        """Its whole meta."""
        return read_meta(self.path)


def find_script(command: Command) -> Reply:
    """Those with the tags, of the name, or else that speak of the words."""
    tags, name = command.query()
    words = "" if command.flags.get("tags") else "".join(command.names[:1])
    rows = scripts.find(command.workspace, tags, name, words)
    found = [
        Found(alias=r.alias, uid=r.uid, path=r.path, repo=r.repository, tags=list(r.tags))
        for r in rows
    ]

    def text() -> str:
        if command.flags.get("p"):
            return "\n".join(row.path for row in rows)
        from cmbench.render.listing import scripts_text

        return scripts_text(rows)

    return Reply({"list": found}, text, found)


def show_script(command: Command) -> Reply:
    """What one script is for, its inputs and variations."""
    tags, name = command.query()
    script = scripts.show(command.workspace, tags, name)
    return replace(
        script_help(script, command.workspace.index),
        data={"path": script.path, "meta": script.meta},
    )
