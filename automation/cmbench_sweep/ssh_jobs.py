"""The executor of other machines: a job is a worker there that runs without the caller.

Every call sends ``remote_agent.py``, which does the work on the other side. The submitting process
may die: the handle of a job is its host and its folder there, by which another process continues.
``docs/decisions/064`` describes how the parts work together.
"""

from __future__ import annotations

import errno
import io
import json
import secrets
import shlex
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cmbench import api
from cmbench.errors import Error
from cmbench.lib import ssh
from cmbench.lib.text_files import size_text

_CALL_S = 120.0
_LOOK_S, _SHORTEST_S, _LONGEST_S = 0.2, 1.0, 15.0
"""A look at a job costs its machine some CPU: they become rare while nothing happens."""
NO_PYTHON = "no-python"
PYTHON = "{python}"
"""The word of a command that becomes the Python of the other machine."""
_PYTHONS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10"
_READ = "import sys;b=sys.stdin.buffer;exec(b.read(int(b.readline())))"
_START = (
    'for p in {pythons}; do "$p" -c "import sys; sys.exit(sys.version_info < (3, 10))"'
    ' 2>/dev/null && exec "$p" -c "{read}" {mark}; done; echo; echo {mark}{none}'
)

Took = Callable[[bytes], None]


class SshHost:
    """One machine; ``options`` are words for ``ssh``. It gets one request at a time."""

    def __init__(self, name: str, options: Sequence[str] = ()) -> None:
        self.name = name
        self.options = tuple(options)

    def ask(
        self,
        verb: str,
        arguments: Mapping[str, Any],
        data: bytes | IO[bytes] = b"",
        timeout: float | None = _CALL_S,
    ) -> tuple[dict[str, Any], bytes]:
        """Return the answer of the other side to a request, and its bytes; ``timeout`` in seconds.

        Raises ``ssh-failed``, ``host-unfit``, ``no-space`` and others.
        """
        mark = secrets.token_hex(12)
        program = Path(__file__).with_name("remote_agent.py").read_bytes()
        request = json.dumps({**arguments, "verb": verb}).encode()
        sent = b"%d\n%s%s\n" % (len(program), program, request)
        script = _START.format(pythons=_PYTHONS, read=_READ, mark=mark, none=NO_PYTHON)
        words = ssh.connection(self.name, self.options)
        words.append(f"exec /bin/sh -c {shlex.quote(script)}")
        if isinstance(data, bytes):
            done = ssh.call(words, sent + data, timeout)
        else:
            done = ssh.call_with_stream(words, sent, data)
        before, separator, after = done.stdout.partition(b"\n" + mark.encode())
        if not separator:
            raise self._no_answer(done.returncode, done.stderr, before)
        line, _, rest = after.partition(b"\n")
        return self._answer(line.decode("utf-8", "replace")), rest

    def _no_answer(self, status: int, stderr: bytes, printed: bytes) -> Error:
        if status == ssh.UNREACHED:
            return ssh.connection_error(self.name, stderr, self.options)
        lines = (stderr + printed).decode("utf-8", "replace").strip().splitlines()
        return Error(
            "host-unfit",
            f"{self.name}: its shell ended with status {status} without doing anything",
            context=lines[-6:],
            hint="a command must run there without a terminal; try: "
            f"`{ssh.typed_command(self.name, self.options, 'echo', 'works')}`",
        )

    def _answer(self, line: str) -> dict[str, Any]:
        if line.strip() == NO_PYTHON:
            raise Error(
                "host-unfit",
                f"{self.name} has no Python 3.10 or newer on its PATH",
                hint="install one there, or leave out the host",
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise self._refusal(answer)
        return answer

    def _refusal(self, failure: Mapping[str, Any]) -> Error:
        if failure["errno"] in (errno.ENOSPC, errno.EDQUOT):
            return Error(
                "no-space",
                f"{self.name}: no space left for {failure['path'] or 'what is sent'}",
                hint="free space there, or choose another folder: --folder=DIR",
            )
        path = f"{failure['path']}: " if failure["path"] else ""
        hint = "choose another folder there: --folder=DIR" if failure["errno"] else ""
        return Error("host-unfit", f"{self.name}: {path}{failure['error']}", hint=hint)


@dataclass(frozen=True, slots=True)
class HostReservation:
    """A machine that was probed: its folders, facts and contents.

    ``skew`` is how many seconds its clock is before ours; ``glibc`` is empty where it has none.
    """

    host: SshHost
    base: str
    job: str
    skew: float
    free: int
    cpu: str
    glibc: str
    pythons: tuple[str, ...]
    parcels: frozenset[str]
    entries: frozenset[str]

    @property
    def handle(self) -> api.JobHandle:
        """Return the handle of the job of this reservation."""
        return api.JobHandle(SshExecutor.name, f"{self.host.name} {self.base}/jobs/{self.job}")

    def path(self, *parts: str) -> str:
        """Return a path on that machine."""
        return str(PurePosixPath(self.base, *parts))

    def send(self, parcel: str, packed: bytes) -> None:
        """Bring a parcel; raises ``no-space`` before it is begun where it cannot have room."""
        if self.free < 4 * len(packed):
            raise Error(
                "no-space",
                f"{self.host.name}: {size_text(self.free)} free in {self.base}",
                hint="free space there, or choose another folder: --folder=DIR",
            )
        self.host.ask("put", {"base": self.base, "parcel": parcel}, packed, None)

    def file(self, name: str, data: bytes | IO[bytes]) -> str:
        """Bring a file of the job; where it is there. Raises ``ssh-failed``, ``no-space``."""
        self.host.ask("store_file", {"base": self.base, "job": self.job, "name": name}, data, None)
        return self.path("jobs", self.job, name)


def reach(host: SshHost, folder: str, job: str, submitting: Sequence[str] = ()) -> HostReservation:
    """Query the facts of a machine, and reserve a folder for a job below ``folder`` on it.

    Earlier reservations that were not used are removed, but for those of the jobs ``submitting``.
    """
    before = time.time()
    arguments = {"base": folder, "job": job, "submitting": list(submitting)}
    answer, _ = host.ask("probe", arguments)
    skew = answer["time"] - (before + time.time()) / 2
    return HostReservation(
        host=host,
        base=answer["base"],
        job=job,
        skew=skew,
        free=answer["free"],
        cpu=answer["cpu"],
        glibc=answer["glibc"],
        pythons=tuple(dict.fromkeys([answer["python"], *answer["pythons"]])),
        parcels=frozenset(answer["parcels"]),
        entries=frozenset(answer["entries"]),
    )


@dataclass(slots=True)
class _JobProgress:
    """The progress of a job."""

    state: api.JobState = field(default_factory=lambda: api.JobState("running"))
    at: int = 0
    rest: bytes = b""
    lines: list[str] = field(default_factory=list)
    heard: float = field(default_factory=time.monotonic)
    next: float = 0.0
    pause: float = _SHORTEST_S


@dataclass(frozen=True, slots=True)
class ResultReceiver:
    """What of a job's results is here already, and who takes a tar file with others."""

    have: Callable[[], list[str]]
    take: Took


class SshExecutor:
    """Runs workers on the machine ``host``; ``wanted`` takes what they find out.

    A machine that does not answer for ``patience`` seconds counts as lost, and is in ``unreached``.
    What was brought goes with its last job, unless ``stay``; jobs whose machine did not answer then
    are in ``not_left``.
    """

    name = "ssh"

    def __init__(
        self, host: SshHost, arrivals: ResultReceiver, stay: bool = False, patience: float = 120.0
    ) -> None:
        self._host, self._wanted = host, arrivals
        self._stay, self._patience = stay, patience
        self._seen: dict[str, _JobProgress] = {}
        self.unreached: set[str] = set()
        self.not_left: set[str] = set()

    def submit(self, job: api.Job) -> api.JobHandle:
        """Start ``job``, whose paths are those there; the word ``PYTHON`` is the Python there."""
        handle = api.JobHandle(self.name, f"{self._host.name} {job.scratch}")
        arguments = {"command": job.command, "environment": dict(job.environment)}
        self._host.ask("start", arguments | _job_arguments(handle))
        return handle

    def logs(self, handle: api.JobHandle) -> list[str]:
        """New lines of its output; looks by itself when it is time."""
        seen = self._poll(handle)
        lines, seen.lines = seen.lines, []
        if not lines:
            time.sleep(_LOOK_S)
        return lines

    def poll(self, handle: api.JobHandle) -> api.JobState:
        """How it goes, as of the last look."""
        seen = self._seen.get(handle.id) or self._poll(handle)
        return api.JobState("running", 0, seen.state.reason) if seen.lines else seen.state

    def _poll(self, handle: api.JobHandle) -> _JobProgress:
        seen = self._seen.setdefault(handle.id, _JobProgress())
        now = time.monotonic()
        if now < seen.next or seen.state.status in ("ended", "lost"):
            return seen
        try:
            self._fetch_news(handle, seen)
        except Error as problem:
            if problem.code != "ssh-failed":
                raise
            seen.state = self._silent(handle, seen, problem)
        seen.next = time.monotonic() + seen.pause
        return seen

    def _silent(self, handle: api.JobHandle, seen: _JobProgress, problem: Error) -> api.JobState:
        seen.pause = min(2 * seen.pause, _LONGEST_S)
        if time.monotonic() - seen.heard < self._patience:
            return api.JobState("running", reason=f"no answer: {problem.message}")
        self.unreached.add(handle.id)
        return api.JobState("lost", reason=problem.message)

    def _fetch_news(self, handle: api.JobHandle, seen: _JobProgress) -> None:
        """One look: output, results, state."""
        arguments = {"at": seen.at, "have": self._wanted.have(), **_job_arguments(handle)}
        answer, data = self._host.ask("read_progress", arguments)
        seen.heard = time.monotonic()
        output, packed = data[: answer["output"]], data[answer["output"] :]
        seen.at += len(output)
        *lines, seen.rest = (seen.rest + output).split(b"\n")
        if packed:
            self._wanted.take(packed)
        seen.lines += [line.decode("utf-8", "replace") for line in lines]
        new = bool(output or packed)
        seen.pause = _SHORTEST_S if new else min(1.5 * seen.pause, _LONGEST_S)
        if new and answer["status"] != "running":
            seen.pause = 0.0
        if not new:
            # All that was done before the end has arrived: only now may the end be reported.
            seen.state = api.JobState(answer["status"], answer["code"], answer["reason"])

    def cancel(self, handle: api.JobHandle) -> None:
        """End it with all that it has started; nothing of it stays there."""
        self._leave("cancel", handle)

    def fetch(self, handle: api.JobHandle) -> None:
        """All that it has found out is here; nothing of it stays there."""
        if handle.id not in self.unreached:
            self._leave("leave", handle)

    def _leave(self, verb: str, handle: api.JobHandle) -> None:
        for again in (True, False):
            try:
                self._host.ask(verb, {"stay": self._stay, **_job_arguments(handle)})
            except Error:
                # The connection may have been lost, and nothing but that.
                if not again:
                    self.not_left.add(handle.id)
                continue
            ssh.close(self._host.name, self._host.options)
            return


def _job_arguments(handle: api.JobHandle) -> dict[str, str]:
    """Return the folder of a job, as arguments for the other side."""
    path = PurePosixPath(handle.id.partition(" ")[2])
    return {"base": str(path.parents[1]), "job": path.name}


def host_of(handle: api.JobHandle) -> str:
    """Return the machine of a job."""
    return handle.id.partition(" ")[0]


def unpacked(packed: bytes, target: Path, allowed: Callable[[str, str], bool]) -> list[str]:
    """Unpack results below ``target``; the names of the points in them.

    Only plain files whose first two names are ``allowed`` are taken. Raises ``archive-unsafe``.
    """
    points: dict[str, None] = {}
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None or len(parts) < 3 or ".." in parts or not allowed(*parts[:2]):
                raise Error("archive-unsafe", f"a machine has sent {member.name!r:.80}")
            path = target.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(stream.read())
            if parts[0] == "points":
                points[parts[1]] = None
    return list(points)
