"""The verbs of ``cm … cache`` about the cache as a whole: verify, gc, du."""

from __future__ import annotations

from typing import Any

from cmbench.cache import retention as housekeeping
from cmbench.cache.store import Entry
from cmbench.cli.verbs.cache import check_flags, chosen, count, tell
from cmbench.errors import Error
from cmbench.format.meta import is_true
from cmbench.lib.text_files import size_text
from cmbench.session.session import Answer, Session

_SHOWN = 10


def verify_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm verify cache``: compare payloads with what was recorded when they were published."""
    session = Session(cmind, i, write=False)
    results = [_verified(session, entry) for entry in chosen(session)]
    bad = [item for item in results if item["faults"]]
    total = f"{count(len(results), 'entry', 'entries')} checked, {len(bad)} damaged"
    tell(session, lambda: "\n".join([*map(_verdict, results), total]), results)
    if not bad:
        return {"return": 0, "list": results}
    error = Error(
        "cache-damaged",
        f"{count(len(bad), 'entry is', 'entries are')} not as published",
        hint=f"remove what is damaged; it is made again when needed: cm rm cache {bad[0]['uid']}",
        context=[f"{item['path']}: {item['faults'][0]}" for item in bad[:_SHOWN]],
    )
    raise error


def _verified(session: Session, entry: Entry) -> dict[str, Any]:
    from cmbench.cache.cache_entry import damage
    from cmbench.cache.inventory import check

    found = check(entry, session.store.files(entry))
    why = damage(entry)
    faults = list(found.faults)
    if why and not faults:
        faults = [why]
    return {
        "uid": entry.uid,
        "script": entry.script,
        "path": entry.path,
        "files": found.files,
        "read": found.read,
        "added": found.added,
        "recorded": found.recorded,
        "faults": faults,
    }


def _verdict(item: dict[str, Any]) -> str:
    name = f"{item['script']}_{item['uid']}"
    if item["faults"]:
        more = len(item["faults"]) - _SHOWN
        lines = [f"DAMAGED {name}", *(f"    {fault}" for fault in item["faults"][:_SHOWN])]
        return "\n".join(lines + ([f"    and {more} more"] if more > 0 else []))
    if not item["recorded"]:
        return f"unknown {name}: no record of its files"
    if not item["files"]:
        return f"ok      {name}: no files"
    rest = item["files"] - item["read"]
    parts = [
        f"{count(item['read'], 'file', 'files')} read and compared" if item["read"] else "",
        f"{count(rest, 'file', 'files')} compared by size and time" if rest else "",
        f"{item['added']} added since" if item["added"] else "",
    ]
    return f"ok      {name}: {', '.join(part for part in parts if part)}"


def gc_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm gc cache``: remove what is not needed; shows it only, unless ``--yes`` is given."""
    session = Session(cmind, i, write=False)
    check_flags(session, ("max_size", "older_than", "keep_runs", "yes", "y", "dry_run"))
    rules = _rules(session)
    act = not is_true(session.flags.get("dry_run", False)) and any(
        is_true(session.flags.get(name, False)) for name in ("yes", "y", "force")
    )
    store = session.store
    if act:
        store.sweep()
        with store.lock("housekeeping", lambda who: print(f"waiting for {who}")):
            disposal = housekeeping.choose(store, session.root, rules)
            housekeeping.dispose(store, disposal)
    else:
        disposal = housekeeping.choose(store, session.root, rules)
    answer: Answer = {
        "return": 0,
        "removed" if act else "would_remove": [entry.uid for entry in disposal.entries],
        "litter": [item.path for item in disposal.litter],
        "kept": dict(disposal.held),
        "freed": disposal.freed,
        "left": disposal.left,
    }
    tell(session, lambda: "\n".join(_disposal_lines(disposal, rules, act)), answer)
    return answer


def _rules(session: Session) -> housekeeping.Rules:
    texts = {}
    for name in ("max_size", "older_than", "keep_runs"):
        value = session.flags.get(name, "")
        if isinstance(value, bool):
            flag = name.replace("_", "-")
            raise Error("bad-value", f"--{flag} needs a value", hint="such as 20GB or 30d")
        texts[name] = str(value)
    return housekeeping.Rules(
        max_size=housekeeping.bytes_of(texts["max_size"]) if texts["max_size"] else None,
        older_than=housekeeping.seconds_of(texts["older_than"]) if texts["older_than"] else None,
        keep_runs=housekeeping.seconds_of(texts["keep_runs"] or "7d"),
    )


def _disposal_lines(
    disposal: housekeeping.Disposal, rules: housekeeping.Rules, act: bool
) -> list[str]:
    lines = [
        f"{size_text(disposal.sizes[entry.uid]):>10}  {entry.script}_{entry.uid}"
        for entry in disposal.entries
    ]
    lines += [f"{size_text(item.size):>10}  {item.path} ({item.why})" for item in disposal.litter]
    total = len(disposal.entries) + len(disposal.litter)
    done = "removed" if act else "would be removed"
    lines.append(f"{count(total, 'item', 'items')}, {size_text(disposal.freed)}, {done}")
    lines.append(f"{size_text(disposal.left)} of entries {'are' if act else 'would be'} left")
    if rules.max_size is not None and disposal.left > rules.max_size:
        lines.append(
            f"more than {size_text(rules.max_size)}: the rest is pinned, in use, or was used by a "
            "run of late (--keep-runs)"
        )
    if total and not act:
        lines.append("nothing was removed; add --yes to do it")
    return lines


def du_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm du cache``: what uses the disk, by script."""
    session = Session(cmind, i, write=False)
    check_flags(session)
    rows = housekeeping.usage(session.store, session.root)
    total = sum(size for _, _, size in rows)
    shared = session.store.shared
    lines = [f"{size_text(s):>10}  {n:>5}  {what}" for what, n, s in rows]
    lines.append(f"{size_text(total):>10}  in all, in {session.root}")
    if shared is not None:
        size = housekeeping.directory_size(shared.place("store"))
        lines.append(f"{size_text(size):>10}  more in the shared cache {shared.root}")
    answer: Answer = {"return": 0, "total": total, "parts": [list(row) for row in rows]}
    tell(session, lambda: "\n".join(lines), answer)
    return answer
