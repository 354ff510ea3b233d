"""The verbs of ``cm … cache`` about the cache as a whole: verify, gc, du."""

from __future__ import annotations

from typing import Any

from cmbench.api import cache
from cmbench.cache import retention
from cmbench.cli.reply import Command, Reply, ReplyItem
from cmbench.cli.results import listed_of, named_entries, names_entries
from cmbench.errors import Error
from cmbench.format.meta import is_true
from cmbench.lib.text_files import counted
from cmbench.render.cache import SHOWN, checked_text, disposal_text, usage_text


def verify_cache(command: Command) -> Reply:
    """``cm verify cache``: compare payloads with what was recorded when they were published."""
    results = cache.verify(command.workspace, listed_of(command))
    bad = [item for item in results if item.faults]
    total = f"{counted(len(results), 'entry', 'entries')} checked, {len(bad)} damaged"
    data = [_data(item) for item in results]
    text = "\n".join([*map(checked_text, results), total])
    if not bad:
        return Reply({"list": data}, text, data)
    hint = "remove what is damaged; it is made again when needed: "
    error = Error(
        "cache-damaged",
        f"{counted(len(bad), 'entry differs', 'entries differ')} from what was published",
        hint=f"{hint}`cm rm cache {bad[0].entry.uid}`",
        context=[f"{item.entry.path}: {item.faults[0]}" for item in bad[:SHOWN]],
    )
    return Reply({}, text, data, error)


def _data(item: cache.EntryCheck) -> dict[str, Any]:
    return {
        "uid": item.entry.uid,
        "script": item.entry.script,
        "path": item.entry.path,
        "files": item.files,
        "read": item.read,
        "added": item.added,
        "recorded": item.recorded,
        "faults": list(item.faults),
    }


def prune_cache(command: Command) -> Reply:
    """``cm prune cache``: remove the entries that have expired."""
    done = cache.remove(command.workspace, cache.expired(listed_of(command))).entries
    answer = {"pruned": len(done), "removed": [entry.uid for entry in done]}
    return Reply(
        answer, f"{counted(len(done), 'expired entry', 'expired entries')} removed", answer
    )


def mark_tmp_cache(command: Command) -> Reply:
    """``cm mark-tmp cache``: entries that are no longer used, their files kept.

    Raises ``bad-value`` where none is named.
    """
    # Tags that nothing carries are no failure, as with MLC.
    nothing = names_entries(command) and not listed_of(command)
    named = [] if nothing else named_entries(command, "mark-tmp")
    marked = cache.set_aside(command.workspace, named)
    items = [ReplyItem(cache.summary(command.workspace, entry)) for entry in marked]
    text = f"{counted(len(marked), 'entry', 'entries')} marked: made again when needed"
    return Reply({"list": items}, text, items)


def gc_cache(command: Command) -> Reply:
    """``cm gc cache``: remove unneeded entries; only shows them, unless ``--yes`` is given."""
    rules = _rules(command)
    act = not is_true(command.flags.get("dry_run", False)) and any(
        is_true(command.flags.get(name, False)) for name in ("yes", "y", "force")
    )
    disposal = cache.collect(command.workspace, rules, act, lambda who: print(f"waiting for {who}"))
    answer = {
        "removed" if act else "would_remove": [entry.uid for entry in disposal.entries],
        "litter": [item.path for item in disposal.litter],
        "kept": dict(disposal.held),
        "freed": disposal.freed,
        "left": disposal.left,
        "staying": disposal.staying,
    }
    return Reply(answer, lambda: disposal_text(disposal, rules, act), {"return": 0, **answer})


def _rules(command: Command) -> retention.RetentionRules:
    texts = {}
    for name in ("max_size", "older_than", "keep_runs"):
        value = command.flags.get(name, "")
        if isinstance(value, bool):
            flag = name.replace("_", "-")
            raise Error("bad-value", f"--{flag} needs a value", hint="such as 20GB or 30d")
        texts[name] = str(value)
    return retention.RetentionRules(
        max_size=retention.bytes_of(texts["max_size"]) if texts["max_size"] else None,
        older_than=retention.seconds_of(texts["older_than"]) if texts["older_than"] else None,
        keep_runs=retention.seconds_of(texts["keep_runs"] or "7d"),
    )


def du_cache(command: Command) -> Reply:
    """``cm du cache``: what uses the disk, by script."""
    workspace = command.workspace
    usage = cache.usage(workspace)
    shared = workspace.store.shared.root if workspace.store.shared is not None else ""
    answer = {"total": usage.total, "parts": [list(row) for row in usage.parts]}
    text = usage_text(usage, workspace.root, shared)
    return Reply(answer, text, {"return": 0, **answer})
