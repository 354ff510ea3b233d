"""What a cache entry has read, held against what a step would read today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cmbench.cache.cache_entry import Entry
from cmbench.format.env import MISSING, Pending, fingerprint
from cmbench.plan.resolved_step import (
    Frame,
    call_value,
    changes_of,
    process_value,
    request_value,
)


def recorded(entry: Entry, frame: Frame) -> Mapping[str, str]:
    """What ``entry`` has read, and as missing what ``frame`` changes and the entry knows not."""
    changes = changes_of(frame.request)
    if changes.keys() <= entry.reads.keys():
        return entry.reads
    return {**dict.fromkeys(changes, MISSING), **entry.reads}


def value_now(key: str, frame: Frame) -> Any:
    """The fingerprint of a recorded read as it would be made today; ``Pending`` if open."""
    space, colon, name = key.partition(":")
    if not colon:
        return _print(key, frame.env.peek(key, MISSING))
    if space == "state":
        return fingerprint(name, frame.state.peek(name, MISSING))
    if space == "adr":
        return fingerprint(name, frame.adr.peek(name, MISSING))
    if space == "const":
        return fingerprint(name, frame.const.get(name, MISSING))
    if space == "call":
        return call_value(name, frame.request)
    if space == "request":
        return request_value(name, frame.request)
    if space == "laid":
        return frame.laid(name)
    if space == "os":
        return process_value(name)
    if space == "all":
        return frame.names()
    return MISSING


def _print(key: str, value: Any) -> Any:
    return value if isinstance(value, Pending) else fingerprint(key, value)
