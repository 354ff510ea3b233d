"""What two runs have in common and what not, and what of a recorded run can be repeated here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cmbench.errors import Error
from cmbench.format.env import MISSING
from cmbench.format.sources import own_files
from cmbench.index.scripts import Index, Repository
from cmbench.lib.text_files import listed
from cmbench.plan.read_values import subject_of_read
from cmbench.plan.step_run import ALL, process_value
from cmbench.record import host_facts, own_times, revision

ABSENT = "(none)"
_SECRET = "***"
_IN_CACHE = re.compile(r"/[^\s:'\"]*/store/([\w.-]+)_[0-9a-f]{16}(?![0-9a-f])")
_SWITCHED_ON = re.compile(r"(--[\w-]+)=True\b")
_NOTICEABLE = 0.2
"""Shares of a step's time that are worth a line."""


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs between two records, by section; sections that agree are left out.

    A difference is ``name: [first, second]``. ``steps`` maps the chain of a step to its own;
    ``cache`` names the steps that came from the cache in one run only.
    """
    steps, cache = _step_differences(*map(_without_run, (one, other)))
    sections = {
        "request": _changed(_flat(one.get("flags", {})), _flat(other.get("flags", {}))),
        "result": _changed(_result(one), _result(other)),
        "repositories": _changed(_revisions(one), _revisions(other)),
        "host": _changed(_host(one), _host(other)),
        "cache": cache,
        "steps": steps,
    }
    return {section: content for section, content in sections.items() if content}


def _without_run(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the steps of a record without the names of its own folders, and flags in one form."""
    run = str(record["run"])
    return [
        {**step, **{key: _replaced(step[key], run) for key in ("reads", "new_env") if key in step}}
        for step in record["steps"]
    ]


def _replaced(value: Any, run: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _replaced(item, run) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, run) for item in value]
    return _SWITCHED_ON.sub(r"\1", value.replace(run, "(run)")) if isinstance(value, str) else value


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, list[Any]]:
    keys = [*one, *(key for key in other if key not in one)]
    return {
        key: [one.get(key, ABSENT), other.get(key, ABSENT)]
        for key in keys
        if one.get(key, ABSENT) != other.get(key, ABSENT)
    }


def _flat(flags: Mapping[str, Any], lead: str = "--") -> dict[str, Any]:
    flat_flags: dict[str, Any] = {}
    for key, value in flags.items():
        if isinstance(value, Mapping):
            flat_flags.update(_flat(value, f"{lead}{key}."))
        else:
            flat_flags[lead + key] = value
    return flat_flags


def _result(record: Mapping[str, Any]) -> dict[str, Any]:
    error = record.get("error") or {}
    return {"status": record["status"], "error": error.get("message", ABSENT)}


def _revisions(record: Mapping[str, Any]) -> dict[str, str]:
    return {r["alias"]: r["revision"][:12] or "no commit" for r in record["repositories"]}


def _host(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record["host"].items() if key != "load"}


def _step_differences(
    one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, dict[str, list[Any]]], dict[str, list[str]]]:
    """Differences by step, and the steps that only the first or only the second run reused."""
    runs = (_steps_by_key(one), _steps_by_key(other))
    changes: dict[str, dict[str, list[Any]]] = {}
    reused: dict[str, list[str]] = {"first": [], "second": []}
    for key in [*runs[0], *(p for p in runs[1] if p not in runs[0])]:
        states = [run[key]["status"] if key in run else ABSENT for run in runs]
        if ABSENT in states:
            if not _within_reused(key, runs[states.index(ABSENT)]):
                changes[key] = {"step": states}
            continue
        changed = _one_step(runs[0][key], runs[1][key])
        if set(states) == {"done", "cached"}:
            reused[("first", "second")[states.index("cached")]].append(runs[0][key]["step"])
            changed.pop("status")
            changed.pop("seconds", None)
        if changed:
            changes[key] = changed
    return changes, {name: steps for name, steps in reused.items() if steps}


def _within_reused(key: str, run: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether ``run`` lacks the step because a step above it came from the cache."""
    words = key.split(" > ")
    above = (" > ".join(words[:count]) for count in range(1, len(words)))
    return any(name in run and run[name]["status"] == "cached" for name in above)


def _steps_by_key(steps: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Steps by their chain, numbered where one chain has several; in the order of the run."""
    steps_by_key: dict[str, Mapping[str, Any]] = {}
    for step, seconds in zip(steps, own_times(steps), strict=True):
        name = " > ".join(step["chain"])
        count = 2
        key = name
        while key in steps_by_key:
            key = f"{name} ({count})"
            count += 1
        steps_by_key[key] = {**step, "seconds": seconds}
    return steps_by_key


def _one_step(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, list[Any]]:
    changes = _changed(_plain(one), _plain(other))
    if one["content"] != other["content"]:
        changes["script"] = [one["content"][:12], other["content"][:12]]
    if one["variations"] != other["variations"]:
        changes["variations"] = [_words(one["variations"]), _words(other["variations"])]
    inputs = _changed(_placed(one.get("reads", {})), _placed(other.get("reads", {})))
    changes.update({f"read {key}": pair for key, pair in inputs.items()})
    exports = _changed(_placed(one["new_env"]), _placed(other["new_env"]))
    changes.update({f"gave {key}": pair for key, pair in exports.items()})
    slow = max(one["seconds"], other["seconds"])
    if slow >= 1 and abs(one["seconds"] - other["seconds"]) > _NOTICEABLE * slow:
        changes["seconds"] = [round(one["seconds"], 1), round(other["seconds"], 1)]
    return changes


def _plain(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: step[key] for key in ("status", "version", "error") if key in step}


def _words(variations: Sequence[str]) -> str:
    return ",".join("_" + name for name in variations) or ABSENT


def _placed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are set, without the folders of cache entries."""
    return {
        key: _without_place(value)
        for key, value in values.items()
        if value != MISSING and (value or not key.startswith("laid:"))
    }


def _without_place(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_place(item) for item in value]
    return _IN_CACHE.sub(r"(cache)/\1", value) if isinstance(value, str) else value


# ---------------------------------------------------------------- repeating


def flags_to_repeat(record: Mapping[str, Any], new_flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of the recorded call, those ``new_flags`` now in front of them.

    Raises ``cannot-repeat`` for records without a call and for secrets that are not given again.
    """
    if "flags" not in record:
        raise Error(
            "cannot-repeat",
            f"the record of {record['run']} does not hold its call",
            context=[" ".join(record["command"])],
            hint="an older version wrote it: type the command above yourself",
        )
    flags = _joined(record["flags"], new_flags)
    secrets = [name for name, value in _flat(flags).items() if _SECRET in str(value)]
    if secrets:
        raise Error(
            "cannot-repeat",
            f"records contain no secrets: give {', '.join(secrets)} again",
            hint=f"add {secrets[0]}=... to the command",
        )
    return flags


def _joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[key] = _joined(before, value) if both else value  # type: ignore[arg-type]
    return result


def obstacles(
    record: Mapping[str, Any], index: Index, repositories: Sequence[Repository]
) -> list[str]:
    """Return what of the recorded run cannot be repeated as it was on this machine now."""
    return [
        *_repository_obstacles(record, repositories),
        *_script_obstacles(record, index),
        *_host_obstacles(record),
        *_variable_obstacles(record),
    ]


def _repository_obstacles(
    record: Mapping[str, Any], repositories: Sequence[Repository]
) -> Iterator[str]:
    here = {repository.alias: repository.path for repository in repositories}
    for then in record["repositories"]:
        alias, commit = then["alias"], then["revision"]
        if alias not in here:
            yield f"the repository {alias} is not registered here"
        elif revision(here[alias]) != commit:
            now = revision(here[alias])[:12] or "no commit"
            way = f" (git -C {here[alias]} checkout {commit[:12]})" if commit else ""
            yield f"the repository {alias} was at {commit[:12] or 'no commit'}, is at {now}{way}"


def _script_obstacles(record: Mapping[str, Any], index: Index) -> Iterator[str]:
    paths = {row.alias: path for path, row in index.rows().items()}
    contents = {step["script"]: step["content"] for step in record["steps"] if step["content"]}
    for alias, then in contents.items():
        if alias not in paths:
            yield f"the script {alias} does not exist here"
        elif index.contents.get(paths[alias]).digest != then:
            yield f"the script {alias} was edited since{_newer(paths[alias], record['started'])}"
    for name in sorted(_edited_libraries(record, index, paths)):
        yield f"the library {name} was edited since, it runs as it is now"


def _edited_libraries(
    record: Mapping[str, Any], index: Index, paths: Mapping[str, str]
) -> set[str]:
    """Return the shared code that is not as it was for a step of the record."""
    return {
        name
        for step in record["steps"]
        for name, then in step.get("libraries", {}).items()
        if step["script"] in paths
        and index.contents.libraries.digest(paths[step["script"]], name) != then
    }


def _newer(path: str, time: float) -> str:
    """Return the files of a script that were written after ``time``, in seconds since 1970."""
    names = [name for name, _, written in own_files(path) if written > time * 1e9]
    return ", it runs as it is now" + (f" (newer: {listed(names)})" if names else "")


def _host_obstacles(record: Mapping[str, Any]) -> Iterator[str]:
    now = host_facts()
    for key, then in _host(record).items():
        if now.get(key) != then:
            yield f"{key} of the machine was {then}, is {now.get(key)}"
    folder = record.get("directory", "")
    if folder and not os.path.isdir(folder):
        yield f"its working directory {folder} is gone"


def _variable_obstacles(record: Mapping[str, Any]) -> Iterator[str]:
    """Variables of the process that scripts read and that differ now."""
    read: dict[str, str] = {}
    for step in record["steps"]:
        for key, then in step.get("reads", {}).items():
            if key.startswith("os:") and _SECRET not in then:
                read.setdefault(key[3:], then)
    for name, then in read.items():
        if process_value(name) != then:
            yield _moved(name)


def _moved(name: str) -> str:
    # Without the values: one that was not set then may be a secret now.
    if name == ALL:
        return "environment variables have changed, and a script reads all of them"
    if "/" in name:
        return f"{subject_of_read(f'os:{name}')} is another one now, or is gone"
    return f"the variable {name} has changed"
