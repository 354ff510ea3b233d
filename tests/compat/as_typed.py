"""Documented commands of other people's scripts, as typed, under their own engine and under ours.

    python tests/compat/as_typed.py cm=CHECKOUT,PYTHON mlc=CHECKOUT,PYTHON [--pages 100 ...]

PYTHON holds the other engine (``pip install cmind``, ``pip install mlcflow``). Each session runs in
an overlay of its own (see ``sandbox.py``): root and ``unshare`` are needed. Compared of each
command: whether it succeeds, ``new_env``, ``new_state``, ``deps``, what was found, the files left
in the user's directory and the tags of the entries. What differs between two runs of their own
engine does not count. A session that fails under theirs is counted apart; where both fail, it is
compared at the step of which script they do.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from documented import Session, from_file, sample, sessions
from sandbox import Ran, Sandbox

KINDS = (
    "cases",
    "pages",
    "workflows",
    "tests",
    "scripts",
    "variations",
    "flags",
    "inputs",
    "verbs",
    "documents",
)
PARTS = ("status", "new_env", "new_state", "list", "deps")
TIMED_OUT = 124


@dataclass(frozen=True)
class Compared:
    """One session under both engines."""

    session: Session
    theirs: Ran
    ours: Ran
    different: tuple[str, ...]

    @property
    def verdict(self) -> str:
        if TIMED_OUT in (self.theirs.status, self.ours.status):
            return "not done in time"
        if failed(self.theirs):
            if not failed(self.ours):
                return "theirs fails, ours does not"
            steps = {failed_step(self.theirs), failed_step(self.ours)} - {""}
            return "both fail, elsewhere" if len(steps) > 1 else "theirs fails, ours too"
        return "different" if self.different else "equal"


def failed(ran: Ran) -> bool:
    """Whether no command of a session succeeds: such a session says little."""
    done = [not record["status"] for record in ran.records]
    return not any(done) if done else bool(ran.status)


_FAILED_STEPS = (
    r"\(name = ([\w.-]+), return code",
    r"customize\.py of ([\w.-]+) failed",
    r"\.sh of ([\w.-]+) (?:exited|was ended)",
)
"""How the engines name the script whose step has failed, in the order in which they are sought."""


def failed_step(ran: Ran) -> str:
    """The script at whose step a session has failed, as far as the engine names it."""
    errors = [str(record.get("error") or "") for record in ran.records if record["status"]]
    text = errors[-1] if errors else ""
    found = (re.search(pattern, text) for pattern in _FAILED_STEPS)
    return next((match[1] for match in found if match), "")


def differences(theirs: Ran, ours: Ran) -> Iterator[str]:
    """Each place where two runs of a session differ, as a word for its kind and its name."""
    if len(theirs.records) != len(ours.records):
        yield f"commands: {len(theirs.records)} and {len(ours.records)}"
    # Where a step fails, theirs may leave an entry that is not whole; ours keeps none.
    unfinished = sum("tmp" in tags for tags in theirs.entries)
    for at, (one, other) in enumerate(zip(theirs.records, ours.records, strict=False)):
        if one["status"] and not other["status"]:
            return  # What ours has done besides leaves its traces.
        # Of a command that fails under theirs nothing more is asked.
        for part in () if one["status"] else PARTS:
            if part != "list" or not _but_for(unfinished, one.get(part), other.get(part)):
                yield from _of_part(at, part, one.get(part), other.get(part))
    if ours.status and not theirs.status:
        yield f"exit: {theirs.status} and {ours.status}"
    one, other = set(theirs.files), set(ours.files)
    yield from (f"file of theirs alone: {name}" for name in sorted(one - other))
    yield from (f"file of ours alone: {name}" for name in sorted(other - one))
    yield from _of_entries(theirs, ours)


def _but_for(unfinished: int, one: Any, other: Any) -> bool:
    """Whether two lists of entries differ by no more than those that are not whole."""
    entries = all("<entry>" in str(each) for each in (*(one or ()), *(other or ())))
    return entries and 0 <= len(one or ()) - len(other or ()) <= unfinished


def _of_entries(theirs: Ran, ours: Ran) -> Iterator[str]:
    """Entries that tags of theirs do not find among ours, and ours that no entry of theirs is like.

    More tags hurt nobody, and a second entry for other inputs is meant: see the page. A command
    that fails under both may come further under ours, and keep what was finished.
    """
    one, other = ({t for t in ran.entries if "tmp" not in t} for ran in (theirs, ours))
    for tags in sorted(one):
        if not any(set(tags) <= set(each) for each in other):
            yield f"entry of theirs alone: {','.join(tags)}"
    if any(record["status"] for record in theirs.records):
        return
    known = [set(tags) for tags in theirs.entries]  # with those that are not whole
    for tags in sorted(other):
        if not any(each - {"tmp"} <= set(tags) for each in known):
            yield f"entry of ours alone: {','.join(tags)}"


def _of_part(at: int, part: str, one: Any, other: Any) -> Iterator[str]:
    if part == "status":
        if bool(one) != bool(other):
            yield f"{at}: status {one} and {other}"
    elif part == "list" and one is not None and other is not None:
        names = [sorted({Path(str(x)).name for x in each or ()} - _OWN) for each in (one, other)]
        entries = any("<entry>" in str(x) for each in (one, other) for x in each or ())
        if names[0] != names[1] and not (entries and len(one or ()) == len(other or ())):
            yield f"{at}: list {names[0]} and {names[1]}"
    elif part == "deps":
        # What theirs tells of an entry that it has looked at depends on its cache.
        tags = [{_tags_of(dep) for dep in each or ()} for each in (one, other)]
        if not tags[0] <= tags[1]:
            yield f"{at}: deps: {one} and {other}"
    elif part != "list":
        one, other = one or {}, other or {}
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                yield f"{at}: {part} {key}: {one.get(key)!r} and {other.get(key)!r}"


_OWN = {"ours", "internal", "repo"}
"""Repositories of the engines themselves."""


def _tags_of(dep: Any) -> str:
    """The tags of a dependency in a fixed order: theirs says nothing."""
    tags = dep["tags"] if isinstance(dep, dict) else str(dep)
    kind = "tags " if isinstance(dep, dict) else ""
    return kind + ",".join(sorted({tag for tag in tags.split(",") if tag}))


def compare(session: Session, theirs: Sandbox, ours: Sandbox, seconds: float) -> Compared:
    """Run a session under both; where they differ, theirs once more, to see what always differs."""
    first = theirs.run(session.lines, seconds)
    mine = ours.run(session.lines, seconds)
    found = tuple(differences(first, mine))
    if found and not failed(first):
        again = theirs.run(session.lines, seconds)
        unsteady = {_place(text) for text in differences(first, again)}
        found = tuple(text for text in found if _place(text) not in unsteady)
    return Compared(session, first, mine, found)


def _place(text: str) -> str:
    """Where a difference is, without its values."""
    return ":".join(text.split(":")[:2])


def table(results: dict[str, list[Compared]]) -> str:
    """Counts by place, and the share of what succeeds under theirs that is equal under ours."""
    words = (
        "collection",
        "from",
        "N",
        "equal",
        "different",
        "both fail",
        "fail elsewhere",
        "only theirs fails",
    )
    lines = [f"| {' | '.join((*words, 'not done in time', 'share'))} |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for collection, found in results.items():
        for kind in (*KINDS, "all"):
            listed = [c for c in found if kind in ("all", c.session.source)]
            if listed:
                lines.append(_row(collection, kind, Counter(c.verdict for c in listed)))
    return "\n".join(lines)


def _row(collection: str, kind: str, counts: Counter[str]) -> str:
    equal, different = counts["equal"], counts["different"]
    share = f"{equal / (equal + different):.1%}" if equal + different else ""
    figures = (
        *(counts.total(), equal, different, counts["theirs fails, ours too"]),
        counts["both fail, elsewhere"],
        *(counts["theirs fails, ours does not"], counts["not done in time"], share),
    )
    return f"| {collection.upper()} | {kind} | {' | '.join(map(str, figures))} |"


def main() -> int:
    """Print each session that differs, then the table; the status tells whether any does."""
    options = _options()
    results: dict[str, list[Compared]] = {}
    # The table of what was seen is printed in any case.
    with suppress(KeyboardInterrupt):
        _compare_all(options, results)
    print(table(results))
    return int(any(c.verdict == "different" for found in results.values() for c in found))


def _compare_all(options: argparse.Namespace, results: dict[str, list[Compared]]) -> None:
    for told in options.collections:
        collection, _, rest = told.partition("=")
        root, _, python = rest.partition(",")
        place = options.scratch / collection
        checkout = Path(root).resolve()
        theirs = Sandbox(place / "theirs", collection, checkout, collection, python)
        ours = Sandbox(place / "ours", collection, checkout, "ours", sys.executable)
        results[collection] = []
        for session in _chosen(options, collection, checkout):
            result = compare(session, theirs, ours, options.seconds)
            results[collection].append(result)
            _tell(result, options.out, collection)


def _chosen(options: argparse.Namespace, collection: str, checkout: Path) -> list[Session]:
    if options.lines:
        return from_file(options.lines, collection)
    found = sessions(collection, checkout, options.pages_of)
    if options.runnable:
        known = set(options.runnable.read_text("utf-8").split())
        for kind in ("flags", "inputs", "verbs"):
            found[kind] = [s for s in found[kind] if f"{collection}:{s.place}" in known]
    sizes = {kind: getattr(options, kind) for kind in KINDS[1:]}
    if options.only:
        return [s for listed in found.values() for s in listed if options.only in s.name]
    return sample(found, sizes, options.seed)


def _tell(result: Compared, out: Path | None, collection: str) -> None:
    print(f"{result.verdict:<12} {result.session.place}: {result.session.name}", flush=True)
    if result.verdict == "different":
        print("".join(f"    {text[:400]}\n" for text in result.different[:12]), end="", flush=True)
    if out:
        with open(out, "a", encoding="utf-8") as stream:
            told = {"collection": collection, "verdict": result.verdict, **asdict(result)}
            stream.write(json.dumps(told, default=str) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+", metavar="cm=CHECKOUT,PYTHON")
    for kind in KINDS[1:]:
        parser.add_argument(f"--{kind}", type=int, default=0, help=f"how many {kind}")
    parser.add_argument("--pages-of", type=Path, help="a checkout whose pages are the documents")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--only", default="", help="all sessions that hold this text")
    parser.add_argument("--lines", type=Path, help="sessions of a file, see documented.from_file")
    parser.add_argument("--runnable", type=Path, help="flags, inputs and verbs of these scripts")
    parser.add_argument("--out", type=Path, help="every value, a line of JSON a session")
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp/cmbench-as-typed"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
