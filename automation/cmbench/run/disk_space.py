"""Disk space for what a plan is sure to fetch and cache, checked before anything is fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib import capacity
from cmbench.lib.partial_file import PartialFile
from cmbench.lib.secrecy import mask
from cmbench.plan.needs import Download
from cmbench.plan.planned_step import PlannedStep, sure
from cmbench.plan.requirements import declared_room, downloads_of, installs_packages
from cmbench.plan.step_run import StepRun

_MOST_LISTED = 3
"""So many of the largest things an error names."""


def require_room(root: PlannedStep, env: Mapping[str, Any], folder: str, ahead: str) -> None:
    """Raise ``too-little-disk`` where ``folder``, that of the cache, cannot hold what is certain.

    ``root`` is a plan's first step, ``env`` what the caller has set, and ``ahead`` the folder with
    the parts of earlier downloads. Unknown sizes count as 0.
    """
    step_runs = [
        (planned_step, planned_step.step_run)
        for planned_step in sure(root)
        if planned_step.step_run is not None
    ]
    promised_bytes = {
        step_run.step.label: _promised(planned_step, step_run)
        for planned_step, step_run in step_runs
    }
    coming_bytes: dict[str, int] = {}
    for planned_step, step_run in step_runs:
        for download in _into_the_cache(planned_step, step_run):
            coming_bytes[download.what] = max(0, download.size - _has_come(download, ahead))
    # One script declares an archive and what is unpacked of it: only the larger one is certain.
    larger = max((promised_bytes, coming_bytes), key=lambda sizes: sum(sizes.values()))
    if any(larger.values()):
        capacity.check_disk(env, _largest(larger), sum(larger.values()), folder)


def _promised(planned_step: PlannedStep, step_run: StepRun) -> int:
    """Return the bytes that its entry is sure to take; in other collections a rough figure.

    What ``pip`` installs may be present already, and lies within its Python.
    """
    promises = step_run.script.dialect.inputs_bind and step_run.step.cacheable
    return (
        (declared_room(planned_step, step_run) or 0)
        if promises and not installs_packages(step_run)
        else 0
    )


def _into_the_cache(planned_step: PlannedStep, step_run: StepRun) -> Iterator[Download]:
    """Yield what goes to the disk of the cache; a folder of the user's may be on another one."""
    if not planned_step.fetches or step_run.env.peek(
        f"{step_run.script.dialect.prefix}DOWNLOAD_PATH", ""
    ):
        return
    yield from downloads_of(planned_step, step_run)


def _has_come(download: Download, ahead: str) -> int:
    from cmbench.lib.download import place_of

    try:
        place = place_of(ahead, download.checksum, download.what)
        if place is None:
            return 0
        return place.stat().st_size if place.exists() else PartialFile(place).size
    except (OSError, Error):
        return 0  # A checksum that is none is for the step itself to tell.


def _largest(sizes: Mapping[str, int]) -> str:
    names = sorted((name for name, size in sizes.items() if size), key=lambda name: -sizes[name])
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"this run ({', '.join(mask(name) for name in names[:_MOST_LISTED])}{more})"
