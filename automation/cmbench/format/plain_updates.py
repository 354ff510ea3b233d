"""Updates of dependencies as the plain dictionaries that hooks know, ``updates`` reversed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.format.merge import USER, merge_dependency
from cmbench.format.meta import CONDITIONS
from cmbench.format.model import Dependency, VersionRange

_CONDITION_KEYS = {form: key for key, form in CONDITIONS.items()}


def plain_updates(updates: Mapping[str, Dependency]) -> dict[str, dict[str, Any]]:
    """``ad`` or ``adr`` as a meta has it: those of the user merged into those of the scripts."""
    merged: dict[str, Dependency] = {}
    for key in sorted(updates, key=lambda key: key.startswith(USER)):
        name, update = key.removeprefix(USER), updates[key]
        merged[name] = merge_dependency(merged[name], update) if name in merged else update
    return {name: dict(_plain(update)) for name, update in merged.items()}


def plain_version(version: VersionRange) -> dict[str, str]:
    """The version keys of a call or an entry, those that say something."""
    bounds = {
        "version": version.exact,
        "version_min": version.minimum,
        "version_max": version.maximum,
        "version_max_usable": version.usable,
    }
    return {key: value for key, value in bounds.items() if value}


def _plain(update: Dependency) -> Iterator[tuple[str, Any]]:
    tags = update.tags.strip(",")
    if tags:
        yield "tags", tags
    yield from plain_version(update.version).items()
    if update.env:
        yield "env", dict(update.env)
    for condition in update.conditions:
        rules = {key: list(values) for key, values in condition.rules}
        yield _CONDITION_KEYS[condition.skip, condition.any_of], rules
    if update.extra_cache_tags:
        yield "extra_cache_tags", update.extra_cache_tags
    if update.force_cache is not None:
        yield "force_cache", update.force_cache
    if update.adr:
        yield "adr", plain_updates(update.adr)
    # The text of a word that names a path is the path in full: whoever passes it on may do so
    # in another directory.
    for name, value in update.inputs.items():
        yield name, str(value) if isinstance(value, str) else value
