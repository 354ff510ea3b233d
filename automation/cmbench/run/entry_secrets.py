"""Metadata of an entry as it may lie on a disk where others can read it.

The values that an entry exports are checked elsewhere (``cmbench.format.env.without_secrets``).
This module covers the other ways in which a known secret gets into metadata: a tag, a version, the
name of a key or of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cmbench.cache.cache_entry import CacheEntry
from cmbench.format.model import Script
from cmbench.lib.secrecy import Secrets
from cmbench.values import replace

_DOUBT = "a secret is part of what it was made for, which no cache keeps"


def without_known(entry: CacheEntry, secrets: Secrets, script: Script) -> CacheEntry:
    """``entry`` without secrets; one that would lose more than a tag answers no later call.

    Words of the script itself are no secrets, even where a password is the same.
    """
    shown = secrets.known
    ordinary = {*script.tags, *script.variations, *("_" + name for name in script.variations)}

    def words(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text if text in ordinary else shown(text) for text in texts)

    def named_openly(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if shown(key) == key}

    clean = replace(
        entry,
        version=shown(entry.version),
        name=shown(entry.name),
        reads=named_openly(entry.reads),
        new_env=named_openly(entry.new_env),
        new_state=named_openly(entry.new_state),
        secrets=named_openly(entry.secrets),
        facts={path: named_openly(keys) for path, keys in entry.facts.items()},
        chosen={path: named_openly(tags) for path, tags in entry.chosen.items()},
        relies_on=tuple(item for item in entry.relies_on if shown(item.path) == item.path),
        doubts=tuple(map(shown, entry.doubts)),
    )
    doubts = clean.doubts if _is_whole(entry, clean) else (*clean.doubts, _DOUBT)
    tags, variations = words(entry.tags), words(entry.variations)
    return replace(clean, tags=tags, variations=variations, doubts=doubts)


def _is_whole(entry: CacheEntry, clean: CacheEntry) -> bool:
    fields = ("version", "name", "reads", "new_env", "new_state", "secrets", "facts", "relies_on")
    return all(getattr(entry, field) == getattr(clean, field) for field in (*fields, "chosen"))
