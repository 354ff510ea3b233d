"""Where a folder of LoadGen's logs belongs, by its path and by the log itself.

CM and MLC write ``SYSTEM/MODEL/SCENARIO/{performance/run_1, accuracy, TEST01, ...}``; other
programs leave the parts of such a path out, down to one flat folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf import catalog
from mlperf.catalog import Scenario
from mlperf.catalog.scenario import of_log
from mlperf.harness.measuring import detail_log
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.settings import ACCURACY, PERFORMANCE

from .. import layouts
from ..layouts import MAPPING
from ..sources import as_object

DETAIL = "mlperf_log_detail.txt"
PACKED = f"{DETAIL}.gz"
SUMMARY = "mlperf_log_summary.txt"
EMPTY = "empty: LoadGen has written nothing"
# What LoadGen writes at the beginning of a log, and the characters that hold it.
SETTINGS = ('"loadgen_version"', '"effective_')
HEAD = 1 << 20
SHOWN = 40
TEST = re.compile(r"TEST\d\d")
RUN = re.compile(r"run_\d+")
# What the folder of a system holds in results of MLC and CM.
SYSTEM_FILES = ("mlc-sut-info.json", "cm-sut-info.json", "system_meta.json")
RESULTS = "_results"
# Folders with logs of other purposes: ranging runs for power, tries that do not count.
PASSED_OVER = ("ranging", "attempts", "find-performance")
FIND_PEAK = "FindPeakPerformance"


@dataclass(frozen=True, slots=True)
class LogFolder:
    """One run: its folder and log, and what its path says (empty where it says nothing).

    ``part`` is performance, accuracy or the name of a test; ``home`` is the folder of the scenario.
    """

    folder: Path
    log: DetailLog
    part: str
    scenario: str
    benchmark: str
    system: str
    home: Path

    @property
    def logged(self) -> Scenario | None:
        """The scenario that the log names."""
        return of_log(self.log.values.get("effective_scenario"))


def places(root: Path, skipped: Sequence[Path] = ()) -> Iterator[LogFolder]:
    """Every run below ``root``, but those below the ``skipped`` folders; in a fixed order."""
    for here in _folders(root, skipped):
        log = detail_log.read(here / DETAIL)
        is_peak = log.values.get("effective_test_mode") == FIND_PEAK
        if not is_peak and not any(_unusable(here)):
            yield _place(root, here, log)


def others(root: Path, skipped: Sequence[Path] = ()) -> Iterator[tuple[Path, str]]:
    """Yield the logs below ``root`` that no run can be read from, and what they are."""
    for here in _folders(root, skipped, (DETAIL, PACKED, SUMMARY)):
        yield from _unusable(here)


def _unusable(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the log of a folder that no run can be read from, and what it is."""
    log = folder / DETAIL
    if log.is_file():
        if what := detail_log.other_log(log) or _no_log(log):
            yield log, what
    elif (folder / PACKED).is_file():
        yield folder / PACKED, f"packed: gunzip {PACKED}"
    else:
        yield folder / SUMMARY, f"a summary alone: {DETAIL}, which holds the figures, is not there"


def _no_log(path: Path) -> str:
    """Return why a file is no log of LoadGen; empty for one, which begins with its settings."""
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(HEAD)
    if not head.strip():
        return EMPTY
    if detail_log.PREFIX in head and any(key in head for key in SETTINGS):
        return ""
    return f"no detailed log of LoadGen: it begins with {head.strip()[:SHOWN]!r}"


def _folders(
    root: Path, skipped: Sequence[Path], logs: Sequence[str] = (DETAIL,)
) -> Iterator[Path]:
    """Yield the folders with one of these ``logs``, but those below the ``skipped`` ones."""
    for parent, folders, files in os.walk(root):
        here = Path(parent)
        folders[:] = sorted(
            name
            for name in folders
            if not (name.startswith(".") or name in PASSED_OVER or here / name in skipped)
            and not is_tree(here / name)
        )
        if any(name in files for name in logs):
            yield here


def trees(root: Path) -> Iterator[Path]:
    """The submission trees below ``root``, whose logs are copies of results; in a fixed order."""
    for parent, folders, _ in os.walk(root):
        inside = [name for name in sorted(folders) if is_tree(Path(parent) / name)]
        yield from (Path(parent) / name for name in inside)
        folders[:] = sorted(
            name for name in folders if not (name.startswith(".") or name in inside)
        )


def is_tree(folder: Path) -> bool:
    """Whether a folder is a submission tree: DIVISION/SUBMITTER with ``results`` or ``systems``."""
    return any(
        (submitter / top).is_dir()
        for division in layouts.DIVISIONS
        for submitter in layouts.folders(folder / division)
        for top in (layouts.RESULTS, layouts.SYSTEMS)
    )


def _place(root: Path, folder: Path, log: DetailLog) -> LogFolder:
    part, home = _part(folder)
    rest, scenario, benchmark, system = home, "", "", ""
    if Scenario.of_folder(rest.name) is not None:
        scenario, rest = rest.name, rest.parent
    if (scenario or rest.is_relative_to(root)) and _is_benchmark(rest):
        benchmark, rest = rest.name, rest.parent
        system = rest.name if scenario and _is_system(root, rest) else ""
    return LogFolder(folder, log, part or _logged_part(log), scenario, benchmark, system, home)


def _logged_part(log: DetailLog) -> str:
    accurate = log.values.get("effective_test_mode") == "AccuracyOnly"
    return ACCURACY if accurate else PERFORMANCE


def _part(folder: Path) -> tuple[str, Path]:
    """What a path says of the kind of a run, and the folder above what says it."""
    part = ""
    while True:
        name = folder.name
        if TEST.fullmatch(name):
            part = name
        elif name in (PERFORMANCE, ACCURACY):
            part = part or name
        elif not RUN.fullmatch(name):
            return part, folder
        folder = folder.parent


def _is_benchmark(folder: Path) -> bool:
    if catalog.find(folder.name, open_division=True) is not None:
        return True
    return folder.name in mapping(folder)


def mapping(folder: Path) -> dict[str, str]:
    """The names of models of one's own, in or above the folder of a benchmark."""
    for path in (folder.parent / MAPPING, *sorted(folder.glob(f"*/performance/run_1/{MAPPING}"))):
        document = as_object(path.read_text("utf-8", "replace")) if path.is_file() else None
        if document:
            return {str(name): str(to) for name, to in document.items()}
    return {}


def _is_system(root: Path, folder: Path) -> bool:
    """Whether the folder above that of a benchmark is named after a system."""
    within = folder != root and folder.is_relative_to(root)
    marked = any((folder / name).is_file() for name in SYSTEM_FILES)
    return within or marked or folder.parent.name.endswith(RESULTS)
