"""One configuration over time, by the versions that its runs used."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from samples import add, own_run

from cmbench_results.regression import history, probability
from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store
from support import Finished

SLOW, FAST = (100.0, 101.0, 102.0, 103.0), (110.0, 111.0, 112.0, 113.0)


def _runs(folder: Path, versions: str, values: Sequence[float], day: int, batch: int = 4) -> None:
    for number, value in enumerate(values):
        run = own_run(folder / f"{day}-{number}", value, f"2026-11-{day}T10:{number:02}:00+00:00")
        document = json.loads((run / "results.json").read_text("utf-8"))
        document["versions"] = {"onnxruntime": versions, "numpy": "2.0"}
        measured = document["results"][0]["performance_run"]
        measured["circumstances"]["versions"] = document["versions"]
        measured["shape"]["batch"] = batch
        (run / "results.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[], Store]:
    _runs(tmp_path / "runs", "1.2", SLOW, 10)
    _runs(tmp_path / "runs", "1.3", FAST, 11)
    _runs(tmp_path / "runs", "1.4", (111.5,), 12)
    _runs(tmp_path / "runs", "1.4", (5.0,), 13, batch=1)

    def opened() -> Store:
        store = Store(SourceFiles(tmp_path / "home"), "")
        for folder in sorted((tmp_path / "runs").iterdir()):
            add(store, folder)
        return store

    return opened


def test_versions_are_compared_in_the_order_of_their_time(measured: Callable[[], Store]) -> None:
    from cmbench_results import query

    with measured() as store:
        newest = query.find(store, query.Filter(), "-measured_at", 9).rows[1]
        lines = history(store, store.result(newest["uid"]))
    assert [(line.versions, len(line.runs)) for line in lines] == [
        ("onnxruntime 1.2", 4),
        ("onnxruntime 1.3", 4),
        ("onnxruntime 1.4", 1),
    ], "another batch is another configuration"
    assert lines[0].verdict == ""
    assert lines[1].verdict == "faster by 9.9% (p = 0.029)"
    assert "too few runs to tell" in lines[2].verdict


def test_the_command_line_has_a_line_for_every_version(
    measured: Callable[[], Store], cm: Callable[..., Finished], tmp_path: Path
) -> None:
    cm("add", "results", str(tmp_path / "runs")).ok()
    text = cm("show", "results", "last", "--history").ok().stdout
    assert "1 run    the same versions" in text, "the newest has another batch"
    uid = json.loads(cm("find", "results", "--sort=measured_at", "--json").ok().stdout)["list"][0][
        "uid"
    ]
    text = cm("show", "results", uid, "--history").ok().stdout
    assert "111.5 samples/s  4 runs   onnxruntime 1.3" in text
    assert "faster by 9.9% (p = 0.029)" in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    # Counted by hand; the last by the normal approximation: z = 149.5 / 36.95.
    [
        (SLOW, FAST, 2 / 70),
        ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), 0.1),
        ((1.0, 1.0), (1.0, 1.0), 1.0),
        ((1.0, 3.0, 5.0, 7.0), (2.0, 4.0, 6.0, 8.0), 0.6857),
        (tuple(range(20)), tuple(range(10, 30)), 5.2e-5),
    ],
)
def test_a_difference_has_the_probability_of_its_ranks(
    one: Sequence[float], other: Sequence[float], expected: float
) -> None:
    assert probability(one, other) == pytest.approx(expected, rel=0.03)
    assert probability(other, one) == pytest.approx(probability(one, other))
