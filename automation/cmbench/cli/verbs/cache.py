"""The verbs of ``cm … cache`` about single entries: show, rm, pin, unpin, why."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from cmbench.cache import retention as housekeeping
from cmbench.cache.store import Entry
from cmbench.errors import Error, did_you_mean
from cmbench.index.select import parse_tags
from cmbench.plan.resolve import Resolver
from cmbench.session import request as requests_in
from cmbench.session.session import Answer, Item, Session

_FLAGS = {"tags", "out", "json", "quiet", "force", "all", "verbose", "silent", "debug"}
_SHORTEST = 4
"""Digits of a uid that name an entry."""


def show_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm show cache`` (also ``find``): the complete entries that carry the tags."""
    session = Session(cmind, i, write=False)
    entries = chosen(session)
    store = session.store
    found = [Item({**asdict(e), **housekeeping.summary(e, store)}) for e in entries]

    def text() -> str:
        from cmbench.render.listing import entries_text

        marks = [", ".join(word for word in ("pinned", "shared") if data[word]) for data in found]
        return entries_text(entries, [data["last_used"] for data in found], marks)

    tell(session, text, found)
    return {"return": 0, "list": found}


def tell(session: Session, text: Callable[[], str], data: Any) -> None:
    """Print a verb's result on the console: ``text``, or ``data`` under ``--json``."""
    if session.i.get("out") == "con":
        print(json.dumps(data, indent=1) if session.flags.get("json") else text())


def check_flags(session: Session, known: Iterable[str] = ()) -> None:
    """Refuse a flag that the verb does not know."""
    allowed = {*_FLAGS, *known}
    for name in session.flags:
        if name not in allowed:
            hint = did_you_mean(name, allowed) or "its flags: put --help behind the command"
            raise Error("unknown-flag", f"this command knows no flag --{name}", hint=hint)


def chosen(session: Session, known: Iterable[str] = ()) -> list[Entry]:
    """The entries that a call names by tags, script, uid or the start of a uid; else all."""
    check_flags(session, known)
    tags, uid = requests_in.tags_of(session.i)
    wanted = {*tags.wanted, *("_" + v for v in tags.variations)}
    unwanted = {*tags.unwanted, *("_" + v for v in tags.unwanted_variations)}
    return [
        entry
        for entry in session.store.entries()
        if wanted <= set(entry.tags)
        and not unwanted & set(entry.tags)
        and (not uid or _is_named(entry, uid))
    ]


def _is_named(entry: Entry, word: str) -> bool:
    names = (entry.key, entry.uid, entry.script, os.path.basename(entry.path))
    return word in names or (len(word) >= _SHORTEST and entry.uid.startswith(word))


def named(session: Session, verb: str, known: Iterable[str] = ()) -> list[Entry]:
    """The entries that a call must name; raises where it names none or none is found."""
    tags, uid = requests_in.tags_of(session.i)
    if not (uid or tags != parse_tags("") or session.flags.get("all")):
        raise Error(
            "bad-value",
            "no entry is named",
            hint=f"name one by its tags or its id: cm {verb} cache --tags=get,python3",
        )
    entries = chosen(session, known)
    if not entries:
        raise Error("entry-not-found", "no cache entry matches", hint="see them: cm show cache")
    return entries


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
    pinned = session.store.pinned()
    every = chosen(session)
    found = [entry for entry in every if session.store.owns(entry)]
    entries = [entry for entry in found if entry.uid not in pinned]
    if entries and not session.flags.get("force"):
        _confirm(entries)
    for entry in entries:
        session.store.remove(entry)
    text = f"{count(len(entries), 'entry', 'entries')} removed"
    if len(found) > len(entries):
        kept = count(len(found) - len(entries), "pinned entry", "pinned entries")
        text += f"\n{kept} left; first: cm unpin cache <id>"
    if len(every) > len(found):
        shared = count(len(every) - len(found), "entry", "entries")
        text += f"\n{shared} left in the shared cache, which is for reading only"
    if not every:
        text = "no cache entry matches; 0 entries removed"
    answer: Answer = {"return": 0, "removed": [entry.uid for entry in entries]}
    tell(session, lambda: text, answer)
    return answer


def count(number: int, one: str, many: str) -> str:
    """``1 entry``, ``2 entries``."""
    return f"{number} {one if number == 1 else many}"


def _confirm(entries: Sequence[Entry]) -> None:
    from cmbench.render.listing import entries_text

    print(entries_text(entries, [e.created for e in entries]))
    if not sys.stdin.isatty():
        raise Error("bad-value", "nothing was removed", hint="add -f to remove without a question")
    try:
        said = input("Remove these? [y/N] ")
    except EOFError:
        print()
        said = ""
    if said.strip().lower() not in ("y", "yes"):
        raise Error("not-confirmed", "nothing was removed", hint="answer y to remove them")


def pin_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm pin cache``: keep entries from ``gc``, ``rm`` and from being replaced."""
    session = Session(cmind, i, write=False)
    entries = [e for e in named(session, "pin") if session.store.owns(e)]
    if not entries:
        raise Error("bad-value", "the shared cache is for reading only; nothing to pin there")
    for entry in entries:
        session.store.pin(entry)
    return _told(session, entries, "pinned")


def unpin_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm unpin cache``: let go of pinned entries."""
    session = Session(cmind, i, write=False)
    pinned = session.store.pinned()
    entries = [entry for entry in named(session, "unpin") if entry.uid in pinned]
    for entry in entries:
        session.store.unpin(entry.uid)
    return _told(session, entries, "unpinned")


def _told(session: Session, entries: Sequence[Entry], done: str) -> Answer:
    lines = [f"{done}: {entry.script}_{entry.uid}" for entry in entries] or [f"nothing {done}"]
    answer: Answer = {"return": 0, done: [entry.uid for entry in entries]}
    tell(session, lambda: "\n".join(lines), answer)
    return answer


def why_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm why cache``: what made an entry, what it hangs on, who uses it, whether it is sound.

    With the inputs of a script, or where no entry carries the tags, it is about a call that was not
    made: what the cache would answer, and how the nearest entries differ.
    """
    session = Session(cmind, i, write=False)
    tags, uid = requests_in.tags_of(i)
    of_a_call = tags.wanted and not uid and (set(session.flags) - _FLAGS or not chosen(session))
    if of_a_call and session.index.find(replace(tags, variations=(), unwanted_variations=())):
        return _why_call(session)
    entries = named(session, "why")
    resolver = resolver_of(session)
    found = [_explained(session, entry, resolver) for entry in entries]
    tell(session, lambda: "\n\n".join(_why_text(data) for data in found), found)
    return {"return": 0, "list": found}


def _why_call(session: Session) -> Answer:
    from cmbench.cli.verbs.plan import make_plan
    from cmbench.cli.verbs.run import make_resolver
    from cmbench.plan.explain import Notes
    from cmbench.render.progress import Silent
    from cmbench.run.scheduler import FactTeller
    from cmbench.run.step import StepRunner

    request, _ = session.script()
    runner = StepRunner(Silent(None), None, True, False, session.cmind, session.words)
    facts = FactTeller(runner, os.devnull)
    resolver = make_resolver(session, facts, None)
    notes = Notes(resolver)
    root = make_plan(session, request, facts, resolver, notes).root
    misses = list(root.detail.misses)
    names = {"hit": "from the cache", "miss": "not in the cache", "no": "never kept"}
    lines = [f"{root.tags}: {names.get(root.cached, root.cached)}: {root.why}"]
    lines += [f"  {text}" for text in misses] + ([f"  {root.entry}"] if root.entry else [])
    data = {"tags": root.tags, "cached": root.cached, "why": root.why, "misses": misses}
    tell(session, lambda: "\n".join(lines), data)
    return {"return": 0, "list": [], "call": data}


def resolver_of(session: Session) -> Resolver:
    """A resolver that can say whether entries are sound here and now."""
    from cmbench.render.progress import Silent
    from cmbench.run.scheduler import FactTeller
    from cmbench.run.step import StepRunner

    runner = StepRunner(Silent(None), None, True, False, session.cmind, session.words)
    facts = FactTeller(runner, os.devnull)
    facts.resolver = resolver = Resolver(session.index, session.store, facts)
    return resolver


def _explained(session: Session, entry: Entry, resolver: Resolver) -> dict[str, Any]:
    store = session.store
    deps = []
    for key in entry.deps:
        needed = store.entry(key)
        why = resolver.unsound(needed) if needed is not None else "gone"
        deps.append(
            {"key": key, "script": needed.script if needed is not None else "", "why_not": why}
        )
    why_not = resolver.unsound(entry)
    return {
        **asdict(entry),
        **housekeeping.summary(entry, store),
        "sound": not why_not,
        "why_not": why_not,
        "made_with": deps,
        "used_by": [f"{e.script}_{e.uid}" for e in housekeeping.users_of(store, entry)],
        "used_by_runs": housekeeping.runs_with(session.root, entry),
    }


_SETTINGS = ("const:", "laid:")


def _lines_of(words: list[str]) -> list[str]:
    import textwrap

    return textwrap.wrap(", ".join(words), 76, break_long_words=False, break_on_hyphens=False)


def _why_text(data: dict[str, Any]) -> str:
    from cmbench.format.env import MISSING
    from cmbench.plan.resolve import shown_value
    from cmbench.render.listing import age

    state = "sound: it answers a call with these values" if data["sound"] else data["why_not"]
    label = ",".join([data["script"], *("_" + name for name in data["variations"])])
    marks = [word for word in ("pinned", "shared", "imported") if data[word]]
    lines = [
        f"{label} {data['version']}".rstrip() + (f" ({', '.join(marks)})" if marks else ""),
        f"  now:       {state}",
        f"  path:      {data['path']}",
        f"  made:      {age(data['created'])} in {data['seconds']:.1f} s by the run {data['run']}",
        f"  last used: {age(data['last_used'])}",
    ]
    reads = sorted(data["reads"].items())
    values = [f"{key} = {shown_value(value)}" for key, value in reads if value not in ("", MISSING)]
    # What settings had nothing to say about tells a reader nothing.
    unset = [key for key, value in reads if value == MISSING and not key.startswith(_SETTINGS)]
    values += [
        f"{k} = {shown_value(v)}" for facts in data["facts"].values() for k, v in facts.items()
    ]
    deps = [
        f"{item['script'] or item['key']}" + (f": {item['why_not']}" if item["why_not"] else "")
        for item in data["made_with"]
    ]
    sections = (
        ("it read", values),
        ("it read, and found not set", _lines_of(unset)),
        ("it relies on", [item["path"] for item in data["relies_on"]]),
        ("it was made with", deps),
        ("made with it", data["used_by"]),
        ("used by the runs", data["used_by_runs"]),
    )
    for title, items in sections:
        if items:
            lines += [f"  {title}:", *(f"    {item}" for item in items)]
    return "\n".join(lines)
