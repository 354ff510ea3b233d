"""Makes an image and runs a container: the only module here that writes or starts anything."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from cmbench.cache.store import CacheEntry, CacheStore
from cmbench.container.engines import (
    ContainerJob,
    ContainerProgram,
    begin_commands,
    build_command,
    end_commands,
    environment,
    exec_command,
    exists_command,
    main_command,
    run_commands,
    state_command,
    stop_command,
)
from cmbench.container.mounts import Mount
from cmbench.errors import Error
from cmbench.lib.probe import probe
from cmbench.run.executor import Job as NativeJob
from cmbench.run.executor import JobHandle, JobState, run_job
from cmbench.run.process import LocalExecutor, run_process

Say = Callable[[str], None]

_STOP_SECONDS = 8.0
_CAUSES = (
    (
        ("manifest unknown", "not found: manifest", "name unknown", "does not exist", "not known"),
        (
            "the base image does not exist under this name: correct --docker_base_image, or "
            "--docker_os with --docker_os_version"
        ),
    ),
    (
        ("pull access denied", "unauthorized", "authentication required"),
        "the registry of the base image requires a login: `{engine} {login}`",
    ),
    (
        ("x509", "certificate signed by", "verify certificate", "certificate verify failed"),
        (
            "the registry's certificate is not trusted: name your organization's certificates in "
            "SSL_CERT_FILE, and give them to the engine too"
        ),
    ),
    (
        ("no such host", "i/o timeout", "connection refused", "Temporary failure", "unreachable"),
        (
            "the network cannot be reached from here: set http_proxy and https_proxy, or load the "
            "base image from a file first: `{engine} {load}`"
        ),
    ),
    (
        ("did not get container create message", "error running container"),
        "this machine does not let the engine start a process in a container; {without}",
    ),
    (
        ("no space left",),
        "the disk with the engine's images is full: `{engine} {prune}`",
    ),
    (
        ("newuidmap", "newgidmap"),
        "the engine needs the package uidmap (shadow-utils on Fedora and its relatives)",
    ),
    (
        ("no subuid ranges", "no subgid ranges", "insufficient UIDs", "not enough IDs"),
        (
            "your user has no ids for containers:\n`sudo usermod --add-subuids 100000-165535 "
            "--add-subgids 100000-165535 $USER`"
        ),
    ),
    (
        ("CLONE_NEWUSER", "cannot clone: Operation not permitted", "user namespaces"),
        (
            "this machine does not let its users make user namespaces: ask its administrator, or "
            "run the command as root"
        ),
    ),
    (
        ("overlay is not supported", "not support overlay", "mount_program", "fuse-overlayfs"),
        "the engine's file system does not work here: `export STORAGE_DRIVER=vfs`",
    ),
    (
        ("policy.json",),
        "the engine's settings are missing: install the package containers-common",
    ),
    (
        ("unknown flag: --", "unknown shorthand flag: "),
        "the engine is too old for this: update it, or name another one with --docker_engine",
    ),
)
_NO_NAMESPACE = "buildah works without: --docker_engine=buildah"
_ENGINE_TERMS = {
    "docker": {
        "login": "login REGISTRY",
        "load": "load --input FILE",
        "prune": "system prune",
        "without": _NO_NAMESPACE,
    },
    "podman": {
        "login": "login REGISTRY",
        "load": "load --input FILE",
        "prune": "system prune",
        "without": _NO_NAMESPACE,
    },
    "apptainer": {
        "login": "registry login docker://REGISTRY",
        "load": "build IMAGE.sif docker-archive://FILE",
        "prune": "cache clean",
        "without": _NO_NAMESPACE,
    },
    "buildah": {
        "login": "login REGISTRY",
        "load": "pull docker-archive:FILE",
        "prune": "rmi --prune",
        "without": 'run it without one: write "run" for "docker" in the command',
    },
}
"""How each engine does what a remedy names."""


def own_folder(path: str, owner: tuple[int, int]) -> None:
    """Make the folder ``path`` and its missing parents; all of them belong to ``owner``."""
    missing: list[str] = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder)
        if os.geteuid() == 0 and owner[0] != 0:
            os.chown(folder, *owner)


def hand_over(folder: str, owner: tuple[int, int]) -> None:
    """Let all below ``folder`` belong to ``owner``; only root does and needs that."""
    if os.geteuid() != 0 or owner[0] == 0:
        return
    for above, folders, files in os.walk(folder):
        for path in (above, *(os.path.join(above, name) for name in (*folders, *files))):
            os.chown(path, *owner, follow_symlinks=False)


def write_files(job: ContainerJob, text: str) -> None:
    """Write the text of the image and an empty folder as the context of its build."""
    os.makedirs(job.context, exist_ok=True)
    draft = f"{job.file}.{os.getpid()}.new"
    with open(draft, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(draft, job.file)


def register(home: str, repositories: Sequence[str], owner: tuple[int, int]) -> None:
    """Write the CM repositories of the container into ``home``, where its ``cm`` reads them."""
    own_folder(home, owner)
    path = os.path.join(home, "repos.json")
    draft = f"{path}.{os.getpid()}.new"
    with open(draft, "w", encoding="utf-8") as stream:
        json.dump(list(repositories), stream, indent=2)
    if os.geteuid() == 0 and owner[0] != 0:
        os.chown(draft, *owner)
    os.replace(draft, path)


def bake(store: CacheStore, entries: Iterable[CacheEntry], context: str) -> None:
    """Copy cache entries into the context of a build, readable for every user."""
    target = os.path.join(context, "cache")
    shutil.rmtree(target, ignore_errors=True)
    for entry in entries:
        for path in (entry.path, store.metadata(entry)):
            copy = os.path.join(target, os.path.relpath(path, store.root))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if os.path.isdir(path):
                shutil.copytree(path, copy, symlinks=True)
            else:
                shutil.copy2(path, copy)
    for folder, _, names in os.walk(target):
        _readable(folder)
        for name in names:
            _readable(os.path.join(folder, name))


def _readable(path: str) -> None:
    if not os.path.islink(path):
        os.chmod(path, os.stat(path).st_mode | (0o555 if os.path.isdir(path) else 0o444))


def is_built(engine: ContainerProgram, job: ContainerJob) -> bool:
    """Whether the image is there."""
    command = exists_command(engine, job)
    return probe(command, timeout=30).ok if command else os.path.isfile(job.image)


def build(engine: ContainerProgram, job: ContainerJob, log: str, say: Say) -> float:
    """Make the image; what the engine says goes to the file ``log`` and to ``say``.

    Returns the seconds it took; raises ``image-failed``.
    """
    started = time.monotonic()
    last: deque[str] = deque(maxlen=200)
    with open(log, "w", encoding="utf-8") as stream:

        def take(line: str) -> None:
            last.append(line)
            stream.write(line + "\n")
            say(line)

        command = build_command(engine, job)
        status = run_process(command, job.context, environment(engine, job, os.environ), take)
    if status != 0:
        error = Error(
            "image-failed",
            f"{engine.name} could not build the image (exit status {status})",
            hint=cause_of("\n".join(last), engine.name)
            or "see the log; a repeated build resumes where it failed",
            context=[line[:200] for line in last if line.strip()][-8:],
        )
        error.log = log
        raise error
    return time.monotonic() - started


def cause_of(text: str, engine: str) -> str:
    """Return the remedy for what ``engine`` prints when it fails; empty where none is known."""
    template = next((hint for words, hint in _CAUSES if any(w in text for w in words)), "")
    return template.format(engine=engine, **_ENGINE_TERMS[engine])


def run(
    engine: ContainerProgram,
    job: ContainerJob,
    say: Callable[[str], None] | None,
    environ: Mapping[str, str],
) -> int:
    """Run the container and return the exit status of the command in it.

    Without ``say`` the container has this process's terminal; else ``say`` gets its output, line
    by line. However it ends, nothing of it is left.
    """
    executor = ContainerExecutor(engine, environ, lambda native_job: job)
    if say is not None:
        return run_job(executor, NativeJob(job.command, "/", environ), say).exit_code
    container = _Container(engine, job, environ)
    command = container.begin()
    try:
        return _attached(command, container.env)
    except BaseException:
        container.stop()
        raise
    finally:
        container.end()


def begin(engine: ContainerProgram, job: ContainerJob, environ: Mapping[str, str]) -> None:
    """Start a container that stays; raises ``container-failed``, and leaves nothing then.

    Raises ``container-exists`` where there is one of its name, which stays as it is.
    """
    existing = state(engine, job)
    if existing:
        raise Error(
            "container-exists",
            f"a container {job.name} already exists, and is {existing}",
            hint="; ".join(shlex.join(words) for words in end_commands(engine, job)),
        )
    env = environment(engine, job, environ)
    try:
        for command in begin_commands(engine, job):
            _require_success(command, env)
    except BaseException:
        # One that runs is another's, who was faster.
        if state(engine, job) != "running":
            end(engine, job, environ)
        raise


def end(engine: ContainerProgram, job: ContainerJob, environ: Mapping[str, str]) -> None:
    """Stop and remove a container that stays."""
    for command in end_commands(engine, job):
        probe(command, timeout=60, env=environment(engine, job, environ))


def state(engine: ContainerProgram, job: ContainerJob) -> str:
    """The state of the container of the job's name: ``running``, ``exited``; empty without one."""
    answer = probe(state_command(engine, job), timeout=30)
    return answer.stdout.strip() if answer.ok else ""


def run_in(
    engine: ContainerProgram,
    job: ContainerJob,
    command: Sequence[str],
    say: Callable[[str], None] | None,
    environ: Mapping[str, str],
) -> int:
    """Run a command in a container that was started, and return its exit status.

    Without ``say`` it has this process's terminal. An interruption ends the command with its
    container: an engine ends no command alone.
    """
    words, env = exec_command(engine, job, command), environment(engine, job, environ)
    try:
        if say is None:
            return _attached(words, env)
        return run_process(words, "/", env, say)
    except BaseException:
        end(engine, job, environ)
        raise


class _Container:
    """One run of a container: what comes before and after it, and how it is stopped."""

    def __init__(
        self, engine: ContainerProgram, job: ContainerJob, environ: Mapping[str, str]
    ) -> None:
        commands = run_commands(engine, job)
        main = main_command(commands)
        self.env = environment(engine, job, environ)
        self._before, self._main, self._after = (
            commands[:main],
            commands[main],
            commands[main + 1 :],
        )
        self._stop = stop_command(engine, job)

    def begin(self) -> list[str]:
        """Do what comes before; the command of the run itself."""
        for command in self._before:
            _require_success(command, self.env)
        return self._main

    def stop(self) -> None:
        """End what runs in it."""
        if self._stop:
            probe(self._stop, timeout=_STOP_SECONDS)

    def end(self) -> None:
        """Leave nothing of it."""
        for command in self._after:
            probe(command, timeout=60)


class ContainerExecutor:
    """Runs jobs in containers; ``container`` returns the container of a native job."""

    name = "container"

    def __init__(
        self,
        engine: ContainerProgram,
        environ: Mapping[str, str],
        container: Callable[[NativeJob], ContainerJob],
    ) -> None:
        self._engine = engine
        self._environ = environ
        self._container = container
        self._local = LocalExecutor()
        self._open: dict[str, _Container] = {}

    def submit(self, job: NativeJob) -> JobHandle:
        """Start a container for ``job``; raises ``container-failed`` and ``cannot-start``."""
        container = _Container(self._engine, self._container(job), self._environ)
        command = container.begin()
        try:
            handle = self._local.submit(NativeJob(tuple(command), "/", container.env))
        except BaseException:
            container.end()
            raise
        self._open[handle.id] = container
        return handle

    def logs(self, handle: JobHandle) -> list[str]:
        """New lines of its output."""
        return self._local.logs(handle)

    def poll(self, handle: JobHandle) -> JobState:
        """Return the state of the container: running, or its exit status."""
        return self._local.poll(handle)

    def cancel(self, handle: JobHandle) -> None:
        """Stop the container, and leave nothing of it."""
        container = self._open.pop(handle.id)
        try:
            self._local.cancel(handle)
        finally:
            container.stop()
            container.end()

    def fetch(self, handle: JobHandle) -> None:
        """All is here already: the folders of the job are those of this machine."""
        self._local.fetch(handle)
        self._open.pop(handle.id).end()


def for_steps(image: ContainerJob) -> Callable[[NativeJob], ContainerJob]:
    """Return containers of ``image`` for the native programs of steps, with the folders of a job.

    Folders have the same paths inside; cache entries are found in the store, which is mounted with
    what ``image`` mounts.
    """

    def container(job: NativeJob) -> ContainerJob:
        writes = [Mount(path, path, True) for path in (job.cwd, job.scratch) if path]
        reads = [Mount(path, path, False) for path in job.reads]
        name = f"{image.name}-{os.path.basename(job.scratch or job.cwd)}"
        return replace(
            image,
            command=job.command,
            mounts=(*image.mounts, *writes, *reads),
            work=job.cwd,
            name=name,
            env={**image.env, **_changed(job.environment)},
        )

    return container


def _changed(environment: Mapping[str, str]) -> dict[str, str]:
    """What a step has set: the rest of the environment belongs to this machine."""
    return {key: value for key, value in environment.items() if os.environ.get(key) != value}


def _require_success(command: Sequence[str], env: Mapping[str, str]) -> None:
    done = probe(command, timeout=600, env=env)
    if not done.ok:
        words = " ".join(command[1:3])
        raise Error("container-failed", f"{os.path.basename(command[0])} {words}: {done.problem}")


def _attached(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run ``command`` on our own terminal; an interruption reaches it too, and it may finish."""
    try:
        process = subprocess.Popen(list(command), env=dict(env))
    except OSError as problem:
        raise Error("cannot-start", f"cannot start {command[0]}: {problem.strerror}") from None
    try:
        return process.wait()
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, seconds in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 1.0)):
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
