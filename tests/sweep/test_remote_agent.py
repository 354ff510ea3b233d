"""What is sent to other machines, called here: places for jobs, reserved and left."""

from __future__ import annotations

import errno
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cmbench_sweep import remote_agent
from cmbench_sweep.hosts import LabeledHost, SshSite, _MeasuringRound
from cmbench_sweep.ssh_jobs import SshHost
from cmbench_sweep.store import PointStore


def test_who_comes_while_another_leaves_keeps_the_place_that_was_reserved(tmp_path: Path) -> None:
    base = tmp_path / "cache" / "place"
    problems: list[str] = []

    def come_and_go(name: str) -> None:
        for turn in range(150):
            asked = {
                "base": str(base),
                "job": f"{name}-{turn}",
                "stay": False,
                "submitting": ["one", "two"],
            }
            try:
                remote_agent.probe(asked)
                if not (base / "jobs" / asked["job"] / "written").exists():
                    problems.append(f"{asked['job']}: its place is gone")
            except OSError as problem:
                problems.append(str(problem))
            remote_agent.leave(asked)

    people = [threading.Thread(target=come_and_go, args=(name,)) for name in ("one", "two")]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert problems == []
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_place_without_locks_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(remote_agent.fcntl, "flock", refuse)
    asked = {"base": str(tmp_path / "cache" / "place"), "job": "1-one", "submitting": []}
    with pytest.raises(OSError, match="its file system has no locks"):
        remote_agent.probe(asked)
    assert list((tmp_path / "cache").iterdir()) == []


def test_places_of_calls_that_are_dead_go_with_the_next_one(tmp_path: Path) -> None:
    base = tmp_path / "place"
    for job in ("1-one", "2-one", "3-two"):
        remote_agent.probe({"base": str(base), "job": job, "submitting": ["1", "2", "3"]})
    (base / "jobs" / "2-one" / "process").touch()
    remote_agent.probe({"base": str(base), "job": "4-one", "submitting": ["3", "4"]})
    left = sorted(path.name for path in (base / "jobs").iterdir())
    assert left == ["2-one", "3-two", "4-one"]


class Near(SshHost):
    """A machine whose requests are answered here."""

    def ask(
        self, verb: str, asked: Mapping[str, Any], *rest: object, **more: object
    ) -> tuple[dict[str, Any], bytes]:
        return remote_agent.VERBS[verb](dict(asked)), b""


def test_machines_with_one_home_have_places_of_their_own(tmp_path: Path) -> None:
    machines = tuple(LabeledHost(Near(name)) for name in ("one", "me@two:22"))
    opened = SimpleNamespace(
        store=PointStore(tmp_path), workspace=SimpleNamespace(root=str(tmp_path))
    )
    said: list[str] = []
    place = SshSite(machines, folder=str(tmp_path / "cache"))
    share = _MeasuringRound(place, cast(Any, opened), cast(Any, None), cast(Any, None), said.append)
    found = share._reached(machines, "1-2", [])
    assert said == []
    jobs = [Path(each.base, "jobs", each.job) for _, each in found]
    assert len({*jobs}) == 2
    assert all(job.is_dir() for job in jobs)


@pytest.mark.parametrize("stays", [True, False])
def test_a_job_that_another_one_has_fetched_is_over(tmp_path: Path, stays: bool) -> None:
    asked = {"base": str(tmp_path / "place"), "job": "one", "stay": stays, "at": 0, "have": []}
    asked["submitting"] = []
    remote_agent.probe(asked)
    remote_agent.leave(asked)
    told = remote_agent.read_progress(asked)
    assert (told["status"], told["output"], told["points"]) == ("lost", 0, 0)
