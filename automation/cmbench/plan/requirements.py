"""Requirements of the steps of a plan: downloads, disk, privileges, licences, time.

A script declares them in its meta (``fetches``, ``required_disk_space``, ``privileges``,
``licence``). Where it does not, the size is that of the last entry of the same kind, the time that
of the last runs, and its own code shows whether it can call ``sudo`` or a program that downloads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

from cmbench.cache.listing import EntrySummary
from cmbench.errors import Error
from cmbench.format.env import MISSING, Pending, as_text
from cmbench.format.model import Script
from cmbench.format.sources import Programs
from cmbench.lib.secrecy import mask
from cmbench.plan.needs import NOTHING, UNKNOWN, Download, StepNeeds
from cmbench.plan.planned_step import PlannedStep
from cmbench.plan.step_run import StepRun
from cmbench.record import load_record, own_times

_Number = TypeVar("_Number", int, float)
_MEGABYTE = 1_000_000
_KEY = re.compile("[A-Z][A-Z0-9_]*")
"""What is left of ``<<<KEY>>>`` where the plan does not know its value."""

RECORDS, STEPS = 20, 2_000
"""How many of the newest runs, and of their steps, are asked how long a step takes."""


class Estimator:
    """Estimates the needs of steps; reads the records of runs once.

    ``root`` is the folder that holds the runs, ``made_by`` gives a script's cache entries,
    ``programs`` those of the script at a path.
    """

    def __init__(
        self,
        root: str,
        made_by: Callable[[Script], Iterable[EntrySummary]],
        programs: Callable[[str], Programs],
    ) -> None:
        self._runs = os.path.join(root, "runs")
        self._made_by = made_by
        self._seconds: dict[tuple[str, tuple[str, ...]], float] | None = None
        self._programs = programs

    def needs(self, planned_step: PlannedStep) -> StepNeeds:
        """Return what the step ``planned_step`` takes if it runs."""
        step_run = planned_step.step_run
        if step_run is None:
            return UNKNOWN
        if planned_step.cached in ("hit", "above", "fact"):
            return NOTHING
        disk, source = self._disk(planned_step, step_run)
        return StepNeeds(
            downloads=tuple(
                downloads_of(planned_step, step_run)
                if planned_step.fetches
                else self._own(step_run)
            ),
            disk=disk,
            disk_known_from=source,
            seconds=self._time(step_run),
            privileges=self._privileges(step_run),
            licences=_declared(step_run, "licence"),
        )

    def _time(self, step_run: StepRun) -> float:
        if self._seconds is None:
            self._seconds = own_seconds(self._runs)
        return self._seconds.get(_kind(step_run.script.uid, step_run.step.choice.variations), -1.0)

    def _made_before(self, step_run: StepRun) -> EntrySummary | None:
        variations = set(step_run.step.choice.variations)
        same = [e for e in self._made_by(step_run.script) if set(e.variations) == variations]
        return max(same, key=lambda entry: entry.created, default=None)

    def _disk(self, planned_step: PlannedStep, step_run: StepRun) -> tuple[int, str]:
        if not step_run.step.cacheable:
            return 0, "keeps nothing"
        declared = declared_room(planned_step, step_run)
        if declared is not None:
            return declared, "declared"
        before = self._made_before(step_run)
        return (before.size, "as last time") if before else (-1, "")

    def _privileges(self, step_run: StepRun) -> tuple[str, ...]:
        declared = _declared(step_run, "privileges")
        if declared:
            return declared
        programs = self._programs(step_run.script.path)
        return ("can call sudo, if you allow it",) if programs.calls_sudo else ()

    def _own(self, step_run: StepRun) -> Iterable[Download]:
        """What a script that says nothing of downloads may fetch, to judge by its programs."""
        if self._programs(step_run.script.path).fetches:
            what = f"what {step_run.script.alias} may fetch by itself"
            yield Download(what, "addresses not known yet")


def declared_room(planned_step: PlannedStep, step_run: StepRun) -> int | None:
    """Return the bytes of disk that the entry of a step takes at least; None if not declared.

    Variations override the script. Of several the smallest counts, such as ``_tiny`` with a default
    of the full size; in the format of the first engines they add up. The size of a download is a
    declaration too. Nothing is declared where the user names a path: files there need no room, or
    none in the cache. ``planned_step`` is the step of the plan that ``step_run`` belongs to.
    """
    own, *more = (_megabytes(block) for block in _active_blocks(step_run))
    said = [size for size in more if size is not None]
    if said:
        size_bytes: int | None = min(said) if step_run.script.dialect.inputs_bind else sum(said)
    else:
        size_bytes = _size_of_own_download(step_run) if own is None else own
    return None if size_bytes and _names_a_place(planned_step, step_run) else size_bytes


def installs_packages(step_run: StepRun) -> bool:
    """Return whether all that a step makes lies within a Python, which may have it already."""
    said = step_run.script.settings.fetches
    return bool(said) and all(map(_is_package, said))


def _megabytes(block: Mapping[str, Any]) -> int | None:
    text = str(block.get("required_disk_space", ""))
    return int(text) * _MEGABYTE if text.isdecimal() else None


def _names_a_place(planned_step: PlannedStep, step_run: StepRun) -> bool:
    """Return whether one of the script's paths is set, as an input or by its env key.

    A path that a dependency takes too is a source of the entry, and does not replace it.
    """
    below = [child.step_run.script for child in planned_step.children if child.step_run is not None]
    sources = {spec.env for script in below for spec in script.inputs.values()}
    paths = {spec.env for spec in step_run.script.inputs.values() if spec.type == "path"}
    keys = paths - sources - {""}
    return bool(step_run.request.path) or any(step_run.env.peek(key, "") for key in keys)


def _size_of_own_download(step_run: StepRun) -> int | None:
    """Return the bytes of its download by the script's own env; a caller's is of another file."""
    prefix = step_run.script.dialect.prefix
    for key in (prefix + "DOWNLOAD_SIZE", prefix + "DOWNLOAD_SIZE_ABOUT"):
        if any(key in block.env or key in block.default_env for block in step_run.step.blocks):
            size = _known(step_run, key)
            return int(size) if size.isdecimal() else None
    return None


def _kind(uid: str, variations: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    return uid, tuple(sorted(variations))


def own_seconds(runs: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the seconds that a kind of step took last, without its dependencies."""
    names = sorted(os.listdir(runs), reverse=True)[:RECORDS] if os.path.isdir(runs) else []
    seconds_by_kind: dict[tuple[str, tuple[str, ...]], float] = {}
    seen = 0
    for name in names:
        path = os.path.join(runs, name, "record.json")
        if seen > STEPS:
            break
        with suppress(OSError, Error, KeyError):
            steps = load_record(path)["steps"]
            seen += len(steps)
            for step, seconds in zip(steps, own_times(steps), strict=True):
                if step["status"] == "done":
                    seconds_by_kind.setdefault(
                        _kind(step["script_uid"], step["variations"]), seconds
                    )
    return seconds_by_kind


def _declared(step_run: StepRun, key: str) -> tuple[str, ...]:
    """Return what the script's meta and its active variations say under ``key``."""
    if key not in _words(step_run.script):
        return ()
    texts: list[str] = []
    for block in _active_blocks(step_run):
        value = block.get(key)
        texts += [str(v) for v in (value if isinstance(value, list) else [value]) if v]
    return tuple(dict.fromkeys(texts))


def _active_blocks(step_run: StepRun) -> Iterator[Mapping[str, Any]]:
    """Yield the meta of the script and of its active variations, as written."""
    meta = step_run.script.meta
    yield meta
    variations = meta.get("variations") or {}
    for name in step_run.step.choice.variations:
        block = variations.get(name) or variations.get(name.partition(".")[0] + ".#")
        if isinstance(block, Mapping):
            yield block


@lru_cache(maxsize=1024)
def _words(script: Script) -> frozenset[str]:
    """Return the keys of a script's meta and of its variations."""
    blocks = [script.meta, *(script.meta.get("variations") or {}).values()]
    return frozenset(key for block in blocks if isinstance(block, Mapping) for key in block)


def downloads_of(planned_step: PlannedStep, step_run: StepRun) -> Iterator[Download]:
    """What the step says that it takes from the network, with its size as far as that is known."""
    prefix = step_run.script.dialect.prefix
    for text in planned_step.fetches:
        from urllib.parse import urlsplit

        if _KEY.fullmatch(text):
            yield Download(f"what {text} names: known only at run time", "addresses not known yet")
            continue
        url = urlsplit(text)
        if url.scheme not in ("http", "https", "ftp", "s3"):
            yield Download(text, "Python package index" if _is_package(text) else "")
            continue
        exact = _known(step_run, prefix + "DOWNLOAD_SIZE")
        size = exact or _known(step_run, prefix + "DOWNLOAD_SIZE_ABOUT")
        yield Download(
            text,
            url.hostname or "",
            int(size) if size.isdigit() else 0,
            _known(step_run, prefix + "DOWNLOAD_CHECKSUM"),
            about=bool(size) and not exact,
        )


def _is_package(text: str) -> bool:
    return text.startswith("Python package ")


def _known(step_run: StepRun, key: str) -> str:
    value = step_run.env.peek(key, MISSING)
    return "" if value is MISSING or isinstance(value, Pending) else mask(as_text(value)).strip()


def total(all_needs: Sequence[StepNeeds], sure: Sequence[StepNeeds], root: str) -> dict[str, Any]:
    """Return the sums over all steps, as JSON holds them; ``root`` is where the cache lies.

    ``sure`` are the needs of those steps that work whatever happens: their sums end in ``_sure``.
    """
    downloads = _distinct(all_needs)
    working = [needs for needs in all_needs if needs is not NOTHING]
    disk, seconds = [n.disk for n in working], [n.seconds for n in working]
    return {
        "downloads": len(downloads),
        "download_bytes": sum(d.size for d in downloads),
        "download_bytes_sure": sum(d.size for d in _distinct(sure)),
        "downloads_of_unknown_size": [d.size for d in downloads].count(0),
        "open_steps": sum(needs is UNKNOWN for needs in all_needs),
        "network": list(dict.fromkeys(d.host or d.what for d in downloads)),
        "disk_bytes": _sum_known(disk),
        "disk_bytes_sure": _sum_known(n.disk for n in sure),
        "steps_of_unknown_disk": _count_unknown(disk),
        "disk_free_bytes": free_space(root),
        "seconds": round(_sum_known(seconds), 1),
        "seconds_sure": round(_sum_known(n.seconds for n in sure), 1),
        "steps_of_unknown_time": _count_unknown(seconds),
        "privileges": _each_once(n.privileges for n in working),
        "licences": _each_once(n.licences for n in working),
    }


def _sum_known(values: Iterable[_Number]) -> _Number | int:
    return sum(value for value in values if value > 0)


def _count_unknown(values: Iterable[float]) -> int:
    return sum(value < 0 for value in values)


def _each_once(groups: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(text for group in groups for text in group))


def _distinct(all_needs: Sequence[StepNeeds]) -> list[Download]:
    return list(dict.fromkeys(d for needs in all_needs for d in needs.downloads))


def free_space(path: str) -> int:
    """Bytes that a user may still write on the file system that holds, or will hold, ``path``."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    system = os.statvfs(path)
    return system.f_bavail * system.f_frsize
