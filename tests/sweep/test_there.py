"""What is sent to other machines, called here: places for jobs, reserved and left."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cmbench_sweep import there


def test_who_comes_while_another_leaves_keeps_the_place_that_was_reserved(tmp_path: Path) -> None:
    base = tmp_path / "cache" / "place"
    problems: list[str] = []
    names = [f"{name}-{turn}" for name in ("one", "two") for turn in range(150)]

    def come_and_go(name: str) -> None:
        for turn in range(150):
            asked = {"base": str(base), "job": f"{name}-{turn}", "stay": False, "submitting": names}
            try:
                there.probe(asked)
                if not (base / "jobs" / asked["job"] / "written").exists():
                    problems.append(f"{asked['job']}: its place is gone")
            except OSError as problem:
                problems.append(str(problem))
            there.leave(asked)

    people = [threading.Thread(target=come_and_go, args=(name,)) for name in ("one", "two")]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert problems == []
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("stays", [True, False])
def test_a_job_that_another_one_has_fetched_is_over(tmp_path: Path, stays: bool) -> None:
    asked = {"base": str(tmp_path / "place"), "job": "one", "stay": stays, "at": 0, "have": []}
    asked["submitting"] = []
    there.probe(asked)
    there.leave(asked)
    told = there.look(asked)
    assert (told["status"], told["output"], told["points"]) == ("lost", 0, 0)
