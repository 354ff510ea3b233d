"""A submission of MLPerf Endpoints as it lies on the disk: curves of points, read, not judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem
from mlperf import client_run as runs
from mlperf.client_run import ClientRun

from . import tree
from .rules import DEDICATED, ELECTED, Regions

POINT_FOLDER = re.compile(r"r(\d+)")


@dataclass(frozen=True, slots=True)
class SubmittedPoint:
    """The files of one ``r<N>`` folder; ``faults`` are those that cannot be read, by name."""

    folder: Path
    point: Mapping[str, Any]
    system: Mapping[str, Any]
    run: ClientRun
    faults: Mapping[str, str]

    @property
    def concurrency(self) -> int:
        """Return what ``point.yaml`` says, or else the folder's name."""
        value = self.point.get("concurrency")
        named = POINT_FOLDER.fullmatch(self.folder.name)
        return value if isinstance(value, int) else int(named.group(1)) if named else 0

    @property
    def offline(self) -> str:
        """Return ``dedicated`` or ``elected`` for the Offline point, else an empty text."""
        value = self.point.get("offline")
        return str(value) if value in (DEDICATED, ELECTED) else ""

    @property
    def load_pattern(self) -> str:
        """Return how requests were sent, by ``point.yaml``."""
        settings = self.point.get("runtime_settings")
        return str(settings.get("load_pattern") or "") if isinstance(settings, Mapping) else ""

    @property
    def seeds(self) -> Mapping[str, Any]:
        """Return the seeds of ``point.yaml``."""
        settings = self.point.get("runtime_settings")
        runtime = settings.get("runtime") if isinstance(settings, Mapping) else None
        return runtime if isinstance(runtime, Mapping) else {}


@dataclass(frozen=True, slots=True)
class SubmittedCurve:
    """One model on one system (8.5), by rising concurrency; ``regions`` is None where unknown."""

    root: Path
    folder: Path
    points: tuple[SubmittedPoint, ...]
    regions: Regions | None

    @property
    def model(self) -> str:
        """Return the name of the folder, which is that of the model."""
        return self.folder.name

    @property
    def c_max(self) -> int | None:
        """Return the highest concurrency that the system's description declares."""
        values = [point.system.get("max_supported_concurrency") for point in self.points]
        return next((value for value in values if isinstance(value, int)), None)

    @property
    def agentic(self) -> bool:
        """Return whether all points but a dedicated Offline one are agentic (6.1)."""
        patterns = {point.load_pattern for point in self.points if point.offline != DEDICATED}
        return patterns == {"agentic_inference"}


def submission_root(path: Path) -> Path:
    """Return the folder with ``results``: this one, or its only child that has one."""
    if (path / tree.RESULTS).is_dir() or not path.is_dir():
        return path
    below = [child for child in sorted(path.iterdir()) if (child / tree.RESULTS).is_dir()]
    return below[0] if len(below) == 1 else path


def is_submission(path: Path) -> bool:
    """Return whether a folder has the tree of an Endpoints submission."""
    results = submission_root(path) / tree.RESULTS
    return any(results.glob(f"*/*/r*/{tree.POINT}"))


def read_curves(root: Path) -> Iterator[SubmittedCurve]:
    """Yield every curve in a submission, in a fixed order."""
    for system in _folders(root / tree.RESULTS):
        for model in _folders(system):
            yield read_curve(root, model)


def read_curve(root: Path, folder: Path) -> SubmittedCurve:
    """Return the curve in a folder with ``r<N>`` below it."""
    named = [path for path in _folders(folder) if POINT_FOLDER.fullmatch(path.name)]
    points = tuple(sorted(map(read_point, named), key=lambda point: point.concurrency))
    curve = SubmittedCurve(root, folder, points, None)
    return SubmittedCurve(root, folder, points, _regions(curve))


def read_point(folder: Path) -> SubmittedPoint:
    """Return a point; what cannot be read is among its faults."""
    faults: dict[str, str] = {}
    point = _mapping(folder / tree.POINT, faults)
    system = _mapping(folder / tree.SYSTEM, faults)
    config = _mapping(folder / runs.CONFIG, faults)
    summary = _mapping(folder / runs.SUMMARY, faults)
    accuracy: tuple[Mapping[str, Any], ...] = ()
    path = folder / runs.ACCURACY
    if path.exists():
        try:
            accuracy = runs.entries_of(path)
        except Problem as problem:
            faults[runs.ACCURACY] = problem.message
    run = ClientRun(folder, config, summary, accuracy, path if path.exists() else None)
    return SubmittedPoint(folder, point, system, run, faults)


def _mapping(path: Path, faults: dict[str, str]) -> Mapping[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    except FileNotFoundError:
        faults[path.name] = "missing"
        return {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        faults[path.name] = " ".join(str(error).split())[:120]
        return {}
    if isinstance(document, Mapping):
        return document
    faults[path.name] = "it is no mapping"
    return {}


def _regions(curve: SubmittedCurve) -> Regions | None:
    from .rules import ULTRA_LOW_END, regions_of

    overrides = [point.system["c_min_override"] for point in curve.points
                 if "c_min_override" in point.system]  # fmt: skip
    levels = [point.concurrency for point in curve.points if point.concurrency > 0]
    if curve.c_max is None or not levels:
        return None
    c_min = overrides[0] if overrides else min(*levels, ULTRA_LOW_END)
    try:
        return regions_of(curve.c_max, c_min, overridden=bool(overrides))
    except (Problem, TypeError):
        return None


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []
