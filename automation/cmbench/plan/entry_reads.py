"""What a cache entry has read, held against what a step would read today."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cmbench.cache.cache_entry import CacheEntry
from cmbench.format.env import MISSING, Pending, fingerprint
from cmbench.plan.step_run import StepRun, changes_of, process_value, request_value


def recorded(entry: CacheEntry, frame: StepRun) -> Mapping[str, str]:
    """What ``entry`` has read, and as missing what ``frame`` changes and the entry knows not."""
    changes = changes_of(frame.request)
    if changes.keys() <= entry.reads.keys():
        return entry.reads
    return {**dict.fromkeys(changes, MISSING), **entry.reads}


def value_now(key: str, frame: StepRun) -> Any:
    """Return the fingerprint of a recorded read as it would be made today; ``Pending`` if open."""
    space, colon, name = key.partition(":")
    if not colon:
        value = frame.env.peek(key, MISSING)
        return value if isinstance(value, Pending) else fingerprint(key, value)
    find = _VALUES.get(space)
    return find(name, frame) if find else MISSING


def _update(name: str, frame: StepRun) -> str:
    if not name:
        return frame.names_of_updates()
    return fingerprint(name, frame.adr.peek(name, MISSING))


def _call(name: str, frame: StepRun) -> str:
    from cmbench.plan.hook_call import call_value

    return call_value(name, frame.request)


_VALUES: Mapping[str, Callable[[str, StepRun], str]] = {
    "adr": _update,
    "all": lambda _, frame: frame.names(),
    "call": _call,
    "const": lambda name, frame: fingerprint(name, frame.const.get(name, MISSING)),
    "laid": lambda name, frame: frame.laid(name),
    "os": lambda name, _: process_value(name),
    "request": lambda name, frame: request_value(name, frame.request),
    "state": lambda name, frame: fingerprint(name, frame.state.peek(name, MISSING)),
}
"""By the part of a recorded read before its colon."""
