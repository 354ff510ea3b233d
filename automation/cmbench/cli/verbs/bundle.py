"""``cm export cache`` and ``cm import cache``: entries on their way to another machine."""

from __future__ import annotations

import os
import shlex
from typing import Any

from cmbench.cache import bundle
from cmbench.cache.store import Entry
from cmbench.cli.verbs.cache import check_flags, count, named, resolver_of, tell
from cmbench.errors import Error
from cmbench.lib.text_files import size_text
from cmbench.session.session import Answer, Session

DEFAULT_NAME = "cache.tar.gz"


def export_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm export cache`` (also ``bundle``): entries and all they depend on as one archive."""
    session = Session(cmind, i, write=False)
    entries = named(session, "export", ("output",))
    output = session.flags.get("output") or DEFAULT_NAME
    if not isinstance(output, str):
        raise Error("bad-value", "--output needs a value", hint="such as --output=cache.tar.gz")
    _refuse_unsound(session, entries)
    target = os.path.abspath(os.path.expanduser(output))
    written = bundle.export(session.store, entries, target)
    lines = [f"{size_text(e.size):>10}  {e.script}_{e.uid}" for e in written]
    lines.append(f"{count(len(written), 'entry', 'entries')} in {target}")
    archive = shlex.quote(os.path.basename(target))
    lines.append(f"on the other machine: cm import cache --input={archive}")
    answer: Answer = {"return": 0, "path": target, "entries": [entry.key for entry in written]}
    tell(session, lambda: "\n".join(lines), answer)
    return answer


def _refuse_unsound(session: Session, entries: list[Entry]) -> None:
    resolver = resolver_of(session)
    for entry in entries:
        why = resolver.unsound(entry)
        if why:
            raise Error(
                "cache-damaged",
                f"{entry.script}_{entry.uid} does not answer even here: {why}",
                hint="make it again, or name others: cm show cache",
            )


def import_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm import cache``: entries of an archive, checked, at the same place below this home."""
    session = Session(cmind, i, write=False)
    check_flags(session, ("input",))
    name = str(session.flags.get("input") or i.get("artifact") or "")
    path = os.path.abspath(os.path.expanduser(name))
    if not name or not os.path.isfile(path):
        raise Error(
            "file-not-found" if name else "bad-value",
            f"there is no file {path}" if name else "no archive is named",
            hint="name it: cm import cache --input=cache.tar.gz",
        )
    session.store.sweep()
    found = bundle.import_archive(session.store, path, lambda who: print(f"waiting for {who}"))
    resolver = resolver_of(session)
    stale = {os.path.basename(e.path): why for e in found.made if (why := resolver.unsound(e))}
    answer: Answer = {
        "return": 0,
        "imported": [entry.key for entry in found.made],
        "present": found.present,
        "refused": found.refused,
        "not_sound_here": stale,
    }
    tell(session, lambda: "\n".join(_imported_lines(found, stale)), answer)
    if found.refused and not found.made and not found.present:
        reasons = [f"{folder}: {why}" for folder, why in found.refused.items()]
        raise Error(
            "cannot-import",
            "no entry of the archive can be used here",
            hint="import it where CM_REPOS is the same path, or make the entries on this machine",
            context=reasons,
        )
    return answer


def _imported_lines(found: bundle.Imported, stale: dict[str, str]) -> list[str]:
    names = [os.path.basename(entry.path) for entry in found.made]
    lines = [
        f"imported {name}" + (f"; does not answer here: {stale[name]}" if name in stale else "")
        for name in names
    ]
    lines += [f"refused  {folder}: {why}" for folder, why in found.refused.items()]
    lines.append(
        f"{count(len(found.made), 'entry', 'entries')} imported, {len(found.present)} were here, "
        f"{len(found.refused)} refused"
    )
    return lines
