"""``cm replay script`` and ``cm diff script``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.record import find_record, load_record
from cmbench.session.session import Answer, Session


def diff_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm diff script <record> <record>``: what differs between two runs."""
    from cmbench.render.diffs import difference_text
    from cmbench.repeat.replay import differences

    session = Session(cmind, i, write=False)
    _only(session.flags, ("json", "out"), "diff")
    words = _words(i)
    if len(words) != 2:
        raise Error(
            "bad-value",
            f"two records are compared; given: {len(words)}",
            hint="name two: cm diff script <record> <record>",
        )
    one, other = (load_record(find_record(session.root, word)) for word in words)
    found = differences(one, other)
    if i.get("out") == "con":
        as_json = session.flags.get("json")
        print(json.dumps(found, indent=1) if as_json else difference_text(found, one, other))
    return {"return": 0, "differences": found}


def replay_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm replay script <record>``: repeat a recorded run; more flags change it."""
    from cmbench.render.diffs import replay_text
    from cmbench.repeat.replay import differences, flags_to_repeat, obstacles

    session = Session(cmind, i, write=True)
    words = _words(i)
    if len(words) != 1:
        raise Error(
            "bad-value",
            "which run should be repeated is not said",
            hint="name its record, or its id: cm replay script last",
        )
    record = load_record(find_record(session.root, words[0]))
    given = {key: value for key, value in session.flags.items() if key != "out"}
    flags = flags_to_repeat(record, given)
    found = obstacles(record, session.index, session.repositories)
    talks = i.get("out") == "con" and not session.options.silent
    if talks:
        print(replay_text(record, found) + "\n")
    answer = _repeat(cmind, i, record, flags)
    changed = differences(record, load_record(answer["record"]))
    if talks:
        print(_closing(changed, record["run"], answer["record"]))
    return {**answer, "not_as_it_was": found, "differences": changed}


def _repeat(
    cmind: Any, i: Mapping[str, Any], record: Mapping[str, Any], flags: Mapping[str, Any]
) -> Answer:
    """Make the recorded call again, where it was made, with the versions that it had.

    A call with ``--lock`` obeys its lock again, and refuses what the lock refuses.
    """
    from cmbench.cli.verbs.run import open_lock, start_run
    from cmbench.repeat.lockfile import lock_data, lock_from

    folder = record.get("directory", "")
    if folder and os.path.isdir(folder):
        os.chdir(folder)
    call = {**flags, "out": i.get("out")}
    session = Session(cmind, call, write=True)
    request, script = session.script()
    data = lock_data(record, session.index, session.store)
    lock = open_lock(session)
    lock = lock or lock_from(data, f"the record {record['run']}", strict=False)
    return start_run(session, request, script, lock)


def _closing(changed: Mapping[str, Any], run: str, path: str) -> str:
    values = [
        f"{place.rpartition(' > ')[2]}: {name}"
        for place, step in changed.get("steps", {}).items()
        for name in step
        if name.startswith(("version", "gave ", "error"))
    ]
    if not values:
        return f"every step gave what it gave in {run}"
    count = f"{len(values)} {'value' if len(values) == 1 else 'values'}"
    last = os.path.basename(os.path.dirname(path))
    return f"{count} differ from {run}; see them:\ncm diff script {run} {last}"


def _words(i: Mapping[str, Any]) -> list[str]:
    return [str(word) for word in [i.get("artifact"), *(i.get("artifacts") or ())] if word]


def _only(flags: Mapping[str, Any], known: tuple[str, ...], verb: str) -> None:
    for name in flags:
        if name not in known:
            raise Error(
                "unknown-flag", f"{verb} knows no flag --{name}", hint=did_you_mean(name, known)
            )
