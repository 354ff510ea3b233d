"""``cm find script`` and ``cm show script``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from cmbench.author.author_session import refuse_unknown
from cmbench.errors import Error
from cmbench.format.meta import read_meta
from cmbench.format.model import Script
from cmbench.index.scripts import Index, Row
from cmbench.index.select import choose
from cmbench.session import request as requests_in
from cmbench.session.session import Answer, Item, Session

_FLAGS = {"tags", "json", "out", "quiet", "silent", "verbose", "debug", "help"}


class Found(Item):
    """One script that was found."""

    @property
    def meta(self) -> dict[str, Any]:
        """Its whole meta."""
        return read_meta(self.path)


def find_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm find script``: those with the tags, of the name, or else that speak of the words."""
    session = Session(cmind, i, write=True)
    refuse_unknown(session.flags, _FLAGS)
    tags, uid = requests_in.tags_of(i)
    rows = session.index.by_uid(uid) if uid else session.index.find(tags)
    rows = [row for row in rows if all(row.accepts(v) for v in tags.variations)]
    if not rows and not i.get("tags"):
        rows = _speaking_of(session.index, str(i.get("artifact") or ""))
    if not rows:
        choose(session.index, tags, uid)
    found = [
        Found(alias=r.alias, uid=r.uid, path=r.path, repo=r.repo, tags=sorted(r.tags)) for r in rows
    ]
    if i.get("out") == "con" and session.flags.get("json"):
        print(json.dumps(found, indent=1))
    elif i.get("out") == "con":
        from cmbench.render.listing import scripts_text

        print(scripts_text(rows, [_title(session, row) for row in rows]))
    return {"return": 0, "list": found}


def _speaking_of(index: Index, text: str) -> list[Row]:
    """Scripts in whose name, tags or title all words are, ``*`` standing for anything."""
    patterns = [f"*{word}*" for word in re.split(r"[\s,]+", text.lower()) if word]
    if not patterns:
        return []
    return [
        row
        for row in index.rows().values()
        if all(
            fnmatchcase(" ".join((row.alias, *row.tags, row.title)).lower(), p) for p in patterns
        )
    ]


def _title(session: Session, row: Row) -> str:
    if not row.faults:
        return row.title
    try:
        return session.index.script(row.path).title
    except Error as error:
        return error.message


def show_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm show script``: what one script is for, its inputs and variations."""
    session = Session(cmind, i, write=True)
    refuse_unknown(session.flags, _FLAGS)
    tags, uid = requests_in.tags_of(i)
    script = session.index.script(choose(session.index, tags, uid).path)
    if session.flags.get("json") and i.get("out") == "con":
        print(json.dumps({"path": script.path, "meta": script.meta}, indent=1, default=str))
        i = {**i, "out": ""}
    return show_help(script, i)


def show_help(script: Script, i: Mapping[str, Any]) -> Answer:
    if i.get("out") == "con":
        from cmbench.render.listing import help_text

        print(help_text(script))
    return {"return": 0, "meta": dict(script.meta), "path": script.path}
