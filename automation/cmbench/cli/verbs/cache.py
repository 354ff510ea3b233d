"""The verbs of ``cm … cache`` about single entries: show, rm, pin, unpin, why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cmbench.api import cache
from cmbench.cache.store import CacheEntry
from cmbench.cli.reply import Command, Reply, ReplyItem, refuse_unknown
from cmbench.cli.results import listed_of, named_entries, names_entries, request_of
from cmbench.cli.verb import OF_ENTRIES
from cmbench.errors import Error, visible
from cmbench.format.env import as_text
from cmbench.lib.text_files import counted
from cmbench.render.cache import entries_text, foreseen_text, why_text


def show_cache(command: Command) -> Reply:
    """``cm show cache`` (also ``find``): the complete entries that carry the tags."""
    workspace, query = command.workspace, command.query()
    if command.only_shown and not command.flags.get("env"):
        listed = cache.listed(workspace, *query)
        return Reply({}, lambda: _listed_text(command, listed, [one.used for one in listed]))
    entries = cache.entries(workspace, *query)
    items = [ReplyItem(cache.summary(workspace, entry)) for entry in entries]

    def text() -> str | None:
        if command.flags.get("env"):
            return "\n".join(map(_env_text, entries))
        return _listed_text(command, entries, [data["last_used"] for data in items])

    return Reply({"list": items}, text, items)


def _listed_text(
    command: Command, entries: Sequence[cache.AnyEntry], used: Sequence[float]
) -> str | None:
    if command.lists_paths:
        # With nothing found there is nothing to print, not even an empty line.
        return "\n".join(entry.path for entry in entries) or None
    return entries_text(entries, used, cache.marks(command.workspace, entries))


def _env_text(entry: CacheEntry) -> str:
    lines = [f"  {key}={as_text(value)}" for key, value in sorted(entry.new_env.items())]
    return "\n".join([f"{entry.script}_{entry.uid}", *lines])


def remove_cache(command: Command) -> Reply:
    """``cm rm cache``: remove entries by tags; prompts first unless -f is given.

    Raises ``bad-value`` where none is named.
    """
    if not names_entries(command) and not command.flags.get("force"):
        raise Error(
            "bad-value",
            "it is not clear which entries to remove",
            hint="name them: `cm rm cache --tags=get,python3 -f`, or all of them: -f",
        )
    every = listed_of(command)
    removal = cache.removable(command.workspace, every)
    if removal.entries and not command.flags.get("force"):
        _confirm(removal.entries)
    done = cache.remove(command.workspace, every)
    text = f"{counted(len(done.entries), 'entry', 'entries')} removed"
    if done.pinned:
        count = counted(len(done.pinned), "pinned entry", "pinned entries")
        text += f"\n{count} left; first: cm unpin cache <id>"
    if done.shared:
        shared = counted(len(done.shared), "entry", "entries")
        text += f"\n{shared} left in the shared cache, which is read-only"
    if not every:
        text = "no cache entry matches; 0 entries removed"
    answer = {"removed": [entry.uid for entry in done.entries]}
    return Reply(answer, text, {"return": 0, **answer})


def _confirm(entries: Sequence[cache.AnyEntry]) -> None:
    print(visible(entries_text(entries, [e.created for e in entries])))
    if not sys.stdin.isatty():
        raise Error("bad-value", "nothing was removed", hint="add -f to remove without a question")
    try:
        said = input("Remove these? [y/N] ")
    except EOFError:
        print()
        said = ""
    if said.strip().lower() not in ("y", "yes"):
        raise Error("not-confirmed", "nothing was removed", hint="answer y to remove them")


def pin_cache(command: Command) -> Reply:
    """``cm pin cache``: keep entries from ``gc``, ``rm`` and from being replaced."""
    return _pin_reply(cache.pin(command.workspace, named_entries(command, "pin")), "pinned")


def unpin_cache(command: Command) -> Reply:
    """``cm unpin cache``: let go of pinned entries."""
    return _pin_reply(cache.unpin(command.workspace, named_entries(command, "unpin")), "unpinned")


def _pin_reply(entries: Sequence[CacheEntry], done: str) -> Reply:
    lines = [f"{done}: {entry.script}_{entry.uid}" for entry in entries] or [f"nothing {done}"]
    answer = {done: [entry.uid for entry in entries]}
    return Reply(answer, "\n".join(lines), {"return": 0, **answer})


def why_cache(command: Command) -> Reply:
    """``cm why cache``: the origin, dependencies, users and soundness of an entry.

    With the inputs of a script, or where no entry carries the tags, it is about a call that was not
    made: what the cache would answer, and how the nearest entries differ.
    """
    tags, name = command.query()
    inputs = set(command.flags) - set(OF_ENTRIES)
    listed = [] if inputs else listed_of(command)
    of_a_call = tags.wanted and not name and not listed
    scripts = replace(tags, variations=(), unwanted_variations=())
    if of_a_call and command.workspace.index.find(scripts):
        return _why_call(command)
    refuse_unknown(command.flags, OF_ENTRIES)
    entries = named_entries(command, "why", listed)
    explanations = [
        _explained(command, reasons) for reasons in cache.why(command.workspace, entries)
    ]
    return Reply(
        {"list": explanations}, lambda: "\n\n".join(map(why_text, explanations)), explanations
    )


def _why_call(command: Command) -> Reply:
    forecast = cache.foresee(request_of(command))
    root, misses = forecast.planned_step, list(forecast.misses)
    data = {
        "tags": root.tags,
        "script": root.script,
        "cached": root.cached,
        "why": root.why,
        "misses": misses,
    }
    return Reply({"list": [], "call": data}, foreseen_text(forecast), data)


def _explained(command: Command, reasons: cache.EntryReasons) -> dict[str, Any]:
    return {
        **cache.summary(command.workspace, reasons.entry),
        "sound": not reasons.why_not,
        "why_not": reasons.why_not,
        "made_with": list(reasons.needs),
        "used_by": [f"{e.script}_{e.uid}" for e in reasons.used_by],
        "used_by_runs": list(reasons.runs),
    }
