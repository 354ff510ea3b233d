"""``cm run experiment --on=slurm`` on a real Slurm of three nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sweep_lab
from slurm_lab import Slurm, missing
from sweep_lab import SWEEP, every, looking_often, points, runs_of, start, write_scripts

from support import HANG_S, ROOT, Home, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

RUN = (*sweep_lab.RUN, "--on=slurm")
# What people set for the commands that they type themselves; it must not hide our jobs from us.
OF_THE_USER = {
    "SBATCH_EXPORT": "NONE",
    "SQUEUE_PARTITION": "elsewhere",
    "SQUEUE_USERS": "nobody",
    "SINFO_PARTITION": "elsewhere",
    "SACCT_STATE": "FAILED",
}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    # The names of sockets must be short, and every user of the cluster goes through the folder.
    with (
        tempfile.TemporaryDirectory(prefix="sl", ignore_cleanup_errors=True) as folder,
        Slurm(Path(folder) / "s") as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster_home(home: Home, slurm: Slurm, world: Path) -> Home:
    # A point takes a second of Slurm's, however short it is.
    (world / "sweep.yaml").write_text(SWEEP.replace("0.2", "0.02"), encoding="utf-8")
    return replace(looking_often(home), extra_env={**slurm.environment(), **OF_THE_USER})


@pytest.fixture(scope="module")
def late(
    slurm: Slurm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Home, subprocess.Popen[str]]]:
    """A sweep whose one task is out of time: Slurm looks for such only every half minute.

    Its node is one of three; tests that need no more than two go on meanwhile.
    """
    world = tmp_path_factory.mktemp("late")
    write_scripts(world)
    count = world / "count"
    own = {"SWEEP_COUNT": str(count), "TMPDIR": str(world), **slurm.environment()}
    home = Home(world, extra_env=own)
    home.register(ROOT, world / "repo")
    text = SWEEP.replace("to: 12", "to: 1").replace("[1, 2]", "[1]").replace("0.2", "600")
    (world / "sweep.yaml").write_text(text, encoding="utf-8")
    running = start(home, "--on=slurm", "--time=20")
    try:
        wait_for(
            lambda: (count.exists() and "1,1" in count.read_text()) or running.poll() is not None
        )
        (task,) = slurm.asked("squeue", "-h", "-r", "-t", "R", "-o", "%i").split()
        slurm.asked("scontrol", "update", f"jobid={task}", "endtime=now+1second")
        yield home, running
    finally:
        running.kill()
        running.communicate(timeout=HANG_S)


def figures(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {json.dumps(point["values"]): point["figures"] for point in found}


def test_a_sweep_outlives_who_submitted_it_and_the_controller(
    cluster_home: Home, slurm: Slurm, counted: Callable[[], list[str]], world: Path
) -> None:
    running = start(cluster_home, "--on=slurm")
    wait_for(lambda: len(counted()) >= 4)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=HANG_S)
    slurm.stop("controller", signal.SIGTERM)
    again = start(cluster_home, "--on=slurm")
    # A cluster that does not answer is waited for.
    time.sleep(2)
    slurm.start_controller()
    said = again.communicate(timeout=HANG_S)[0]
    assert again.returncode == 0, said
    assert "is found again" in said
    found = points(cluster_home.cm("show", "experiment", "sweep", "--json", cwd=world).ok())
    assert [point["status"] for point in found] == ["measured"] * 24
    assert runs_of(counted()) == every(12)
    assert counted().count("prepared") == 1
    told = slurm.asked("squeue", "-h", "-r", "-t", "all", "-o", "%f|%N").split()
    where = {line for line in told if line.startswith("big")}
    assert where <= {"big|one", "big|two", "big&fast|one"}
    assert "big&fast|one" in where
    jobs = cluster_home.cm_repos / "cmbench" / "sweeps" / "jobs"
    assert list(jobs.glob("*/job.json")) == []
    # The same here: what each point gives is the same, and nothing of it is measured twice.
    assert cluster_home.cm(*RUN[:3], cwd=world).ok()
    assert len(counted()) == 25
    local = cluster_home.cm(*RUN[:3], "--new", "--labels=big,fast", "--json", cwd=world).ok()
    assert figures(points(local)) == figures(found)


def on_all_nodes(slurm: Slurm) -> dict[str, str]:
    """The task of each node, when each has one."""
    rows = slurm.asked("squeue", "-h", "-r", "-t", "R", "-o", "%N %i").splitlines()
    found = dict(row.split() for row in rows if row)
    return found if len(found) == 3 else {}


def test_tasks_that_are_requeued_preempted_or_die_with_their_node(
    cluster_home: Home, slurm: Slurm, counted: Callable[[], list[str]], world: Path
) -> None:
    text = SWEEP.replace("to: 12", "to: 5").replace("0.2", "0.5")
    (world / "sweep.yaml").write_text(text, encoding="utf-8")
    running = start(cluster_home, "--on=slurm")
    tasks = wait_for(lambda: on_all_nodes(slurm) if runs_of(counted()) else None)
    slurm.asked("scontrol", "requeue", tasks["one"])
    slurm.kill_node("two")
    # A controller that is there and answers nothing, for a while.
    slurm.send("controller", signal.SIGSTOP)
    time.sleep(2)
    slurm.send("controller", signal.SIGCONT)
    done = len(runs_of(counted()))
    wait_for(lambda: len(runs_of(counted())) > done or running.poll() is not None)
    words = ["--partition=urgent", "--nodes=2", "--exclusive", "--wait", "--output=/dev/null"]
    urgent = slurm.asked("sbatch", *words, "--parsable", "--wrap=true")
    assert urgent, "what was more urgent has run"
    while running.poll() is None:
        slurm.hurry()
        time.sleep(0.2)
    said = running.communicate(timeout=HANG_S)[0]
    slurm.start_node("two")
    slurm.asked("scontrol", "update", "nodename=two", "state=resume")
    assert running.returncode == 0, said
    found = points(cluster_home.cm("show", "experiment", "sweep", "--json", cwd=world).ok())
    assert [len(point["runs"]) for point in found] == [1] * 10
    assert set(runs_of(counted())) == set(every(5))


def test_a_task_whose_worker_is_interrupted_is_submitted_again(
    late: object, cluster_home: Home, counted: Callable[[], list[str]], world: Path
) -> None:
    text = SWEEP.replace("to: 12", "to: 1").replace("[1, 2]", "[1]").replace("0.2", "3")
    (world / "sweep.yaml").write_text(text, encoding="utf-8")
    running = start(cluster_home, "--on=slurm")
    wait_for(lambda: runs_of(counted()) or running.poll() is not None)
    jobs = cluster_home.cm_repos / "cmbench" / "sweeps" / "jobs"
    subprocess.run(["pkill", "-TERM", "-f", f"cmbench_sweep.worker {jobs}"], check=True)
    said = running.communicate(timeout=HANG_S)[0]
    assert running.returncode == 0, said
    assert "interrupted: 1 point, submitted again" in said
    assert len(runs_of(counted())) == 2


def test_two_people_and_labels_that_nobody_has(
    cluster_home: Home, slurm: Slurm, counted: Callable[[], list[str]], world: Path
) -> None:
    told = cluster_home.cm(*RUN, "--partition=mian", cwd=world)
    assert 'did you mean "main"' in told.stderr
    (world / "sweep.yaml").write_text(SWEEP.replace("fast:", "fats:"), encoding="utf-8")
    told = cluster_home.cm(*RUN, cwd=world)
    assert 'did you mean "fast"' in told.stderr
    assert told.status == 4
    small = SWEEP.replace("to: 12", "to: 3").replace("0.2", "0")
    (world / "sweep.yaml").write_text(small + "budget: {point_time: 5m}\n", encoding="utf-8")
    told = cluster_home.cm(*RUN, "--apptainer=image.sif", cwd=world)
    assert "--apptainer=image.sif does not exist" in told.stderr
    told = cluster_home.cm(*RUN, "--docker=image", cwd=world)
    assert "--apptainer=docker://IMAGE" in told.stderr
    both = [start(cluster_home, "--on=slurm") for _ in range(2)]
    said = [process.communicate(timeout=HANG_S)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert runs_of(counted()) == every(3)


# Apptainer is in no package here. This takes the flags of it that are used, and does what they say:
# a command sees the folders that are bound, the system in place of an image, and nothing else.
APPTAINER = """#!/bin/bash
echo "$*" >>"$SWEEP_COUNT.apptainer"
[ "$1" = exec ] || exit 64; shift
root=$(mktemp -d /tmp/image-XXXXXX); trap 'rmdir $root' EXIT
mounts="mount -t tmpfs image $root && mkdir $root/{usr,etc,dev,proc,tmp}"
for path in /usr /etc /dev /proc; do mounts+=" && mount --rbind $path $root$path"; done
while :; do
  case $1 in
    --bind=*) path=$(printf %q "${1#*=}")
              mounts+=" && mkdir -p $root$path && mount --bind $path $root$path";;
    --pwd=*) export PLACE=${1#*=};;
    --nv) ;;
    -*) echo "unknown flag: $1" >&2; exit 64;;
    *) break;;
  esac; shift
done
[ -e "$1" ] || exit 255; shift
for name in bin lib lib64 sbin; do mounts+=" && ln -s usr/$name $root/$name"; done
export PATH=/usr/bin:/bin
export enter='cd "$PLACE" && exec "$@"'
unshare --mount bash -c "$mounts"' && exec /usr/sbin/chroot "$0" sh -c "$enter" sh "$@"' $root "$@"
"""


def test_points_in_a_container(
    cluster_home: Home, slurm: Slurm, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SWEEP.replace("to: 12", "to: 2").replace("0.2", "0")
    (world / "sweep.yaml").write_text(text, encoding="utf-8")
    count = cluster_home.cm_repos / "count"
    monkeypatch.setenv("SWEEP_COUNT", str(count))
    tools = world / "tools"
    tools.mkdir()
    (tools / "apptainer").write_text(APPTAINER, encoding="utf-8")
    (tools / "apptainer").chmod(0o755)
    (world / "image.sif").touch()
    path = {"PATH": f"{tools}:{cluster_home.environment()['PATH']}"}
    inside = replace(cluster_home, extra_env={**cluster_home.extra_env, **path})
    inside.cm(*RUN, "--apptainer=image.sif", cwd=world).ok()
    assert runs_of(count.read_text(encoding="utf-8").split()) == every(2)
    assert count.read_text(encoding="utf-8").count("prepared") == 1
    line = (world / "CM home" / "count.apptainer").read_text(encoding="utf-8").splitlines()[0]
    bound = " ".join(f"--bind={each}" for each in (cluster_home.cm_repos, ROOT, world / "repo"))
    jobs = cluster_home.cm_repos / "cmbench" / "sweeps" / "jobs"
    assert line.startswith(f"exec {bound} --pwd={jobs}/"), line
    assert f"{world / 'image.sif'} python3 -c import sys" in line


def test_gpus_are_let_into_a_container() -> None:
    from cmbench_sweep.job_containers import JobContainer

    words = list(
        JobContainer("singularity", "a.sif", gpus=True).words(["/a", "/a/b", "/ab"], "/a/j")
    )
    assert words == [
        "singularity",
        "exec",
        "--nv",
        "--bind=/a",
        "--bind=/ab",
        "--pwd=/a/j",
        "a.sif",
    ]


@pytest.mark.parametrize(
    ("sinfo", "code", "said"),
    [
        ("", "slurm-missing", "run it on the login node"),
        ("echo sinfo: fatal: none >&2; exit 1", "slurm-failed", "]: sinfo: fatal: none"),
    ],
)
def test_without_slurm_one_sentence_says_where_to_run_before_anything_is_made(
    home: Home, world: Path, sinfo: str, code: str, said: str
) -> None:
    tools = world / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env"):
        (tools / name).symlink_to(f"/bin/{name}" if name != "env" else "/usr/bin/env")
    (tools / "cm").symlink_to(home.bin / "cm")
    if sinfo:
        (tools / "sinfo").write_text(f"#!/bin/sh\n{sinfo}\n", encoding="utf-8")
        (tools / "sinfo").chmod(0o755)
    env = home.environment() | {"PATH": os.fspath(tools)}
    done = subprocess.run(
        [str(home.bin / "cm"), *RUN], cwd=world, env=env, capture_output=True, text=True
    )
    assert f"[{code}]" in done.stderr
    assert said in done.stderr
    assert not (world / "count").exists()


def test_runs_write_on_their_node_and_have_a_time_limit(
    cluster_home: Home, slurm: Slurm, world: Path
) -> None:
    text = SWEEP.replace("to: 12", "to: 1").replace("0.2", "0.02")
    (world / "sweep.yaml").write_text(text + "budget: {point_time: 5m}\n", encoding="utf-8")
    near = world / "near"
    cluster_home.cm(*RUN, f"--scratch={near}", cwd=world).ok()
    found = points(cluster_home.cm("show", "experiment", "sweep", "--json", cwd=world).ok())
    assert [point["status"] for point in found] == ["measured"] * 2
    home = cluster_home.cm_repos / "cmbench" / "sweeps" / "points"
    assert len(list(home.glob("*/run-1/output.txt"))) == 2
    assert list(near.iterdir()) == []
    limits = slurm.asked("squeue", "-h", "-t", "all", "-o", "%l %F").split()
    assert "15:00" in limits


def test_a_task_that_is_out_of_time_leaves_its_point_to_do(
    late: tuple[Home, subprocess.Popen[str]],
) -> None:
    home, running = late
    said = running.communicate(timeout=HANG_S)[0]
    assert running.returncode == 1, said
    assert "1 TIMEOUT (--time=MINUTES asks for more)" in said
    assert "1 of 1 points are still to do" in said
    assert "repeat the command with more" in said
    assert list((home.cm_repos / "cmbench" / "sweeps" / "jobs").glob("*/job.json")) == []


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("infinite", 0), ("30:00", 30), ("2:30:00", 150), ("1-00:00:00", 1440), ("10", 0), ("n/a", 0)],
)
def test_times_of_slurm(text: str, minutes: int) -> None:
    from cmbench_sweep.slurm_queue import _minutes

    assert _minutes(text) == minutes
