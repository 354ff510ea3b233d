"""The table of known causes: each entry finds its own real output, and none hides another."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmbench.lib import causes

TABLE = causes.known_causes()


def test_there_are_enough_and_each_is_named_once() -> None:
    names = [cause.name for cause in TABLE]
    assert len(names) >= 40
    assert len(names) == len(set(names))


@pytest.mark.parametrize("cause", TABLE, ids=[cause.name for cause in TABLE])
def test_each_cause_is_the_one_found_for_its_own_output(cause: causes.FailureCause) -> None:
    found = causes.find_cause(cause.seen)
    assert found is not None
    assert found.name == cause.name
    among = causes.find_cause(f"Collecting things\n{cause.seen}\n+ exit 1")
    assert among is not None
    assert among.name == cause.name


@pytest.mark.parametrize("cause", TABLE, ids=[cause.name for cause in TABLE])
def test_texts_read_well_in_one_sentence(cause: causes.FailureCause) -> None:
    assert cause.cause
    assert cause.remedy
    assert not cause.cause.endswith(".")
    assert not cause.remedy.endswith(".")


@pytest.mark.parametrize(
    "output",
    [
        "",
        "all 12 tests passed",
        "Result is : VALID",
        "downloading 404 files of 1403",
        "epoch 401 of 403, loss 0.404",
        "WARNING: no checksum was given",
    ],
)
def test_ordinary_output_has_no_known_cause(output: str) -> None:
    assert causes.remedy(output) == ""


def test_the_log_of_the_last_step_is_searched_and_no_other(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(
        "== top > first\nOSError: [Errno 28] No space left on device\n"
        "== first: done in 0.10 s\n== top > second\nModuleNotFoundError: No module named 'six'\n"
        + "line\n" * 30
        + "== second: failed in 0.20 s\n== top: failed in 0.31 s\n"
    )
    assert "lacks a package" in causes.remedy_in_log(str(log))
    assert causes.remedy_in_log(str(tmp_path / "none")) == ""
