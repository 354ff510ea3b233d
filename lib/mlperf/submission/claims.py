"""Two sets of results for one scenario of a tree: refused, as no rule could choose one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import names
from .errors import SubmissionError
from .intake import upstream
from .sources import BenchmarkRun

# What people, file managers and editors add to the name of a copy.
COPY_WORDS = frozenset(
    ("bak", "backup", "old", "older", "orig", "original", "prev", "previous", "save", "saved")
    + ("copy", "of", "kopie", "copie", "copia", "tmp")
)
# A date, such as 20251130 or 2025-11-30, has so many digits.
DATE_DIGITS = 8
HINT = (
    "move one of them out of this folder, or give a --results_dir that holds one of them; "
    "two machines need two names: run-mlperf,inference takes --hw_name=NAME"
)


def check(runs: Sequence[BenchmarkRun], root: Path) -> None:
    """Raise SubmissionError where two folders below ``root`` claim one scenario or one system."""
    scenarios: dict[tuple[str, str, str], Path] = {}
    systems: dict[str, Path] = {}
    for run in runs:
        system, benchmark = run.sut.casefold(), names.official(run.benchmark)
        for place in _claimants(run):
            first = systems.setdefault(system, place)
            _refuse(first, place, root, f"of the system {run.sut}")
        for scenario, sources in run.scenarios.items():
            first = scenarios.setdefault((system, benchmark, scenario), sources.home)
            what = f"of {benchmark} {scenario} on the system {run.sut}"
            _refuse(first, sources.home, root, what)
    _refuse_copies([run for run in runs if not run.results], root)


def renamed(runs: Sequence[BenchmarkRun]) -> Iterator[str]:
    """Return a note per folder of the harness's results whose name is not that of its system."""
    own = (run for run in runs if run.results)
    pairs = {(place.name, run.sut) for run in own for place in _folders(run)}
    for folder, sut in sorted(pairs):
        if folder != sut:
            yield f"the results in {folder} are of the system {sut}, as their results.json says"


def is_copy(name: str, other: str) -> bool:
    """Whether a name is another one with the mark of a copy: ``box.bak``, ``box (2)``, ``box~``."""
    before, separator, after = name.partition(other)
    rest = before + after
    if not separator or not rest:
        return False
    words = re.findall(r"[^\W\d_]+", rest.lower())
    marked = bool(words) or "~" in rest or "(" in rest
    dated = sum(sign.isdigit() for sign in rest) >= DATE_DIGITS
    return COPY_WORDS.issuperset(words) and (marked or dated)


def shown(place: Path, root: Path) -> str:
    """A folder as messages name it."""
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)


def _folders(run: BenchmarkRun) -> set[Path]:
    """The folders of the system, where results are in SYSTEM/BENCHMARK/SCENARIO."""
    return {sources.home.parent.parent for sources in run.scenarios.values()}


def _claimants(run: BenchmarkRun) -> Iterator[Path]:
    """Folders that hold results of the system of a run of ours: its own, and one so named."""
    for folder in sorted(_folders(run)) if run.results else ():
        yield folder
        if folder.with_name(run.sut).is_dir():
            yield folder.with_name(run.sut)


def _refuse_copies(runs: Sequence[BenchmarkRun], root: Path) -> None:
    """Refuse copies of results of other programs, which have the name of their folder."""
    first = {run.sut: min(_folders(run)) for run in runs if run.scenarios}
    for sut, place in first.items():
        for other, source in first.items():
            if sut != other and (is_copy(sut, other) or _is_renamed(place, source)):
                _refuse(source, place, root, f"of the system {other}")


def _is_renamed(place: Path, source: Path) -> bool:
    """Whether a folder says to be the system of another one, which alone has its name."""
    one, other = (
        upstream.known(upstream.read((folder_,), upstream.SUT_INFO)) for folder_ in (place, source)
    )
    name = one.get("system_name", "")
    return (
        bool(name)
        and one == other
        and not place.name.startswith(name)
        and source.name.startswith(name)
    )


def _refuse(first: Path, second: Path, root: Path, what: str) -> None:
    if first == second:
        return
    one, other = (shown(path, root) for path in (first, second))
    raise SubmissionError(f"{one} and {other} both hold results {what}", HINT, "needs-input")
