"""The seam for where a native program runs: what the engine asks of an executor, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cmbench.run.executor import Job, JobHandle, JobState, run_job
from cmbench.run.process import LocalExecutor


class Queue:
    """An executor with a queue: a job waits, runs, prints, ends; every call is kept."""

    name = "queue"

    def __init__(self, *states: JobState) -> None:
        self.states = list(states)
        self.calls: list[str] = []

    def submit(self, job: Job) -> JobHandle:
        self.calls.append(f"submit {' '.join(job.command)}")
        return JobHandle(self.name, "7")

    def logs(self, handle: JobHandle) -> Sequence[str]:
        self.calls.append("logs")
        return [f"line {len(self.states)}"]

    def poll(self, handle: JobHandle) -> JobState:
        return self.states.pop(0)

    def cancel(self, handle: JobHandle) -> None:
        self.calls.append(f"cancel {handle.id}")

    def fetch(self, handle: JobHandle) -> None:
        self.calls.append(f"fetch {handle.id}")


def test_a_job_is_followed_through_its_queue_to_its_end() -> None:
    ended = JobState("ended", 3, "out of time")
    queue = Queue(JobState("waiting"), JobState("running"), ended)
    lines: list[str] = []
    assert run_job(queue, Job(("true",), "/", {}), lines.append) == ended
    assert lines == ["line 3", "line 2", "line 1"]
    assert queue.calls == ["submit true", "logs", "logs", "logs", "fetch 7"]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError])
def test_what_stops_the_engine_cancels_the_job(problem: type[BaseException]) -> None:
    queue = Queue(JobState("running"), JobState("running"))

    def pulse() -> None:
        if len(queue.states) < 2:
            raise problem

    with pytest.raises(problem):
        run_job(queue, Job(("true",), "/", {}), print, pulse)
    assert queue.calls[-1] == "cancel 7"


def test_two_jobs_at_once_keep_their_output_apart() -> None:
    here = LocalExecutor()
    programs = ["echo one; sleep 0.1; printf end", "echo two"]
    handles = [here.submit(Job(("sh", "-c", text), "/", {})) for text in programs]
    found: dict[str, list[str]] = {handle.id: [] for handle in handles}
    for handle in handles:
        while here.poll(handle).status != "ended":
            found[handle.id] += here.logs(handle)
        here.fetch(handle)
    assert list(found.values()) == [["one", "end"], ["two"]]
