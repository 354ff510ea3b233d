"""``cm run experiment --on=ray`` on a real Ray of two nodes, and where there is none."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ray_lab
import sweep_lab
from ray_lab import Ray
from sweep_lab import SWEEP, every, looking_often, points, runs_of, start

from support import HANG_S, Home, wait_for

RUN = (*sweep_lab.RUN, "--on=ray")


@pytest.fixture(scope="module")
def ray() -> Iterator[Ray]:
    with ray_lab.cluster() as found:
        yield found


@pytest.mark.slow
@pytest.mark.needs_index
def test_a_sweep_on_a_cluster_of_ray(
    home: Home, ray: Ray, counted: Callable[[], list[str]], world: Path
) -> None:
    text = SWEEP.replace("to: 12", "to: 6").replace("labels: {big: size > 8, fast: size > 10}", "")
    (world / "sweep.yaml").write_text(text + "labels: {big: size > 3}\n", encoding="utf-8")
    there = replace(looking_often(home), extra_env=ray.environment())
    running = start(there, "--on=ray")
    wait_for(lambda: len(runs_of(counted())) >= 3 or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=HANG_S)
    again = start(there, "--on=ray")
    said = again.communicate(timeout=HANG_S)[0]
    assert again.returncode == 0, said
    assert "is found again" in said
    found = points(there.cm("show", "experiment", "sweep", "--json", cwd=world).ok())
    assert [(point["status"], len(point["runs"])) for point in found] == [("measured", 1)] * 12
    assert runs_of(counted()) == every(6)
    assert counted().count("prepared") == 1
    jobs = there.cm_repos / "cmbench" / "sweeps" / "jobs"
    assert list(jobs.glob("*/job.json")) == []
    # Labels are resources of nodes; a token that is another one refuses access.
    (world / "sweep.yaml").write_text(text + "labels: [bigg]\n", encoding="utf-8")
    told = there.cm(*RUN, cwd=world)
    assert told.status == 4
    assert 'did you mean "big"' in told.stderr
    wrong_token = replace(there, extra_env={**there.extra_env, "RAY_AUTH_TOKEN": "0" * 64})
    assert "refuses access" in wrong_token.cm(*RUN, cwd=world).stderr
    # Ctrl-C ends what runs there.
    (world / "sweep.yaml").write_text(text.replace("0.2", "300"), encoding="utf-8")
    before = len(counted())
    running = start(there, "--on=ray")
    wait_for(lambda: len(counted()) > before or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=HANG_S)
    assert running.returncode
    assert list(jobs.glob("*/job.json")) == []


def test_where_no_ray_is(home: Home, world: Path) -> None:
    told = home.cm(*RUN, "--ray=http://127.0.0.1:9", cwd=world)
    assert "[ray-failed]: http://127.0.0.1:9 does not answer" in told.stderr
    assert not (world / "count").exists()
    assert "--ray=http://HOST:8265" in told.stderr
    assert "is not an address" in home.cm(*RUN, "--ray=ray://a:1", cwd=world).stderr
    assert "add --on=slurm" in home.cm(*RUN, "--partition=a", cwd=world).stderr
