"""The programs that build images and run containers: which is there, and its command lines.

Every command is a list of words; no shell reads it. A value that must not be seen by others
(proxies, tokens) is in the environment of the command, which names the variable only.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cmbench.container.mounts import Mount
from cmbench.container.recipe import ENTER, HOME, SECRETS
from cmbench.errors import Error, did_you_mean
from cmbench.lib.host.packages import MANAGERS, install_command
from cmbench.lib.probe import ProbeResult, probe, which
from common.problems import shell_word

NAMES = ("docker", "podman", "apptainer", "buildah")
"""In the order in which they are tried."""

_PROGRAMS = {"apptainer": ("apptainer", "singularity")}
_VERSION_COMMANDS = {
    "docker": ("info", "--format", "{{.ServerVersion}} {{.SecurityOptions}}"),
    "podman": ("info", "--format", "{{.Version.Version}} {{.Host.Security.Rootless}}"),
    "apptainer": ("--version",),
    "buildah": ("--version",),
}


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    """One engine of this machine; ``owner`` is the uid and gid that results must belong to.

    ``rootless``: root in the container is the user outside.
    """

    name: str
    program: str
    version: str = ""
    rootless: bool = False
    owner: tuple[int, int] = (0, 0)
    labels: bool = False

    @property
    def user(self) -> str:
        """Return, for the printed command, who the process is in the container, and why."""
        who = f"{self.owner[0]}:{self.owner[1]}"
        if self.name == "apptainer":
            return f"{who}, you as you are: apptainer changes no user"
        if self.rootless and self.name != "podman":
            return f"0:0, which is {who} outside: the engine is rootless"
        suffix = ", kept by --userns=keep-id" if self.rootless else ""
        return f"{who}{suffix}"


@dataclass(frozen=True, slots=True)
class ContainerJob:
    """All settings of a build and a run, in terms that no container program has of its own.

    ``host`` is the name of the machine: results carry it, and runs in containers on one machine
    must agree on it. ``detached``: the command runs on its own; ``kept``: the container is there
    for further commands when it has ended.
    """

    image: str
    file: str
    context: str
    command: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    work: str = "/"
    name: str = "cmbench"
    host: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    passed_variables: tuple[str, ...] = ()
    build_args: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    shm_size: str = ""
    gpus: str = ""
    devices: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    privileged: bool = False
    ulimits: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    cpus: str = ""
    extra: tuple[str, ...] = ()
    interactive: bool = False
    rebuild: bool = False
    detached: bool = False
    kept: bool = False


def results_owner(environ: Mapping[str, str]) -> tuple[int, int]:
    """Who the results must belong to: the user, also where the command was started with sudo."""
    uid, gid = environ.get("SUDO_UID", ""), environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and uid.isdigit() and gid.isdigit():
        return int(uid), int(gid)
    return os.getuid(), os.getgid()


def find_engine(
    choice: str,
    environ: Mapping[str, str],
    ask: Callable[..., ProbeResult] = probe,
) -> ContainerProgram:
    """Return the engine named ``choice``, else the first that answers; raises ``no-engine``."""
    if choice and choice not in (*NAMES, "singularity"):
        hint = did_you_mean(choice, NAMES) or "use one of: " + ", ".join(NAMES)
        raise Error("bad-value", f"--docker_engine={choice} is not known", hint=hint)
    requested = {"singularity": "apptainer"}.get(choice, choice)
    reasons: list[str] = []
    for name in [requested] if requested else NAMES:
        engine = _answering(name, environ, ask)
        if isinstance(engine, ContainerProgram):
            return engine
        reasons.append(f"{name}: {engine}")
    raise Error(
        "no-engine",
        f"{choice} cannot be used" if choice else "no container engine can be used",
        hint=_remedy(requested, reasons),
        context=reasons,
    )


def _answering(
    name: str, environ: Mapping[str, str], ask: Callable[..., ProbeResult]
) -> ContainerProgram | str:
    """The engine, or why it cannot be used."""
    program = next(filter(None, map(which, _PROGRAMS.get(name, (name,)))), None)
    if program is None:
        return "not on PATH"
    answer = ask([str(program), *_VERSION_COMMANDS[name]], timeout=20.0)
    words = answer.output.split()
    version = next((word for word in words if word[:1].isdigit()), "")
    if not answer.ok or not version:
        last = answer.output.rstrip().rpartition("\n")[2].strip()[:150]
        return answer.problem or last or "it does not respond"
    root = os.geteuid() == 0
    rootless = {"docker": "rootless" in answer.output, "podman": "true" in words}
    return ContainerProgram(
        name=name,
        program=str(program),
        version=version.strip(","),
        rootless=rootless.get(name, not root),
        owner=results_owner(environ),
        labels=os.path.exists("/sys/fs/selinux/enforce"),
    )


def _remedy(choice: str, reasons: Sequence[str]) -> str:
    refused = [reason for reason in reasons if "ermission denied" in reason]
    if refused:
        return "you may not use it: ask the machine's owner for access, or install podman"
    if choice == "docker" and "not on PATH" not in reasons[0]:
        return "start the daemon, or use another engine: --docker_engine=podman"
    if choice and "not on PATH" not in reasons[0]:
        # It is there: another one to install would be the same.
        program = next(filter(None, map(which, _PROGRAMS.get(choice, (choice,)))), choice)
        question = " ".join([shell_word(str(program)), _VERSION_COMMANDS[choice][0]])
        return f"see why it fails, or leave out --docker_engine to use another one:\n`{question}`"
    package = choice if choice in ("podman", "buildah") else "podman"
    manager = next((name for name in ("apt-get", *MANAGERS) if which(name)), "")
    command = install_command(manager.removesuffix("-get"), [package], as_root=os.geteuid() == 0)
    advice = f"install one, such as {package}, which needs no daemon"
    return f"{advice}:\n`{command}`" if command else advice


# ---------------------------------------------------------------- building


def build_command(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    """The command that makes the image."""
    if engine.name == "apptainer":
        return _apptainer_build(engine, job)
    words = [engine.program, "build"]
    words += ["--isolation=chroot", "--layers"] if engine.name == "buildah" else []
    words += ["--tag", job.image, "--file", job.file]
    for name in job.build_args:
        words += ["--build-arg", name]
    for name, path in sorted(job.secrets.items()):
        words += ["--secret", _fields(f"id={name}", f"src={path}")]
    if job.network == "host":
        words += ["--network", "host"]
    return [*words, *(["--no-cache", "--pull"] if job.rebuild else []), job.context]


def _apptainer_build(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    words = [engine.program, "build", *(["--force"] if job.rebuild else [])]
    words += ["--fakeroot"] if engine.rootless else []
    for name, path in sorted(job.secrets.items()):
        words += ["--bind", f"{path}:{SECRETS[name]}:ro"]
    return [*words, job.image, job.file]


def exists_command(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    """Return the command that succeeds where the image exists; empty where the file shows it."""
    if engine.name == "apptainer":
        return []
    kind = ["inspect", "--type", "image"] if engine.name == "buildah" else ["image", "inspect"]
    return [engine.program, *kind, job.image]


# ---------------------------------------------------------------- running


def run_commands(engine: ContainerProgram, job: ContainerJob) -> list[list[str]]:
    """The commands of a run in their order; the last but one of buildah's is the run itself."""
    if engine.name == "apptainer":
        return [_apptainer_run(engine, job)]
    if engine.name == "buildah":
        return [
            [engine.program, "from", "--name", job.name, job.image],
            _buildah_run(engine, job),
            [engine.program, "rm", job.name],
        ]
    return [_docker_run(engine, job)]


def main_command(commands: Sequence[list[str]]) -> int:
    """Which of ``run_commands`` is the run."""
    return 1 if len(commands) > 1 else 0


def stop_command(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    """The command that ends the container; empty where ending the process does."""
    if engine.name in ("docker", "podman"):
        return [engine.program, "stop", "--time", "3", job.name]
    return []


def _docker_run(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    words = [engine.program, "run", "--rm", "--name", job.name]
    words += ["--interactive", "--tty"] if job.interactive else []
    return [*words, *docker_options(engine, job), job.image, *job.command]


def docker_options(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    """The options of a container for docker and podman, for all ways of running it."""
    words = _user(engine)
    words += ["--security-opt", "label=disable"] if engine.labels else []
    # With the network of the machine comes its name, and some versions take no other then.
    words += _flag_words("--hostname", "" if job.network == "host" else job.host)
    words += ["--workdir", job.work]
    words += _env(job)
    words += _mounts(job)
    words += _flag_words("--shm-size", job.shm_size)
    words += _flag_words("--network", job.network)
    words += _gpus(engine, job.gpus)
    words += _flag_words("--device", *job.devices)
    words += _flag_words("--publish", *job.ports)
    words += ["--privileged"] if job.privileged else []
    words += _flag_words("--security-opt", *job.security)
    words += _flag_words("--cap-add", *job.capabilities)
    words += _flag_words("--ulimit", *job.ulimits)
    words += _flag_words("--cpuset-cpus", job.cpus)
    return [*words, *job.extra]


def _gpus(engine: ContainerProgram, gpus: str) -> list[str]:
    """``all``, a number of GPUs, or ``device=`` and the names of some, as the engine has it."""
    some = gpus.removeprefix("device=")
    if engine.name == "podman" and (gpus == "all" or some != gpus):
        return _flag_words(
            "--device", *(f"nvidia.com/gpu={name}" for name in some.split(",") if name)
        )
    # Docker reads the value as a line of comma-separated fields.
    return _flag_words("--gpus", _fields(gpus) if some != gpus else gpus)


def _flag_words(flag: str, *values: str) -> list[str]:
    """Return ``flag`` with every one of ``values`` that is not empty."""
    return [word for value in values if value for word in (flag, value)]


def _user(engine: ContainerProgram) -> list[str]:
    who = f"{engine.owner[0]}:{engine.owner[1]}"
    if not engine.rootless:
        return ["--user", who]
    return ["--userns", "keep-id", "--user", who] if engine.name == "podman" else ["--user", "0:0"]


def _buildah_run(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    # Its chroot keeps files apart and nothing else: limits, capabilities, devices have no effect.
    words = [engine.program, "run", "--isolation", "chroot"]
    words += ["--tty"] if job.interactive else []
    words += _flag_words("--hostname", job.host)
    words += [*_user(engine), "--workingdir", job.work, *_env(job)]
    for mount in job.mounts:
        words += ["--volume", f"{mount.source}:{mount.target}:{mount.mode}"]
    words += ["--network", job.network] if job.network in ("host", "none") else []
    return [*words, *job.extra, job.name, "--", ENTER, *job.command]


def begin_commands(engine: ContainerProgram, job: ContainerJob) -> list[list[str]]:
    """The commands that start a container which others are then run in, or which runs on its own.

    Raises ``bad-value`` where the engine keeps none.
    """
    require_kept_containers(engine, job)
    if engine.name == "buildah":
        return [[engine.program, "from", "--name", job.name, job.image]]
    words = [engine.program, "run", "--detach", "--tty", "--name", job.name]
    words += [*docker_options(engine, job), job.image]
    if not job.detached:
        return [[*words, *IDLE]]
    return [[*words, *(_then_idle(job.command) if job.kept else job.command)]]


_END = 'trap "exit 0" TERM'
_WAIT = "while :; do sleep 60 & wait $!; done"
IDLE = ("sh", "-c", f"{_END}; {_WAIT}")
"""What a container does whose commands come later; as its first process it must end when told."""


def _then_idle(command: Sequence[str]) -> tuple[str, ...]:
    return ("sh", "-c", f'{_END}; "$@"; echo "ended with status $?"; {_WAIT}', "sh", *command)


def exec_command(engine: ContainerProgram, job: ContainerJob, command: Sequence[str]) -> list[str]:
    """The command that runs another one in a container that was started."""
    if engine.name == "buildah":
        return _buildah_run(engine, replace(job, command=tuple(command)))
    terminal = ["--interactive", "--tty"] if job.interactive else []
    passed_variables = _flag_words("--env", *job.passed_variables)
    return [engine.program, "exec", *terminal, *passed_variables, job.name, ENTER, *command]


def end_commands(engine: ContainerProgram, job: ContainerJob) -> list[list[str]]:
    """The commands that stop a container that was started, and remove it."""
    if engine.name == "buildah":
        return [[engine.program, "rm", job.name]]
    return [[engine.program, "container", word, job.name] for word in ("stop", "rm")]


def state_command(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    """The command that prints the state of the container of that name; it fails without one."""
    if engine.name == "buildah":
        # A container that exists accepts commands: there is no other state.
        shown = 'running{{ "" }}'
        return [engine.program, "inspect", "--type", "container", "--format", shown, job.name]
    shown = "{{.State.Status}}"
    return [engine.program, "container", "inspect", "--format", shown, job.name]


def require_kept_containers(engine: ContainerProgram, job: ContainerJob) -> None:
    """Raise ``bad-value`` where the container program cannot keep a container as requested."""
    if engine.name == "apptainer" or (engine.name == "buildah" and job.detached):
        what = "runs nothing in the background" if job.detached else "keeps no container"
        hint = "use another engine: --docker_engine=podman"
        raise Error("bad-value", f"{engine.name} {what}", hint=hint)


def ignored_settings(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    """Return notes on requested settings that the container program ignores."""
    rights = (job.shm_size, job.gpus, *job.devices, *job.ulimits, *job.capabilities, *job.security)
    if engine.name != "buildah" or not any((*rights, job.cpus, job.privileged)):
        return []
    text = "buildah runs commands under chroot: GPUs, limits, capabilities, devices have no effect"
    return [text]


def _env(job: ContainerJob) -> list[str]:
    return _flag_words(
        "--env", *(f"{key}={job.env[key]}" for key in sorted(job.env)), *job.passed_variables
    )


def _mounts(job: ContainerJob) -> list[str]:
    words: list[str] = []
    for mount in job.mounts:
        ends = ("source=" + mount.source, "target=" + mount.target)
        words += ["--mount", _fields("type=bind", *ends, *([] if mount.writable else ["readonly"]))]
    return words


def _fields(*fields: str) -> str:
    """``fields`` as the one line of comma-separated values that ``--mount`` takes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _apptainer_run(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    words = [engine.program, "exec", "--cleanenv", "--containall", "--pwd", job.work]
    for mount in job.mounts:
        if mount.target == HOME:
            # The only way in which apptainer lets HOME be another folder.
            words += ["--home", f"{mount.source}:{mount.target}"]
            continue
        ends = ("source=" + mount.source, "destination=" + mount.target)
        words += ["--mount", _fields("type=bind", *ends, *([] if mount.writable else ["ro"]))]
    words += ["--nv"] if job.gpus else []
    words += ["--net", "--network", job.network] if job.network == "none" else []
    return [*words, *job.extra, job.image, ENTER, *job.command]


def environment(
    engine: ContainerProgram, job: ContainerJob, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the program's commands: the user's, and apptainer's additions."""
    variables = dict(environ)
    if engine.name == "docker":
        # Older ones know secrets of a build only then.
        variables.setdefault("DOCKER_BUILDKIT", "1")
    if engine.name == "apptainer":
        passed_variables = {key: environ[key] for key in job.passed_variables if key in environ}
        for key, value in {**_without_home(job), **passed_variables}.items():
            for prefix in ("APPTAINERENV_", "SINGULARITYENV_"):
                variables[prefix + key] = value
    return variables


def shown_environment(engine: ContainerProgram, job: ContainerJob) -> list[str]:
    """Return the assignments before the printed command that stand for ``environment``."""
    if engine.name != "apptainer":
        return []
    import shlex

    names = [f'APPTAINERENV_{key}="${key}"' for key in job.passed_variables]
    variables = sorted(_without_home(job).items())
    return [*(f"APPTAINERENV_{key}={shlex.quote(value)}" for key, value in variables), *names]


def _without_home(job: ContainerJob) -> dict[str, str]:
    return {key: value for key, value in job.env.items() if key != "HOME"}
