"""The rows of a tree tell what the official summary of the same tree tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import power_lab as power
import submission_lab as lab
import submission_mutations as mutations

from mlperf.submission import page, summary  # isort: skip


def cells(tree: lab.SubmissionTree) -> tuple[lab.ScenarioCell, ...]:
    (_, _, root), *_ = tree.submitters()
    return tuple(lab.layouts.cells(root, tree.layout))


def rows(tree: lab.SubmissionTree, scenario: str = "Offline") -> list[summary.SummaryRow]:
    return [row for row in summary.rows(tree) if row.scenario == scenario]


def test_a_language_model_is_told_in_tokens(tmp_path: Path) -> None:
    example = lab.Example("5.1", "closed", ("llama2-70b-99",), ("Server", "Offline"), "datacenter")
    (row,) = rows(lab.make(tmp_path / "tree", example))
    assert row.unit == "tokens/s"
    slower = replace(row, submitter="Other", value=row.value and row.value / 2)
    _, note, _ = page._speed(row, row.value or 0.0, [slower])
    assert note == f"{row.metric}, higher is better; 2.00 times as fast as Other"


def test_an_inferred_result_is_the_one_that_is_published(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(scenarios=("SingleStream",)))
    for cell in cells(tree):
        cell.results.rename(cell.results.parent / "offline")
    (row,) = rows(tree, "offline")
    assert (row.value, row.unit) == (950.0, "samples/s")
    assert summary.cells_of(row)[2].startswith("inferred from SingleStream: 950 samples/s")


LANGUAGE = lab.Example(
    "6.0", "closed", ("llama2-70b-99",), ("Server", "Interactive", "Offline"), "datacenter"
)


def test_an_interactive_result_is_measured(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", LANGUAGE)
    assert {row.scenario: row.inferred_from for row in summary.rows(tree)} == dict.fromkeys(
        LANGUAGE.scenarios, ""
    )
    assert "inferred" not in summary.as_csv(summary.rows(tree)).partition("\n")[2]
    for path, text in summary.readmes(tree):
        assert "inferred" not in text, path


def test_a_log_of_another_scenario_is_not_taken_for_measured(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", LANGUAGE)
    place = next(cell for cell in cells(tree) if cell.scenario == "Offline").run
    path = place / "mlperf_log_detail.txt"
    path.write_text(
        path.read_text().replace(
            lab.line("effective_scenario", "Offline"), lab.line("effective_scenario", "Server")
        )
    )
    (row,) = rows(tree)
    assert row.inferred_from == "Server"


def test_power_is_told_beside_the_result(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(scenarios=("Offline",)))
    (row,) = rows(tree)
    assert (row.power_w, row.joules_per_sample) == (None, None)
    power.measure(tree, *cells(tree))
    (row,) = rows(tree)
    assert row.power_w == pytest.approx(45.5)
    assert row.joules_per_sample == pytest.approx(45.5 / 1000)
    assert ", 45.5" in summary.cells_of(row)[2]


def test_tests_are_told_as_the_checks_judge_them(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    place = mutations.place(tree)

    def told() -> str:
        (row,) = rows(tree)
        return summary.cells_of(row)[-1]

    assert told() == "TEST01 passed, TEST04 passed"
    mutations.unequal(place, 0.999)
    assert told() == "TEST01 passed, TEST04 passed"
    mutations.unequal(place, 0.9)
    assert told() == "TEST04 passed, TEST01 FAILED"
    mutations.unequal(place, 0.999)
    (mutations.tested(place, "TEST04") / "verify_performance.txt").write_text("TEST FAIL\n")
    assert told() == "TEST01 passed, TEST04 FAILED"
    for path in tree.root.rglob("performance/run_1/" + mutations.DETAIL):
        mutations.value(path, "effective_min_duration_ms", 10_000)
    assert told() == "TEST01 passed, TEST04 too short to compare"
