"""What a cache entry has read, held against what a step would read today."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cmbench.cache.cache_entry import CacheEntry
from cmbench.format.env import MISSING, Pending, fingerprint
from cmbench.plan.step_run import StepRun, changes_of, process_value, request_value


def recorded(entry: CacheEntry, step_run: StepRun) -> Mapping[str, str]:
    """What ``entry`` has read, and as missing what ``step_run`` changes and the entry knows not."""
    changes = changes_of(step_run.request)
    if changes.keys() <= entry.reads.keys():
        return entry.reads
    return {**dict.fromkeys(changes, MISSING), **entry.reads}


def value_now(key: str, step_run: StepRun) -> Any:
    """Return the fingerprint of a recorded read as it would be made today; ``Pending`` if open."""
    space, colon, name = key.partition(":")
    if not colon:
        value = step_run.env.peek(key, MISSING)
        return value if isinstance(value, Pending) else fingerprint(key, value)
    find = _VALUES.get(space)
    return find(name, step_run) if find else MISSING


def _update(name: str, step_run: StepRun) -> str:
    if not name:
        return step_run.names_of_updates()
    return fingerprint(name, step_run.adr.peek(name, MISSING))


def _call(name: str, step_run: StepRun) -> str:
    from cmbench.plan.hook_call import call_value

    return call_value(name, step_run.request)


_VALUES: Mapping[str, Callable[[str, StepRun], str]] = {
    "adr": _update,
    "all": lambda _, step_run: step_run.names(),
    "call": _call,
    "const": lambda name, step_run: fingerprint(name, step_run.const.get(name, MISSING)),
    "laid": lambda name, step_run: step_run.laid(name),
    "os": lambda name, _: process_value(name),
    "request": lambda name, step_run: request_value(name, step_run.request),
    "state": lambda name, step_run: fingerprint(name, step_run.state.peek(name, MISSING)),
}
"""By the part of a recorded read before its colon."""
