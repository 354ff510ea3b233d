"""What Slurm's commands say, with stand-ins of them: queues that are full, jobs that are moved."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from cmbench import api
from cmbench.errors import Error
from cmbench_sweep import slurm_queue
from cmbench_sweep.slurm import SbatchOptions, SlurmCluster
from cmbench_sweep.slurm_queue import check, submit
from support import Finished

Put = Callable[[str, str], None]
JOB = api.JobHandle("slurm", "7 /nowhere")


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """``put(NAME, TEXT)``: a command of Slurm that is a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")

    def write(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    return write


def test_what_sbatch_says_while_it_waits_is_said_at_once(
    put: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = "sbatch: Slurm temporarily unable to accept job, sleeping and retrying"
    # It goes on when that was said, and not before.
    put("sbatch", f"echo '{full}' >&2; while [ ! -e {tmp_path}/free ]; do sleep 0.05; done; echo 9")
    put("squeue", "true")
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        (tmp_path / "free").touch()

    assert submit(["sbatch"], "cmbench-1", dict(os.environ), say) == "9"
    assert said == [f"  {full}"]


def test_a_queue_that_stays_full_is_the_reason(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put("sbatch", "echo 'sbatch: Slurm temporarily unable to accept job' >&2; exec sleep 60")
    put("squeue", "true")
    monkeypatch.setattr(slurm_queue, "_ANSWER_S", 0.5)
    monkeypatch.setattr(slurm_queue, "_SUBMIT_S", 0.0)
    with pytest.raises(Error, match="temporarily unable to accept job") as caught:
        submit(["sbatch"], "cmbench-1", dict(os.environ))
    assert "queue is full" in caught.value.hint


@pytest.mark.parametrize(
    ("partition", "state", "problem"),
    [
        ("down", "down", "partition down is down: nothing starts there"),
        ("down", "drain", "partition down is drain"),
        ("mian", "down", "no partition mian"),
        ("down,main", "down", ""),
        ("", "down", ""),
    ],
)
def test_partitions_in_which_nothing_starts(
    put: Put, partition: str, state: str, problem: str
) -> None:
    put("sinfo", f"echo 'main*|up|big'; echo 'down|{state}|(null)'")
    if not problem:
        check(partition, ())
        return
    with pytest.raises(Error, match=problem) as caught:
        check(partition, ())
    assert "main" in caught.value.hint


def test_a_default_partition_that_is_down(put: Put) -> None:
    put("sinfo", "echo 'main*|down|big'; echo 'other|up|(null)'")
    with pytest.raises(Error, match="partition main is down") as caught:
        check("", ())
    assert "--partition=other" in caught.value.hint


def moved(asked: dict[str, str], before: dict[str, str]) -> tuple[bool, list[str]]:
    said: list[str] = []
    cluster = SlurmCluster(SbatchOptions({"partition": asked.get("partition", "")}), None, asked)
    return cluster.adapt(JOB, before, said.append), said


def test_a_job_that_waits_takes_the_flags_of_the_command(put: Put, tmp_path: Path) -> None:
    put("sinfo", "echo 'main*|up|big'; echo 'down|down|(null)'")
    put("squeue", "echo '7_[2-5]'")
    put("scontrol", f'echo "$@" >> {tmp_path}/told')
    now = {"partition": "main", "time": "5", "gres": "gpu:1"}
    was = {"partition": "down", "gres": "gpu:1"}
    assert moved(now, was) == (
        True,
        ["slurm 7: what waits of it has --partition=main --time=5 now"],
    )
    told = (tmp_path / "told").read_text(encoding="utf-8")
    assert told == "update JobId=7_[2-5] Partition=main TimeLimit=5\n"
    # The same again, or less, contradicts nothing.
    assert moved(now, now) == (False, [])
    assert moved({}, now) == (False, [])
    put("squeue", "true")
    assert moved(now, was) == (
        False,
        ["slurm 7: it runs already, without --partition=main --time=5"],
    )


def test_flags_that_a_submitted_job_cannot_take(put: Put) -> None:
    with pytest.raises(Error, match="without --scratch=/b") as caught:
        moved({"scratch": "/b"}, {"scratch": "/a"})
    assert "scancel 7, then the same command" in caught.value.hint
    put("squeue", "echo 7")
    put("scontrol", "echo 'Access/permission denied for job 7' >&2; exit 1")
    with pytest.raises(
        Error, match=r"does not take --qos=high: Access/permission denied"
    ) as caught:
        moved({"qos": "high"}, {})
    assert "scancel 7" in caught.value.hint


def plan(cm: Callable[..., Finished], *words: str) -> list[dict[str, str]]:
    done = cm("plan", "experiment", "--sweep=sweep.yaml", "--on=slurm", *words, "--json").ok()
    jobs: list[dict[str, str]] = json.loads(done.stdout[done.stdout.index("{\n") :])["jobs"]
    return jobs


def test_a_plan_shows_what_would_be_submitted(cm: Callable[..., Finished], world: Path) -> None:
    (job,) = plan(
        cm,
        *("--partition=main", "--mem=8G", "--cpus-per-task=4", "--reservation=mine"),
        *("--nodelist=n1", "--exclude=n2", "--throttle=2", "--modules=gcc/12,cuda"),
        *("--setup=export A=1", "--sbatch=--licenses=a --comment='b c'", "--time=5"),
    )
    words = shlex.split(job["submit"])
    assert words[0] == "sbatch"
    assert "--array=0-5%2" in words
    wanted = {"--partition=main", "--mem=8G", "--cpus-per-task=4", "--reservation=mine"}
    wanted |= {"--nodelist=n1", "--exclude=n2", "--licenses=a", "--comment=b c", "--time=5"}
    assert {*words} >= {*wanted, "--exclusive"}
    first, defined, modules, setup, worker, *_ = job["script"].splitlines()
    assert first == "#!/bin/bash"
    assert defined.startswith("type module >/dev/null 2>&1 ||")
    assert modules == "module load gcc/12 cuda || exit 1"
    assert setup == "export A=1"
    assert '"$SLURM_ARRAY_TASK_ID"' in worker
    assert not (world / "CM home/cmbench/sweeps/jobs").exists()
    said = cm("plan", "experiment", "--sweep=sweep.yaml", "--on=slurm").ok().stdout
    assert "\nwould be submitted:\n  sbatch --parsable" in said
    assert "job.sh:\n  #!/bin/sh" in said


def test_points_that_share_nodes_ask_for_their_threads(cm: Callable[..., Finished]) -> None:
    jobs = plan(cm, "--share-nodes")
    asked = [word for job in jobs for word in shlex.split(job["submit"]) if "cpus" in word]
    assert asked == ["--cpus-per-task=1", "--cpus-per-task=2"]
    assert "--exclusive" not in jobs[0]["submit"]
    (job,) = plan(cm, "--throttle=1")
    assert "cpus" not in job["submit"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--sbatch=--array=0-9", "--array=0-9 is not for the options of the job"),
        ("--sbatch=-J name", "-J is not for"),
        ("--sbatch=hostname", "hostname is not for"),
        ("--sbatch=--comment='a", "No closing quotation"),
        ("--throttle=none", "is not a number of tasks"),
        ("--mem", "--mem needs a value"),
    ],
)
def test_options_that_cannot_be(cm: Callable[..., Finished], word: str, said: str) -> None:
    done = cm("plan", "experiment", "--sweep=sweep.yaml", "--on=slurm", word)
    assert done.status == 4
    assert said in done.stderr
