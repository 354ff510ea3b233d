"""A cache that many nodes use at once: each entry is made once, whoever wants it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_lab import Slurm, missing

from common.python_path import child_env
from lab import Lab
from support import HANG_S, Home

ENTRIES, NODES, JOBS = 20, 3, 4
THING = """
import os, time
def preprocess(i):
    time.sleep(0.02)
    with open(os.environ["SWEEP_COUNT"], "a") as stream:
        stream.write(i["env"]["CM_NUMBER"] + "\\n")
    with open("thing", "w") as stream:
        stream.write(i["env"]["CM_NUMBER"])
    i["env"]["CM_THING"] = os.path.abspath("thing")
    return {"return": 0}
"""
SHOW = """
def preprocess(i):
    return {"return": 0}
"""
NO_LOCKS = """
import errno, fcntl
def flock(handle, operation):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = flock
"""
WANT = ("run", "script", "--tags=want,things")


@pytest.fixture
def things(world: Path, home: Home) -> Home:
    lab = Lab.__new__(Lab)
    lab.repo, lab.home, lab.others, lab._count = world / "repo", world / "home", [], 0
    names = [str(number) for number in range(ENTRIES + 1)]
    lab.script(
        "get-thing",
        cache=True,
        customize=THING,
        new_env_keys=["CM_THING"],
        variations={f"n{name}": {"env": {"CM_NUMBER": name}} for name in names},
    )
    deps = [{"tags": f"get,thing,_n{name}"} for name in names[:ENTRIES]]
    lab.script("want-things", customize=SHOW, deps=deps)
    lab.script("want-more", customize=SHOW, deps=[*deps, {"tags": f"get,thing,_n{ENTRIES}"}])
    return home


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_three_nodes_with_four_jobs_each_make_every_entry_once(things: Home, world: Path) -> None:
    line = f"'{things.bin}/cm' {' '.join(WANT)} --quiet >'{world}/said-$1-$n' 2>&1 || exit 1"
    job = world / "job.sh"
    job.write_text(
        "#!/bin/sh\nset -- $SLURM_ARRAY_TASK_ID\npids=\n"
        f'for n in 1 2 3 4; do ( {line.replace(chr(39), chr(34))} ) & pids="$pids $!"; done\n'
        "for pid in $pids; do wait $pid || exit 1; done\n",
        encoding="utf-8",
    )
    with (
        tempfile.TemporaryDirectory(prefix="sl", ignore_cleanup_errors=True) as folder,
        Slurm(Path(folder) / "s") as cluster,
    ):
        words = ["sbatch", "--wait", f"--array=0-{NODES - 1}", "--exclusive"]
        words += [f"--chdir={world}", f"--output={world}/output-%a", str(job)]
        env = things.environment() | cluster.environment()
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=HANG_S)
    said = "\n".join(path.read_text() for path in sorted(world.glob("said-*")))
    assert done.returncode == 0, done.stderr + said
    assert len(list(world.glob("said-*"))) == NODES * JOBS
    made = Counter((world / "count").read_text(encoding="utf-8").split())
    assert made == Counter(map(str, range(ENTRIES)))


def test_a_private_cache_stands_before_a_shared_one_that_nobody_writes(
    things: Home, world: Path
) -> None:
    things.cm(*WANT).ok()
    shared = things.cm_repos / "cmbench"
    before = files(shared)
    mine = replace(things, path=world / "mine", extra_env={"CMBENCH_SHARED": str(shared)})
    mine.path.mkdir()
    mine.register(Path(__file__).resolve().parents[2], world / "repo")
    running = [
        subprocess.Popen(
            [str(mine.bin / "cm"), "run", "script", "--tags=want,more"],
            env=mine.environment(),
            cwd=mine.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(JOBS)
    ]
    said = [process.communicate(timeout=HANG_S)[0] for process in running]
    assert [process.returncode for process in running] == [0] * JOBS, said
    made = Counter((world / "count").read_text(encoding="utf-8").split())
    assert made == Counter(map(str, range(ENTRIES + 1)))
    assert files(shared) == before
    own = mine.cm_repos / "cmbench" / "v1" / "store"
    assert len(os.listdir(own)) == 1


def test_a_file_system_without_locks_is_refused_in_one_sentence(things: Home, world: Path) -> None:
    (world / "odd").mkdir()
    (world / "odd" / "sitecustomize.py").write_text(NO_LOCKS, encoding="utf-8")
    odd = replace(things, extra_env=child_env(world / "odd", base={}))
    for words in (WANT, ("run", "experiment", "--sweep=sweep.yaml")):
        done = odd.cm(*words, cwd=world)
        assert "[no-locks]" in done.stderr, done.stderr + done.stdout
        assert "export CM_REPOS=" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (world / "count").exists()
