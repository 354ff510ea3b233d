"""Scripts of other people run by this engine and by their own, and what both give back.

    CM4MLOPS=~/cm4mlops CM4MLOPS_PYTHON=~/peers/cm/bin/python \\
    MLPERF_AUTOMATIONS=~/mlperf-automations MLPERF_AUTOMATIONS_PYTHON=~/peers/mlc/bin/python \\
    pytest tests/compat/test_runs.py -s

The two pythons hold the other engines (``pip install cmind`` and ``pip install mlcflow``). The
requests and what is known of them are in ``cases/``. Runs take half an hour for each collection;
``COMPAT_ONLY=text`` takes only the requests that hold the text.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compat.cases import Case, make_fixtures, read_cases
from compat.worlds import Answer, World
from support import served

SECONDS = 180
COLLECTIONS = {"cm": "CM4MLOPS", "mlc": "MLPERF_AUTOMATIONS"}


@dataclass(frozen=True)
class Compared:
    """One request, what both engines answered, and how that is to be judged."""

    case: Case
    theirs: Answer
    ours: Answer

    @property
    def different(self) -> dict[str, tuple[Any, Any]]:
        """Every key whose value differs between two runs that both succeeded."""
        pairs = [(self.theirs.env, self.ours.env), (self.theirs.state, self.ours.state)]
        return {
            key: (one.get(key), other.get(key))
            for one, other in pairs
            for key in sorted({*one, *other})
            if one.get(key) != other.get(key)
        }

    @property
    def verdict(self) -> str:
        """``equal``, ``both refuse``, ``known`` or ``different``."""
        failed = (bool(self.theirs.status), bool(self.ours.status))
        if all(failed):
            return "both refuse"
        if any(failed):
            return (
                "known" if ("theirs" if failed[0] else "ours") in self.case.known else "different"
            )
        left = [key for key in self.different if key not in self.case.known]
        if left:
            return "different"
        return "known" if self.different else "equal"

    def text(self) -> str:
        """What differs, and the reason where it is known."""
        if self.theirs.status or self.ours.status:
            side, answer = ("theirs", self.theirs) if self.theirs.status else ("ours", self.ours)
            reason = self.case.known.get(side, "")
            return f"{side} fails ({answer.status}): {reason or answer.error[:200]}"
        lines = [
            f"{key}: {self.case.known.get(key) or f'theirs {one!r}, ours {other!r}'}"
            for key, (one, other) in self.different.items()
        ]
        return "; ".join(lines)


@pytest.mark.parametrize("name", COLLECTIONS)
def test_results_are_those_of_their_own_engine(name: str, tmp_path: Path) -> None:
    collection, python = _given(name)
    cases = [c for c in read_cases(name) if os.environ.get("COMPAT_ONLY", "") in c.line]
    theirs = World(tmp_path / "theirs", collection, name, python)
    ours = World(tmp_path / "ours", collection, "cm", sys.executable, own=True)
    results = []
    print(f"\n{COLLECTIONS[name]}: {len(cases)} requests")
    for case in cases:
        results.append(Compared(case, *(_run(world, case, name) for world in (theirs, ours))))
        _print_row(results[-1])
    counts = Counter(result.verdict for result in results)
    print("  " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    target = os.environ.get("COMPAT_OUT")
    if target:
        _write(Path(target) / f"{name}.json", results)
    assert [r.case.line for r in results if r.verdict == "different"] == []


def _given(name: str) -> tuple[Path, str]:
    variable = COLLECTIONS[name]
    place, python = os.environ.get(variable), os.environ.get(f"{variable}_PYTHON")
    if not place or not python:
        pytest.skip(f"{variable} and {variable}_PYTHON name no checkout and no engine")
    return Path(place).expanduser().resolve(), os.path.expanduser(python)


def _run(world: World, case: Case, name: str) -> Answer:
    """One run with files of its own, so that no engine sees what the other has done to them."""
    fixtures = make_fixtures(world.folder / "fixtures")
    try:
        with served(fixtures) as address:
            table = (fixtures / "table.csv").read_bytes()
            words = {
                "P": name.upper(),
                "fixtures": str(fixtures),
                "http": address,
                "md5": hashlib.md5(table).hexdigest(),
            }
            answer = world.run(case.request(words), SECONDS, {address: "<http>"})
    finally:
        shutil.rmtree(fixtures)
        world.clean()
    return answer


def _print_row(result: Compared) -> None:
    note = "" if result.verdict in ("equal", "both refuse") else "  " + result.text()
    print(f"  {result.verdict:<12} {result.case.line}{note}", flush=True)


def _write(path: Path, results: list[Compared]) -> None:
    def data(answer: Answer) -> Mapping[str, Any]:
        return {"status": answer.status, "error": answer.error, "env": answer.env}

    path.write_text(
        json.dumps(
            [
                {
                    "request": r.case.line,
                    "verdict": r.verdict,
                    "note": r.text(),
                    "theirs": data(r.theirs),
                    "ours": data(r.ours),
                }
                for r in results
            ],
            indent=1,
            default=str,
        )
    )
