"""What points share is made before the first of them is measured: environment, model, data."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cmbench import api
from cmbench.errors import Error
from cmbench_sweep.points import groups, request_of
from cmbench_sweep.values import Sweep, SweepPoint

if TYPE_CHECKING:
    from cmbench.api.cache import CacheEntry

MOST = 64
"""So many points are looked at; what others need besides is made in their own runs."""


@dataclass(frozen=True, slots=True)
class SharedEntry:
    """One step that is still to be made, and for how many of the points that were looked at."""

    what: str
    points: int
    disk: int | None
    seconds: int | None
    downloads: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Preparation:
    """What must be made before: ``steps``, and the points whose runs make all of them."""

    steps: tuple[SharedEntry, ...]
    wanted_by: tuple[SweepPoint, ...]
    looked_at: int
    free_bytes: int


def preparation(
    workspace: api.Workspace, sweep: Sweep, points: Sequence[SweepPoint]
) -> Preparation:
    """Return what the cache lacks for ``points``; raise what ``api.plan`` raises."""
    shared: dict[str, SharedEntry] = {}
    wanted_by = []
    looked = samples(sweep, points)
    free = 0
    for point in looked:
        planned = api.plan(request_of(workspace, point.flags))
        free = planned.totals["disk_free_bytes"]
        missing = list(_missing(planned.data()["root"]))
        if any(step.what not in shared for step in missing):
            wanted_by.append(point)
        for step in missing:
            shared[step.what] = replace(
                step, points=shared[step.what].points + 1 if step.what in shared else 1
            )
    return Preparation(tuple(shared.values()), tuple(wanted_by), len(looked), free)


def samples(sweep: Sweep, points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return points that cover every value of every axis: they need all that any point needs."""
    chosen: dict[str, SweepPoint] = {}
    seen: set[tuple[object, ...]] = set()
    together = groups(sweep)
    for point in points:
        values = {(group, *(repr(point.values[n]) for n in group)) for group in together}
        if not values <= seen or not chosen:
            chosen[point.key] = point
            seen |= values
        if len(chosen) >= MOST:
            break
    return list(chosen.values())


def take_in(workspace: api.Workspace, archive: str) -> None:
    """Take over the cache entries of ``archive`` that fit this machine, and remove it.

    Refused entries will be made here. Raises ``archive-corrupt``, ``no-space`` and others.
    """
    from cmbench.api import cache

    archive_import = cache.import_archive(workspace, archive)
    os.unlink(archive)
    for name, why in archive_import.imported.refused.items():
        print(f"{name} is made here: {why}")


def at_hand(
    workspace: api.Workspace, sweep: Sweep, points: Sequence[SweepPoint]
) -> list[CacheEntry]:
    """Return the cache entries that points would use here."""
    entries: dict[str, CacheEntry] = {}
    for point in samples(sweep, points):
        # What cannot be planned here may be possible there.
        with suppress(Error):
            pending = [api.plan(request_of(workspace, point.flags)).plan.root]
            while pending:
                node = pending.pop()
                pending += node.children
                if node.cached_entry is not None:
                    entries[node.cached_entry.key] = node.cached_entry
    return list(entries.values())


def prepare(
    workspace: api.Workspace, points: Sequence[SweepPoint], on_event: api.OnEvent | None = None
) -> None:
    """Run what these points depend on, and not their script; raises what ``api.run`` raises.

    It ends when the last entry is made: what follows may be the measured part.
    """
    for point in points:
        run_request = request_of(workspace, point.flags)
        root = api.plan(run_request).data()["root"]
        watch = _Watch(Counter(step.what.split()[0] for step in _missing(root)), on_event)
        modes = run_request.request.modes | {"fake_run"}
        if watch.left.total():
            with suppress(_MadeError):
                api.run(
                    replace(run_request, request=replace(run_request.request, modes=modes)),
                    on_event=watch,
                )


class _MadeError(Exception):
    """All is made."""


class _Watch:
    """Receives the events of a run, and ends it when all scripts in ``left`` have made entries."""

    def __init__(self, left: Counter[str], on_event: api.OnEvent | None) -> None:
        self.left = left
        self._on_event = on_event
        self.watches = bool(getattr(on_event, "watches", True))

    def __call__(self, event: api.Event) -> None:
        """Pass an event on."""
        if self._on_event is not None:
            self._on_event(event)
        if event.kind == "finished" and event.step is not None and event.step.status == "done":
            self.left.subtract([event.step.label.partition(",")[0]])
            if all(many <= 0 for many in self.left.values()):
                raise _MadeError


def _missing(node: Mapping[str, Any]) -> Iterator[SharedEntry]:
    """Return the entries that are to be made below a step, with what they need."""
    for child in node["children"]:
        yield from _missing(child)
        if child["cached"] == "miss":
            name = " ".join((child["script"] or child["tags"], *child["variations"]))
            downloads = tuple((d["what"], d["bytes"] or 0) for d in child["downloads"])
            yield SharedEntry(
                name, 1, _known(child["disk_bytes"]), _known(child["seconds"]), downloads
            )


def _known(value: float | None) -> int | None:
    """Return what a plan says in whole numbers; below zero means unknown."""
    return None if value is None or value < 0 else round(value)
