"""Writing a submission tree from finished runs.

The tree is written to a hidden folder next to its path and renamed in one step, so that an
interrupted call leaves the tree that was there before.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from mlperf import catalog
from mlperf.catalog import Division
from mlperf.harness.reporting.results import remove_stale_folders, staging_folder

from . import layouts, names, texts, truncate
from .errors import SubmissionError
from .layouts import ScenarioCell, TreeLayout
from .sources import (
    MEASUREMENTS,
    README,
    USER_CONF,
    BenchmarkRun,
    Document,
    ScenarioSources,
    as_object,
)

T = TypeVar("T")
DETAIL, SUMMARY = "mlperf_log_detail.txt", "mlperf_log_summary.txt"
LOGS = (DETAIL, SUMMARY)
ACCURACY = (truncate.LOG, truncate.TEXT, *LOGS)
TEST_TEXTS = ("verify_accuracy.txt", "verify_performance.txt")
TEST_ACCURACY = (truncate.LOG, truncate.TEXT, "baseline_accuracy.txt", "compliance_accuracy.txt")
# What people look at: outputs of some samples.
OUTPUTS = ("images", "videos")
SAMPLES = "spl.txt"
METER_FILES = ("analyzer_table.*", "power_settings.*")
MEASUREMENT_KEYS = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)


@dataclass(frozen=True, slots=True)
class TreeOrder:
    """Settings of a tree: submitter, division and layout of the round."""

    submitter: str
    division: str
    layout: TreeLayout
    clean: bool
    truncated: bool = True


@dataclass(frozen=True, slots=True)
class TreePart:
    """One benchmark of the tree, with the description of its system (the fields of its JSON)."""

    run: BenchmarkRun
    system: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BuiltTree:
    """The scenarios that were written, and notes on what could not be."""

    cells: tuple[ScenarioCell, ...]
    notes: tuple[str, ...]


def build(
    target: Path,
    parts: Sequence[TreePart],
    order: TreeOrder,
    finish: Callable[[Path], None] | None = None,
) -> BuiltTree:
    """Write the tree ``target``; what it holds of other systems stays, unless ``order.clean``.

    ``finish`` gets the folder before it is renamed. Raises SubmissionError when the path holds
    something that is no submission tree, or when a name cannot be part of one.
    """
    check_name(order.submitter, "--submitter")
    for part in parts:
        check_name(part.run.sut, "the name of the system")
    refuse_foreign(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_stale_folders(target.parent.glob(f".{target.name}.*"))
    with staging_folder(target.parent, target.name) as folder:
        if target.exists() and not order.clean:
            shutil.copytree(target, folder, dirs_exist_ok=True, symlinks=True)
        built = _fill(folder, parts, order)
        if finish is not None:
            finish(folder)
        publish(folder, target)
    moved = tuple(
        replace(cell, root=target / cell.root.relative_to(folder)) for cell in built.cells
    )
    return BuiltTree(moved, built.notes)


def publish(folder: Path, target: Path) -> None:
    """Replace ``target`` by a finished folder."""
    old = target.with_name(f".{target.name}.old.{os.getpid()}")
    if target.exists():
        target.rename(old)
    folder.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def check_name(name: str, what: str) -> None:
    """Names become folders: raises SubmissionError for one that rules or git do not like."""
    wrong = [sign for sign in " /\\:\t\n" if sign in name]
    if not name or name.startswith(".") or wrong:
        raise SubmissionError(
            f"{what} is {name!r}: it must be the name of a folder, without spaces and slashes",
            "use letters, digits, '-' and '_'",
        )


def refuse_foreign(target: Path) -> None:
    """Raises SubmissionError when ``target`` holds what no submission tree holds."""
    if not target.exists():
        return
    if not target.is_dir():
        raise SubmissionError(f"{target} is a file", "give another --submission_dir")
    foreign = sorted(
        path.name
        for path in target.iterdir()
        if path.name not in layouts.DIVISIONS and path.suffix not in (".md", ".pdf")
    )
    if foreign:
        raise SubmissionError(
            f"{target} is not a submission tree: it holds {', '.join(foreign[:3])}",
            "give an empty folder, or one that does not exist yet, as --submission_dir",
        )


def _fill(folder: Path, parts: Sequence[TreePart], order: TreeOrder) -> BuiltTree:
    root = folder / order.division / order.submitter
    made: list[ScenarioCell] = []
    notes: list[str] = []
    cleared: set[Path] = set()
    for part in parts:
        run, benchmark = part.run, names.official(part.run.benchmark)
        for scenario, sources in run.scenarios.items():
            cell = ScenarioCell(order.layout, root, run.sut, benchmark, scenario)
            _clear(cell, cleared)
            missing = _scenario(cell, sources)
            notes += [f"{run.sut} {benchmark} {scenario}: {name} is missing" for name in missing]
            made.append(cell)
        _json(root / layouts.SYSTEMS / f"{run.sut}.json", part.system)
        _code(root / order.layout.code / benchmark, run.code)
    _documents(root, parts, order)
    return BuiltTree(tuple(made), tuple(notes))


def _code(target: Path, source: Document) -> None:
    """The code of a benchmark: a text that says where it is, or a copy of a folder."""
    if isinstance(source, str):
        _write(target / "README.md", source)
        return
    hidden = shutil.ignore_patterns(".*", "__pycache__", "*.pyc")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=hidden)


def _documents(root: Path, parts: Sequence[TreePart], order: TreeOrder) -> None:
    """Write the documents of the whole submission; truncate logs last."""
    if order.division == Division.OPEN:
        official_names = {path.name: names.official(path.name) for path in _benchmarks(root)}
        declared_names = {name: to for part in parts for name, to in part.run.mapping.items()}
        _json(root / layouts.MAPPING, {**official_names, **names.mapping(root), **declared_names})
    _write(root / layouts.CALIBRATION, texts.calibration(part.run.calibration for part in parts))
    if order.truncated:
        truncate.truncate_all(root)


def _benchmarks(root: Path) -> list[Path]:
    return [
        path
        for system in layouts.folders(root / layouts.RESULTS)
        for path in layouts.folders(system)
    ]


def _clear(cell: ScenarioCell, cleared: set[Path]) -> None:
    """Remove what an earlier call has written for a scenario."""
    for folder in (cell.results, cell.measurements, cell.compliance("")):
        if folder not in cleared:
            shutil.rmtree(folder, ignore_errors=True)
            cleared.add(folder)


def _scenario(cell: ScenarioCell, sources: ScenarioSources) -> list[str]:
    """Copy one scenario; returns the names of what the runs do not hold."""
    missing = _copy(sources.performance, cell.run, LOGS)
    missing += _copy(sources.accuracy, cell.accuracy, ACCURACY)
    for name in OUTPUTS:
        if (sources.accuracy / name).is_dir():
            shutil.copytree(sources.accuracy / name, cell.accuracy / name)
    truncate.state(cell.accuracy)
    missing += _described(cell, sources)
    if cell.layout.mlperf_conf:
        known = catalog.find(cell.benchmark, cell.layout.round)
        _write(cell.measurements / "mlperf.conf", texts.loadgen_conf(known))
    for test, folder in sources.tests.items():
        _test(cell.compliance(test), folder)
    return missing + _power(cell, sources.home)


def _described(cell: ScenarioCell, sources: ScenarioSources) -> list[str]:
    """Write the documents of a scenario; return the names of missing ones."""
    documents = {name: sources.text(name) for name in (USER_CONF, README)}
    for name, text in documents.items():
        if text is not None:
            _write(cell.measurements / name, texts.without_places(text) if name == README else text)
    missing = [name for name, text in documents.items() if text is None]
    measurements = as_object(sources.text(MEASUREMENTS))
    if measurements is None:
        return [*missing, MEASUREMENTS]
    name = cell.layout.measurement_file(cell.system, cell.scenario)
    _json(cell.measurements / name, {key: measurements.get(key, "") for key in MEASUREMENT_KEYS})
    return missing


def _power(cell: ScenarioCell, source: Path) -> list[str]:
    """Copy the files of a power measurement; return the names of missing ones."""
    if not (source / layouts.POWER).is_dir():
        return []
    for name in (layouts.POWER, layouts.RANGING):
        if (source / name).is_dir():
            shutil.copytree(source / name, cell.results / name, dirs_exist_ok=True)
    cell.measurements.mkdir(parents=True, exist_ok=True)
    for pattern in METER_FILES:
        for path in sorted(source.glob(pattern)):
            shutil.copyfile(path, cell.measurements / path.name)
    return _copy(source / "performance" / "run_1", cell.run, (SAMPLES,))


def _test(target: Path, source: Path) -> None:
    _copy(source / "performance" / "run_1", target / "performance" / "run_1", LOGS)
    present = tuple(name for name in TEST_TEXTS if (source / name).is_file())
    _copy(source, target, present)
    answers = tuple(name for name in TEST_ACCURACY if (source / "accuracy" / name).is_file())
    _copy(source / "accuracy", target / "accuracy", answers)


def _copy(source: Path, target: Path, wanted: Sequence[str]) -> list[str]:
    """Copy files; returns those that are not there."""
    missing = []
    for name in wanted:
        if not (source / name).is_file():
            missing.append(name)
            continue
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    return missing


def _json(path: Path, document: Mapping[str, object]) -> None:
    _write(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def edit(target: Path, change: Callable[[Path], list[T]]) -> list[T]:
    """Apply ``change`` to a copy of the tree and publish it: all of it or nothing.

    Raises SubmissionError where there is no tree.
    """
    if not target.is_dir():
        raise SubmissionError(f"there is no tree {target}", "check --submission_dir")
    remove_stale_folders(target.parent.glob(f".{target.name}.*"))
    with staging_folder(target.parent, target.name) as folder:
        shutil.copytree(target, folder, dirs_exist_ok=True, symlinks=True)
        changed = change(folder)
        publish(folder, target)
    return changed
