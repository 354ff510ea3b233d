"""``cm export cache`` and ``cm import cache``: entries on their way to another machine."""

from __future__ import annotations

import os
import shlex

from cmbench.api import cache
from cmbench.cli.reply import Command, Reply
from cmbench.cli.results import named_entries
from cmbench.errors import Error
from cmbench.lib.text_files import counted, size_text
from cmbench.render.cache import imported_text

DEFAULT_NAME = "cache.tar.gz"


def export_cache(command: Command) -> Reply:
    """``cm export cache`` (also ``bundle``): entries and all they depend on as one archive.

    Raises ``bad-value`` without --output.
    """
    entries = named_entries(command, "export")
    output = command.flags.get("output") or DEFAULT_NAME
    if not isinstance(output, str):
        raise Error("bad-value", "--output needs a value", hint="such as --output=cache.tar.gz")
    target = os.path.abspath(os.path.expanduser(output))
    written = cache.export(command.workspace, entries, target)
    lines = [f"{size_text(e.size):>10}  {e.script}_{e.uid}" for e in written]
    lines.append(f"{counted(len(written), 'entry', 'entries')} in {target}")
    archive = shlex.quote(os.path.basename(target))
    lines.append(f"on the other machine: cm import cache --input={archive}")
    answer = {"path": target, "entries": [entry.key for entry in written]}
    return Reply(answer, "\n".join(lines), {"return": 0, **answer})


def import_cache(command: Command) -> Reply:
    """``cm import cache``: import checked entries of an archive, at the same path below this home.

    Raises ``cannot-import`` where none of them fits.
    """
    path = _archive(str(command.flags.get("input") or "".join(command.names[:1])))
    brought = cache.import_archive(command.workspace, path, lambda who: print(f"waiting for {who}"))
    imported = brought.imported
    answer = {
        "imported": [entry.key for entry in imported.made],
        "present": imported.present,
        "refused": imported.refused,
        "not_sound_here": dict(brought.unsound),
    }
    error = None
    if imported.refused and not imported.made and not imported.present:
        error = Error(
            "cannot-import",
            "no entry of the archive can be used here",
            hint="import it where CM_REPOS is the same path, or make the entries on this machine",
            context=[f"{folder}: {why}" for folder, why in imported.refused.items()],
        )
    return Reply(answer, imported_text(brought), {"return": 0, **answer}, error)


def _archive(name: str) -> str:
    """The path of the archive ``name``, which must be there."""
    hint = "name it: `cm import cache --input=cache.tar.gz`"
    if not name:
        raise Error("bad-value", "no archive is named", hint=hint)
    path = os.path.abspath(os.path.expanduser(name))
    if not os.path.isfile(path):
        raise Error("file-not-found", f"there is no file {path}", hint=hint)
    return path
