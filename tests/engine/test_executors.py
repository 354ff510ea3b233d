"""Native parts of steps on another machine: files copied there, run by a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cmbench import api
from cmbench.container.engines import ContainerJob, ContainerProgram
from cmbench.container.launch import ContainerExecutor, for_steps
from cmbench.errors import Error
from lab import Lab

BATCH = """
"$@" > "$0/out" 2>&1
echo $? > "$0/status.new"
mv "$0/status.new" "$0/status"
"""


class Elsewhere:
    """A machine that shares no file with this one: a folder, with all paths below it.

    As with a batch system, output and exit status are files, and whoever asks later finds the job
    by its handle alone.
    """

    name = "elsewhere"

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.jobs: dict[str, api.Job] = {}
        self.read: dict[str, int] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def there(self, text: str, job: api.Job) -> str:
        for path in (job.cwd, job.scratch, *job.reads):
            text = text.replace(path, self.root + path)
        return text

    def submit(self, job: api.Job) -> api.JobHandle:
        for path in (job.cwd, job.scratch, *job.reads):
            shutil.copytree(path, self.root + path, dirs_exist_ok=True)
        handle = api.JobHandle(self.name, str(len(self.jobs)))
        place = Path(self.root, handle.id)
        place.mkdir(parents=True)
        command = [self.there(word, job) for word in job.command]
        self.processes[handle.id] = subprocess.Popen(
            ["bash", "-c", BATCH, str(place), *command],
            cwd=self.root + job.cwd,
            env={key: self.there(value, job) for key, value in job.environment.items()},
            start_new_session=True,
        )
        self.jobs[handle.id] = job
        return handle

    def logs(self, handle: api.JobHandle) -> Sequence[str]:
        path = Path(self.root, handle.id, "out")
        text = path.read_text() if path.exists() else ""
        whole = text[self.read.get(handle.id, 0) :]
        if not Path(self.root, handle.id, "status").exists():
            whole = whole[: whole.rfind("\n") + 1]
        self.read[handle.id] = self.read.get(handle.id, 0) + len(whole)
        return whole.splitlines()

    def poll(self, handle: api.JobHandle) -> api.JobState:
        path = Path(self.root, handle.id, "status")
        if not path.exists() or self.logs_left(handle):
            return api.JobState("running")
        return api.JobState("ended", int(path.read_text()))

    def logs_left(self, handle: api.JobHandle) -> bool:
        size = Path(self.root, handle.id, "out").stat().st_size
        return size > self.read.get(handle.id, 0)

    def cancel(self, handle: api.JobHandle) -> None:
        os.killpg(self.processes[handle.id].pid, signal.SIGKILL)
        self.processes[handle.id].wait()

    def fetch(self, handle: api.JobHandle) -> None:
        self.processes[handle.id].wait()
        job = self.jobs[handle.id]
        for path in (job.cwd, job.scratch):
            for source in Path(self.root + path).rglob("*"):
                target = Path(path, source.relative_to(self.root + path))
                if source.is_dir():
                    target.mkdir(exist_ok=True)
                else:
                    target.write_text(source.read_text().replace(self.root, ""))


MAKE = """
[[ "$PWD" == {where}* ]]
[[ "$0" == {where}* ]]
echo "made of $CM_FROM" > made.txt
echo "CM_MADE=$PWD/made.txt" > tmp-run-env.out
echo "a line of the program"
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path / "machine")


def workspace(lab: Lab) -> api.Workspace:
    return api.Workspace.open(str(lab.home), [str(lab.repo)])


def test_steps_run_elsewhere_and_their_results_are_here(lab: Lab, elsewhere: Elsewhere) -> None:
    run = MAKE.format(where=elsewhere.root)
    keys = {"cache": True, "new_env_keys": ["CM_MADE"], "input_mapping": {"source": "CM_FROM"}}
    lab.script("make-x", run=run, **keys)
    lab.script(
        "use-x",
        deps=[{"tags": "make,x", "names": ["x"], "env": {"CM_FROM": "wood"}}],
        customize="""
def postprocess(i):
    i['env']['CM_TEXT'] = open(i['env']['CM_MADE']).read()
    return {'return': 0}
""",
        new_env_keys=["CM_MADE", "CM_TEXT"],
    )
    here = workspace(lab)
    request = api.request(here, tags="use,x", verbose=True)
    told: list[str] = []
    ran = api.run(request, executor=elsewhere, on_event=lambda event: told.append(event.text))
    assert ran.env["CM_TEXT"] == "made of wood\n"
    assert Path(ran.env["CM_MADE"]).is_file()
    assert ran.env["CM_MADE"].startswith(str(lab.home))
    assert "a line of the program" in told
    assert "a line of the program" in Path(ran.log).read_text()
    again = api.run(request)
    assert len(elsewhere.jobs) == 1
    assert again.env == ran.env
    assert [step["status"] for step in again.steps] == ["cached", "done"]


def test_a_failure_elsewhere_reads_like_one_here(lab: Lab, elsewhere: Elsewhere) -> None:
    lab.script("make-x", run="echo the disk is on fire\nexit 7\n", cache=True)
    request = api.request(workspace(lab), tags="make,x")
    with pytest.raises(Error) as failed:
        api.run(request, executor=elsewhere)
    with pytest.raises(Error) as here:
        api.run(request)
    assert failed.value.code == here.value.code == "script-failed"
    assert failed.value.message == here.value.message == "run.sh of make-x exited with status 7"
    assert failed.value.context == here.value.context == ("the disk is on fire",)
    assert not workspace(lab).store.entries()


def test_an_interruption_ends_the_job_elsewhere(lab: Lab, elsewhere: Elsewhere) -> None:
    lab.script("make-x", run="echo ready; sleep 60", cache=True)

    def stop(event: api.Event) -> None:
        if event.text == "ready":
            raise KeyboardInterrupt

    request = api.request(workspace(lab), tags="make,x", verbose=True)
    with pytest.raises(Error) as failed:
        api.run(request, executor=elsewhere, on_event=stop)
    assert failed.value.code == "interrupted"
    assert elsewhere.processes["0"].poll() == -signal.SIGKILL


DOCKER = """#!/bin/bash
echo "$*" >> {log}
[[ $1 == run ]] || exit 0
while [[ $1 != the-image ]]; do
  [[ $1 == --env ]] && export "$2"
  [[ $1 == --workdir ]] && cd "$2"
  shift
done
shift
exec "$@"
"""


def test_steps_run_in_a_container(lab: Lab, tmp_path: Path) -> None:
    """The engine is a stand-in that does what its options say, without a container."""
    program, log = tmp_path / "docker", tmp_path / "docker.log"
    program.write_text(DOCKER.format(log=log))
    program.chmod(0o755)
    image = ContainerJob(image="the-image", file="", context="", command=())
    executor = ContainerExecutor(
        ContainerProgram("docker", str(program)), os.environ, for_steps(image)
    )
    lab.script("get-x", run='echo "CM_X=made by $CM_WHO" > tmp-run-env.out', cache=True,
               new_env_keys=["CM_X"], env={"CM_WHO": "me"})  # fmt: skip
    ran = api.run(api.request(workspace(lab), tags="get,x"), executor=executor)
    assert ran.env == {"CM_X": "made by me"}
    (line,) = log.read_text().splitlines()
    assert f"source={lab.repo}/script/get-x,target={lab.repo}/script/get-x,readonly" in line
    assert "--workdir " + str(Path(ran.request.workspace.store.root)) in line
