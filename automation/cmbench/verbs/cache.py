"""The verbs of ``cm … cache``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cmbench import request as requests_in
from cmbench.cache import Entry
from cmbench.errors import Error, did_you_mean
from cmbench.select import parse_tags
from cmbench.session import Answer, Session


def show_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm show cache`` (also ``find``): the complete entries that carry the tags."""
    session = Session(cmind, i, write=False)
    entries = _entries(session)
    used = [session.store.last_used(entry) for entry in entries]
    if i.get("out") == "con":
        from cmbench.text import entries_text

        if session.flags.get("json"):
            print(json.dumps([asdict(e) for e in entries], indent=1))
        else:
            print(entries_text(entries, used))
    return {"return": 0, "list": [asdict(entry) for entry in entries]}


def _entries(session: Session) -> list[Entry]:
    known = {"tags", "out", "json", "quiet", "force", "all", "verbose", "silent"}
    for name in session.flags:
        if name not in known:
            hint = did_you_mean(name, known)
            raise Error("unknown-flag", f"the cache knows no flag --{name}", hint=hint)
    tags, uid = requests_in.tags_of(session.i)
    wanted = {*tags.wanted, *("_" + v for v in tags.variations)}
    unwanted = {*tags.unwanted, *("_" + v for v in tags.unwanted_variations)}
    return [
        entry
        for entry in session.store.entries()
        if wanted <= set(entry.tags)
        and not unwanted & set(entry.tags)
        and (not uid or uid in (entry.key, entry.uid, entry.script))
    ]


def remove_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm rm cache``: remove entries by tags; asks first unless -f is given."""
    session = Session(cmind, i, write=False)
    tags, uid = requests_in.tags_of(i)
    if not (uid or tags != parse_tags("") or session.flags.get("all")):
        raise Error(
            "bad-value",
            "which entries should be removed is not said",
            hint="name them: cm rm cache --tags=get,python3 -f, or all of them: --all -f",
        )
    entries = _entries(session)
    if entries and not session.flags.get("force"):
        _confirm(entries)
    for entry in entries:
        session.store.remove(entry)
    if i.get("out") == "con":
        print(f"{len(entries)} entries removed")
    return {"return": 0, "removed": [entry.uid for entry in entries]}


def _confirm(entries: Sequence[Entry]) -> None:
    from cmbench.text import entries_text

    print(entries_text(entries, [e.created for e in entries]))
    if not sys.stdin.isatty():
        raise Error("bad-value", "nothing was removed", hint="add -f to remove without a question")
    if input("Remove these? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Error("interrupted", "nothing was removed")
