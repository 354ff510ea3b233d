"""An existing Ray cluster as an executor of jobs: queried over HTTP, without Ray itself.

Ray only starts workers, one per node that has the labels (its custom resources); each asks for
all CPUs and GPUs of such a node, and goes through all points, whose locks divide them. The names
are those of Ray's documentation of its jobs API; ``docs/decisions/069`` gives the reasons.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cmbench import api
from cmbench.errors import Error, did_you_mean
from cmbench.lib.text_files import read_or_empty
from cmbench_sweep.clusters import (
    ClusterExecutor,
    ClusterUnreachableError,
    Demand,
    exit_codes,
    folder_of,
    task_script,
)
from cmbench_sweep.driver import Say
from cmbench_sweep.values import SweepPoint
from common.python_path import VARIABLE

ADDRESS = "http://127.0.0.1:8265"
_TIMEOUT_S = 60.0
_TASKS = "tasks.json"
_OF_RAY = ("node:", "memory", "object_store_memory", "CPU", "GPU", "accelerator_type:")


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node that is alive, with its resources."""

    cpus: float
    gpus: float
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class RayHead:
    """The HTTP interface of a cluster, ``http://HOST:8265`` as a rule; ``token`` lets one in."""

    address: str
    token: str = ""

    def ask(self, method: str, path: str, data: Mapping[str, Any] | None = None) -> Any:
        """Return the answer; ``None`` where there is no such thing.

        Raises ``ray-failed`` where it refuses, and ``ClusterUnreachableError``.
        """
        import requests

        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        url = self.address.rstrip("/") + path
        try:
            reply = requests.request(method, url, json=data, headers=headers, timeout=_TIMEOUT_S)
        except requests.exceptions.InvalidURL:
            raise _refused(self.address, "is not an address", "--ray=http://HOST:8265") from None
        except requests.exceptions.RequestException as problem:
            raise ClusterUnreachableError(
                f"{self.address} does not answer ({type(problem).__name__})"
            ) from None
        if reply.status_code == 404 and path.startswith("/api/jobs/"):
            return None
        if reply.status_code in (401, 403):
            hint = "`export RAY_AUTH_TOKEN=TOKEN`, the one of the cluster"
            raise _refused(self.address, "refuses access without its token", hint)
        if not reply.ok:
            lines = reply.text.strip().splitlines() or [f"status {reply.status_code}"]
            raise _refused(self.address, next(_last_words(lines), lines[-1]))
        return reply.json() if "json" in reply.headers.get("Content-Type", "") else {}

    def nodes(self) -> list[RayNode]:
        """Return the nodes that are alive; raise ``ray-failed``, ``ClusterUnreachableError``."""
        answer = self.ask("GET", "/api/v0/nodes?detail=1&limit=10000")
        try:
            rows = answer["data"]["result"]["result"]
            alive = [row["resources_total"] for row in rows if row["state"] == "ALIVE"]
        except (KeyError, TypeError):
            raise _refused(
                self.address, "is not the dashboard of Ray 2", "check --ray=ADDRESS"
            ) from None
        return [
            RayNode(
                cpus=float(has.get("CPU", 0)),
                gpus=float(has.get("GPU", 0)),
                labels=frozenset(name for name in has if not name.startswith(_OF_RAY)),
            )
            for has in alive
        ]


def _refused(address: str, what: str, hint: str = "") -> Error:
    return Error(
        "ray-failed", f"{address} {what}".rstrip(), hint=hint or "see the log of its head node"
    )


def _last_words(lines: Sequence[str]) -> Iterator[str]:
    """Yield what a traceback of Ray's own comes down to."""
    return (line.strip() for line in reversed(lines) if "Error: " in line)


def head(address: str = "") -> RayHead:
    """Return the cluster at ``address``, or of the environment, with the token that Ray would use.

    Raises ``bad-value``.
    """
    addresses = (
        address,
        *(os.environ.get(n, "") for n in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")),
    )
    base = next((text for text in addresses if text.startswith(("http://", "https://"))), "")
    if address and not base:
        raise Error(
            "bad-value", f"--ray={address} is not an address", hint="write http://HOST:8265"
        )
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token")
    token = os.environ.get("RAY_AUTH_TOKEN") or read_or_empty(path).strip()
    return RayHead(base or ADDRESS, token)


class RayExecutor(ClusterExecutor):
    """Runs a job as tasks on nodes of a cluster, one on every node of ``nodes``.

    Raises ``ray-failed`` where Ray refuses, or answers nothing for ``SILENT_S`` seconds.
    """

    name = "ray"

    def __init__(
        self, cluster: RayHead, nodes: Sequence[RayNode] = (), labels: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self._head, self._nodes, self._labels = cluster, nodes, tuple(labels)

    def submit(self, job: api.Job) -> api.JobHandle:
        """Submit a task for every node, which starts when that is free; raise ``ray-failed``."""
        folder = Path(job.scratch)
        (folder / "job.sh").write_text(task_script(job, "$1"), encoding="utf-8")
        names = [f"cmbench-{folder.name}-{number}" for number in range(len(self._nodes))]
        (folder / _TASKS).write_text(json.dumps(names), encoding="utf-8")
        environment = {k: v for k, v in job.environment.items() if _travels(k)}
        for number, (name, node) in enumerate(zip(names, self._nodes, strict=True)):
            data = {
                "submission_id": name,
                "entrypoint": f"exec sh job.sh {number} >output-{number}.txt 2>&1",
                "entrypoint_num_cpus": node.cpus,
                "entrypoint_num_gpus": node.gpus,
                "entrypoint_resources": dict.fromkeys(self._labels, 0.001),
                "runtime_env": {"env_vars": environment},
            }
            data["entrypoint"] = f"cd '{folder}' && {data['entrypoint']}"
            try:
                self._head.ask("POST", "/api/jobs/", data)
            except ClusterUnreachableError as problem:
                raise _refused(str(problem), "", "is its dashboard up? ray status") from None
        return api.JobHandle(self.name, f"cmbench-{folder.name} {folder}")

    def _query(self, handle: api.JobHandle) -> api.JobState:
        tasks = [self._head.ask("GET", f"/api/jobs/{name}") for name in _tasks(handle)]
        return _state([task for task in tasks if task], folder_of(handle))

    def _silence(self, problem: str, seconds: float) -> Error:
        hint = "what runs there continues; the same command finds it again"
        return _refused(problem, f"for {seconds:.0f} s", hint)

    def cancel(self, handle: api.JobHandle) -> None:
        """End all tasks, those that wait and those that run."""
        for name in _tasks(handle):
            with suppress(ClusterUnreachableError, Error):
                self._head.ask("POST", f"/api/jobs/{name}/stop")


def _travels(name: str) -> bool:
    """Return whether a variable of ours is for the workers: those of a node are its own."""
    return name in ("PATH", VARIABLE, "HOME") or not name.startswith(("RAY_", "CUDA_", "_"))


def _tasks(handle: api.JobHandle) -> list[str]:
    try:
        return [
            str(n) for n in json.loads((folder_of(handle) / _TASKS).read_text(encoding="utf-8"))
        ]
    except (OSError, ValueError):
        return []


def _state(tasks: Sequence[Mapping[str, Any]], folder: Path) -> api.JobState:
    """Return the state of a job from those of its tasks and what they have left."""
    states = {str(task.get("status")) for task in tasks}
    if states & {"PENDING", "RUNNING"}:
        return api.JobState("running" if "RUNNING" in states else "waiting")
    codes = exit_codes(folder)
    if not tasks and not codes:
        return api.JobState("lost", reason="Ray no longer knows it")
    reason = _why([task for task in tasks if task.get("status") == "FAILED"], len(codes))
    return api.JobState("ended", max(codes, default=1), "" if len(codes) >= len(tasks) else reason)


def _why(failed: Sequence[Mapping[str, Any]], ended: int) -> str:
    """Return what Ray says of tasks that did not end by themselves."""
    said = [str(task.get("message") or "") for task in failed]
    first = next(filter(None, said), "stopped").splitlines()[0]
    return f"only {ended} workers ended by themselves: {first}"


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A cluster of Ray; ``scratch`` is a folder of the nodes in which runs write."""

    head: RayHead
    scratch: str = ""
    name: ClassVar[str] = RayExecutor.name
    container: ClassVar[None] = None
    flags: ClassVar[Mapping[str, str]] = {}

    def reach(self, say: Say) -> None:
        """Do nothing: ``check`` queries the nodes, whatever the labels."""

    def check(self, labels: Sequence[str]) -> None:
        """Refuse labels that are resources of no node; raises ``bad-value``, ``ray-failed``."""
        self._fitting(labels)

    def looker(self) -> RayExecutor:
        """Return what looks at any job."""
        return RayExecutor(self.head)

    def cpus(self, point: SweepPoint) -> int:
        """None: a worker has its node to itself."""
        return 0

    def executor(self, demand: Demand, say: Say) -> tuple[RayExecutor, int]:
        """Return an executor with a worker on every node with the labels, for all of the points."""
        nodes = self._fitting(demand.labels)[: demand.points]
        return RayExecutor(self.head, nodes, demand.labels), 1

    def preview(self, demand: Demand, job: api.Job) -> tuple[str, str]:
        """Return nothing: Ray is queried over HTTP."""
        return "", ""

    def adapt(self, handle: api.JobHandle, before: Mapping[str, str], say: Say) -> bool:
        """Do nothing: only nodes with labels are requested from Ray."""
        return False

    def _fitting(self, labels: Sequence[str]) -> list[RayNode]:
        try:
            nodes = self.head.nodes()
        except ClusterUnreachableError as problem:
            raise _refused(str(problem), "", "name it: --ray=http://HOST:8265") from None
        fitting = [node for node in nodes if node.cpus and node.labels.issuperset(labels)]
        if fitting:
            return fitting
        raise _without(labels, sorted({name for node in nodes for name in node.labels}))


def _without(labels: Sequence[str], existing: Sequence[str]) -> Error:
    """Return the error where no node has all of ``labels``."""
    hint = f"resources of nodes: {', '.join(existing) or 'none'}"
    lacking = next((name for name in labels if name not in existing), "")
    if lacking:
        what = f"the resource {lacking}"
        return Error(
            "bad-value", f"no node of Ray has {what}", hint=did_you_mean(lacking, existing) or hint
        )
    what = f"all of {', '.join(labels)}" if labels else "CPUs for work"
    return Error("bad-value", f"no node of Ray has {what}", hint=hint)
