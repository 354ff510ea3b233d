"""Merge dependency entries: updates by name, replacements by variations."""

from __future__ import annotations

from collections.abc import Sequence

from cmbench.format.model import Dependency, PathArgument, Request, Script, VersionRange
from cmbench.values import replace

USER = "!"
"""Starts the names of updates that the user has asked for: no script overrides those."""


def merge_dependency(entry: Dependency, update: Dependency) -> Dependency:
    """``entry`` changed by an ``ad``/``adr`` update: tags join, dicts merge, scalars replace."""
    tags = [t for t in update.tags.split(",") if t and "<<<" not in t]
    present = entry.tags.split(",")
    version = entry.version
    if update.version:
        version = VersionRange(
            update.version.exact or version.exact,
            update.version.minimum or version.minimum,
            update.version.maximum or version.maximum,
            update.version.usable or version.usable,
        )
    return replace(
        entry,
        tags=",".join([*present, *(t for t in tags if t not in present)]),
        env={**entry.env, **update.env},
        version=version,
        extra_cache_tags=",".join(
            t for t in (entry.extra_cache_tags, update.extra_cache_tags) if t
        ),
        force_cache=entry.force_cache if update.force_cache is None else update.force_cache,
        ad={**entry.ad, **update.ad},
        adr={**entry.adr, **update.adr},
        inputs={**entry.inputs, **update.inputs},
    )


def as_meant(request: Request, script: Script) -> Request:
    """The request with what the user has typed for this dependency: paths in full."""
    typed = {name: word for name, word in request.inputs.items() if isinstance(word, PathArgument)}
    if not typed:
        return request
    paths = {name for name, spec in script.inputs.items() if spec.type == "path"}
    meant = {name: word.meant(name in paths) for name, word in typed.items()}
    return replace(request, inputs={**request.inputs, **meant})


def with_replacements(entries: list[Dependency], changes: Sequence[Dependency]) -> list[Dependency]:
    """Return ``entries`` with the changes at the entries that they name, or at the end."""
    result = list(entries)
    for change in changes:
        places = [n for n, old in enumerate(entries) if _same_place(old, change)]
        if places:
            result[places[0]] = change
        else:
            result.append(change)
    return result


def _same_place(old: Dependency, new: Dependency) -> bool:
    if new.names or old.names:
        return set(old.names) == set(new.names)
    return set(old.tags.split(",")) == set(new.tags.split(","))
