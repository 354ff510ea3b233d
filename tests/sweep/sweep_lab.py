"""What the tests of sweeps beyond one machine share: their sweep, how it is started, its points."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab import Lab
from support import Finished, Home

SWEEP = """\
request: {tags: "measure,nothing", sleep: 0.2}
axes:
  size: {from: 1, to: 12, step: 1}
  threads: [1, 2]
labels: {big: size > 8, fast: size > 10}
record: {rate: env.CM_RATE}
"""
MEASURE = """
import json, os, time
def preprocess(i):
    env = i["env"]
    with open(os.environ["SWEEP_COUNT"], "a") as stream:
        stream.write(env["CM_SIZE"] + "," + env["CM_THREADS"] + "\\n")
    time.sleep(float(env.get("CM_SLEEP", 0)))
    if env["CM_SIZE"] == env.get("CM_BAD"):
        return {"return": 1, "error": "size " + env["CM_SIZE"] + " does not fit"}
    if env["CM_SIZE"] == env.get("CM_CRASH"):
        os.kill(os.getpid(), 9)
    env["CM_RATE"] = str(100 * int(env["CM_THREADS"]) - int(env["CM_SIZE"]))
    env["CM_DELAY"] = str(float(env["CM_SIZE"]) / 10)
    return {"return": 0}
"""
MODEL = """
import os
def preprocess(i):
    with open(os.environ["SWEEP_COUNT"], "a") as stream:
        stream.write("prepared\\n")
    i["env"]["CM_MODEL"] = "made"
    return {"return": 0}
"""
OFTEN = """\
#!{python}
import sys
from cmbench_sweep import clusters, slurm_queue, ssh_jobs
from cmind.cli import run
clusters.POLL_S = slurm_queue.POLL_S = ssh_jobs._SHORTEST_S = ssh_jobs._LONGEST_S = 0.3
sys.exit(run())
"""
INPUTS = ("size", "threads", "sleep", "bad", "crash")
RUN = ("run", "experiment", "--sweep=sweep.yaml")


def write_scripts(folder: Path) -> None:
    """A repository with a script that measures nothing, and one that it needs, below ``folder``."""
    lab = Lab(folder)
    lab.script("get-model", cache=True, customize=MODEL, new_env_keys=["CM_MODEL"])
    lab.script(
        "measure-nothing",
        customize=MEASURE,
        deps=[{"tags": "get,model"}],
        new_env_keys=["CM_RATE", "CM_DELAY"],
        input_mapping={name: f"CM_{name.upper()}" for name in INPUTS},
        input_description={name: {"desc": name} for name in INPUTS},
    )
    lab.script("run-nothing", deps=[{"tags": "measure,nothing"}], new_env_keys=["CM_*"])
    (lab.repo / "cmr.yaml").write_text("alias: world\nuid: 1111111111111a11\n", encoding="utf-8")


def looking_often(home: Home) -> Home:
    """``home`` with a ``cm`` that looks at its jobs every 0.3 s, and is else the real one.

    The pauses of the real one spare machines that measure for minutes: here they are most of a run.
    """
    folder = home.path / "bin"
    folder.mkdir()
    program = folder / "cm"
    program.write_text(OFTEN.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    return replace(home, bin=folder)


def points(done: Finished) -> list[dict[str, Any]]:
    """The points that a command with ``--json`` has told of."""
    # The first `cm` in a home says that it makes its index.
    found: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{\n") :])["points"]
    return found


def start(home: Home, *words: str, through: Sequence[str] = ()) -> subprocess.Popen[str]:
    """The sweep as a process of its own; all that it says is in its standard output.

    ``through`` are words of a program that starts it, as another user.
    """
    return subprocess.Popen(
        [*through, str(home.bin / "cm"), *RUN, *words],
        cwd=home.path,
        env=home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def as_user(number: int, group: int) -> list[str]:
    """The words that start a program as a user of that number, in a group; for root.

    It may read everything: the Python of the tests can lie in a folder of root's own.
    """
    reads = "+dac_read_search"
    ids = [f"--reuid={number}", f"--regid={number}", f"--groups={group}"]
    return ["setpriv", *ids, f"--inh-caps={reads}", f"--ambient-caps={reads}"]


def runs_of(lines: list[str]) -> list[str]:
    """What was measured, of the lines that the scripts have counted."""
    return sorted(line for line in lines if line != "prepared")


def every(sizes: int) -> list[str]:
    """What is measured where each point of so many sizes is measured once."""
    return sorted(f"{s},{t}" for s in range(1, sizes + 1) for t in (1, 2))
