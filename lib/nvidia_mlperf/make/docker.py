"""The words of containers: ``build_docker``, ``docker_add_user``, ``launch_docker`` and their like.

The guide of its round says what a container is given; how that is passed to a container engine,
and what ``cm`` in it needs, is known to the engine of ours (``flow.FlowRunner``).
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem, shell_word
from nvidia_mlperf.flow.space import scratch_path
from nvidia_mlperf.make import checks, neuron
from nvidia_mlperf.make.flow import Flow

NONE = "none"
"""CONTAINER_ENGINE for: work on this machine as it is."""
TOOLS = ("git", "make")


@dataclass(frozen=True, slots=True)
class Round:
    """The containers of a round's guide; ``work`` are the folder's paths in them.

    The first is the one that commands start in. ``shm`` and ``ulimits`` are for a container that is
    launched; one that runs headless is given what guide v0.7 shows.
    """

    work: tuple[str, ...]
    shm: str = ""
    ulimits: tuple[str, ...] = ()


ROUNDS: Mapping[str, Round] = {
    # Its text says one folder, its command lines another.
    "v0.7": Round(("/work", "/workspace")),
    "v2.0": Round(("/work",), "32gb"),
    "v3.1": Round(("/work",), "32gb", ("memlock=-1",)),
}
SECURITY = ("apparmor=unconfined", "seccomp=unconfined")
OF_LAUNCH = ("SYS_ADMIN",)
"""Capabilities of a container that is launched, as NVIDIA's makefiles have them."""
CLOCKS = ("/etc/localtime", "/etc/timezone")
FUSE = "/dev/fuse"
UDEV = "/lib/udev"

# Options of docker run and podman run that take no value: the next word would be the image.
_ALONE = (
    *("--privileged", "--init", "--read-only", "--no-healthcheck", "--oom-kill-disable"),
    *("--publish-all", "-P", "--quiet", "-q", "--no-hosts", "--disable-content-trust"),
    *("--sig-proxy", "--interactive", "--tty", "-i", "-t", "-it", "-ti"),
)
_OURS = {
    "--name": "it is how the container is found again",
    "--rm": "whether it stays follows from the word",
    "--detach": "DOCKER_DETACH=1",
    "-d": "DOCKER_DETACH=1",
    "-dt": "DOCKER_DETACH=1",
    "-td": "DOCKER_DETACH=1",
    "--entrypoint": "cm in the container is entered by its own",
    "--workdir": "the folder of the flow is where commands start",
    "-w": "the folder of the flow is where commands start",
}


# ---- what a container is given


def user_name(uid: int | None = None) -> str:
    """Return the user's name as the guides put it into names of images and containers."""
    number = os.getuid() if uid is None else uid
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = f"user{number}"
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:64] or f"user{number}"


def described(flow: Flow, headless: bool = False) -> dict[str, Any]:
    """Return the container of a folder as plain values; raise Problem for what cannot be.

    ``headless``: as guide v0.7 starts it for ``docker exec``; else as ``launch_docker`` does.
    """
    of = ROUNDS[flow.settings.vendor_round]
    user = user_name()
    scratch = _scratch(flow)
    visible = _visible(flow)
    env = {"MLPERF_SCRATCH_PATH": scratch, "NVIDIA_VISIBLE_DEVICES": visible}
    record: dict[str, Any] = {
        "image": f"mlperf-inference:{user}-latest",
        "name": f"mlperf-inference-{user}",
        "work": of.work[0],
        "mounts": list(_mounts(flow, of, scratch, headless)),
        "security": SECURITY,
        "gpus": _gpus(flow, visible),
        "extra": docker_args(flow.variables.get("DOCKER_ARGS", "")),
        "env": env,
        "base_image": flow.variables.get("BASE_IMAGE", ""),
        "tools": TOOLS,
    }
    if flow.vendor == neuron.ACCELERATOR:
        return {**record, **_inferentia(flow, scratch)}
    if headless:
        return record
    env["NVIDIA_MIG_CONFIG_DEVICES"] = "all"
    return {
        **record,
        "capabilities": OF_LAUNCH,
        "network": "host",
        "devices": (FUSE,) if os.path.exists(FUSE) else (),
        "shm_size": of.shm,
        "ulimits": of.ulimits,
        "cpus": _cpus() if of.shm else "",
    }


def _inferentia(flow: Flow, scratch: str) -> dict[str, Any]:
    """What NVIDIA's makefile of v2.0 gives a container on Inferentia: every Neuron device."""
    devices = tuple(str(path) for path in sorted(Path("/dev").glob("neuron[0-9]*")))
    return {
        "env": {"MLPERF_SCRATCH_PATH": scratch, "AWS_NEURON_VISIBLE_DEVICES": "ALL"},
        "gpus": "",
        "devices": devices,
        "shm_size": ROUNDS[flow.settings.vendor_round].shm,
        "ulimits": ("memlock=-1",),
        "network": "host",
    }


def _scratch(flow: Flow) -> str:
    path = neuron.scratch(flow) or flow.variables.get("MLPERF_SCRATCH_PATH")
    place = os.path.abspath(scratch_path(path, {}))
    new = not os.path.lexists(place) and os.path.isdir(os.path.dirname(place))
    if new and not flow.printing:
        # The engine would make it as root.
        with suppress(OSError):
            os.mkdir(place)
    if not (os.path.isdir(place) or (new and flow.printing)):
        text = f"MLPERF_SCRATCH_PATH={place} is not a folder, and is mounted"
        raise Problem("needs-input", text, f"`mkdir -p {shell_word(place)}`, or mount its disk")
    return place


def _mounts(flow: Flow, of: Round, scratch: str, headless: bool) -> Iterator[tuple[Any, ...]]:
    """Source, target, whether it is written, and why, for the reader."""
    home = os.path.expanduser("~")
    yield home, f"/mnt{home}", True, "your home"
    for place in of.work:
        yield str(flow.folder), place, True, "folder of the flow"
    yield scratch, scratch, True, "MLPERF_SCRATCH_PATH"
    own = flow.settings.systems_dir
    if own and os.path.isdir(own):
        yield os.path.abspath(own), os.path.abspath(own), False, "systems of your own"
    if flow.vendor == neuron.ACCELERATOR and os.path.isdir(UDEV):
        yield UDEV, f"/my{UDEV[1:]}", False, "rules of the Neuron devices"
    for clock in CLOCKS if not headless else ():
        if os.path.exists(clock):
            yield clock, clock, False, "time zone"


def _visible(flow: Flow) -> str:
    """NVIDIA_VISIBLE_DEVICES as the container toolkit reads it, which knows ``all`` in small."""
    devices = flow.variables.get("NVIDIA_VISIBLE_DEVICES", "") or "all"
    if devices.lower() in ("all", "none", "void"):
        return devices.lower()
    words = [word.strip() for word in devices.split(",")]
    wrong = [w for w in words if not re.fullmatch(r"\d+(:\d+)?|(GPU|MIG)-[0-9A-Za-z/-]+", w)]
    if wrong:
        devices = f"NVIDIA_VISIBLE_DEVICES={devices}: {', '.join(wrong) or 'nothing'} names no GPU"
        raise Problem(
            "bad-value", devices, "NVIDIA_VISIBLE_DEVICES=0,2,4, or all; see `nvidia-smi -L`"
        )
    return ",".join(words)


def _gpus(flow: Flow, visible: str) -> str:
    """Return the GPUs to pass on; empty without one, where containers would not start."""
    if flow.runner.machine() is None or visible in ("none", "void"):
        return ""
    return "all" if visible == "all" else f"device={visible}"


def _cpus() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def docker_args(text: str) -> tuple[str, ...]:
    """DOCKER_ARGS as words for the engine: options only, so that none is taken for the image.

    Raises Problem. No shell reads them.
    """
    try:
        words = shlex.split(text)
    except ValueError as problem:
        raise Problem("bad-value", f"DOCKER_ARGS cannot be read ({problem})", _ARGS) from None
    takes = False
    for word in words:
        option, equals, _ = word.partition("=")
        if any(ord(character) < 32 for character in word):
            raise Problem("bad-value", "DOCKER_ARGS has a control character", _ARGS)
        if takes and not word.startswith("-"):
            takes = False
        elif not re.fullmatch(r"--?[A-Za-z][\w-]*", option):
            raise Problem("bad-value", f"DOCKER_ARGS: {word} would be taken for an image", _ARGS)
        elif option in _OURS:
            raise Problem("bad-value", f"DOCKER_ARGS: {option} is set here", _OURS[option])
        else:
            takes = not equals and option not in _ALONE
    return tuple(words)


_ARGS = 'options with their values: DOCKER_ARGS="-v /here:/there --cpus=4"'


# ---- the words


def engine(flow: Flow) -> str:
    """The container engine that is used; empty for none. Raises Problem for one that is not."""
    name = flow.variables.get("CONTAINER_ENGINE", "")
    return "" if name == NONE else flow.runner.container_engine(name)


def prebuild(flow: Flow) -> None:
    """Look at the machine; with a container engine make the image, and open a shell in it."""
    checks.report(flow)
    flow.report([NIGHTLY] if flow.is_on("USE_NIGHTLY") else [])
    flow.report([UNCUT] if flow.variables.get("MIG_CONF", "OFF").upper() not in ("", "OFF") else [])
    if not engine(flow):
        names = [name for name in OF_CONTAINERS if flow.variables.get(name)]
        flow.report(f"{name} has no effect: it is for a container" for name in names)
        following = "build_inferentia" if flow.vendor == neuron.ACCELERATOR else "link_dirs"
        flow.report([f"no container is needed: go on with make {following} here"])
        return
    build_docker(flow)
    if flow.is_on("DOCKER_DETACH") or flow.printing:
        flow.report(["next: make attach_docker, or make launch_docker DOCKER_COMMAND='make …'"])
    elif not sys.stdin.isatty():
        text = "there is no terminal here for a shell in the container"
        flow.report([text, "next: make launch_docker DOCKER_COMMAND='make …'"])
    else:
        launch_docker(flow)


NIGHTLY = "USE_NIGHTLY has no effect: nothing nightly is taken here"
UNCUT = (
    "MIG_CONF: NVIDIA_VISIBLE_DEVICES=0 make configure_mig cuts the GPU before, and "
    "NVIDIA_VISIBLE_DEVICES=0 make teardown_mig makes it whole after it"
)
OF_CONTAINERS = ("DOCKER_ARGS", "DOCKER_COMMAND", "DOCKER_DETACH", "NO_BUILD")


def build_docker(flow: Flow) -> None:
    """Make the image; with NO_BUILD=0 also what ``make build`` makes, in a container of it."""
    place = described(flow)
    _run_in_engine(flow, "image", place)
    if flow.variables.get("NO_BUILD", "1") == "0":
        _run_in_engine(flow, "run", place, ["make", "build"])


def docker_add_user(flow: Flow) -> None:
    """Give you a name in the image."""
    _run_in_engine(flow, "user", {**described(flow), "user": user_name()})


def launch_docker(flow: Flow) -> None:
    """Run DOCKER_COMMAND in a container, or a shell; DOCKER_DETACH=1 leaves one running."""
    command = flow.variables.get("DOCKER_COMMAND", "")
    if command:
        _run_in_engine(flow, "run", described(flow), ["bash", "-c", command])
    elif flow.is_on("DOCKER_DETACH"):
        _run_in_engine(flow, "start", described(flow, headless=True))
    else:
        attach_docker(flow)


def attach_docker(flow: Flow) -> None:
    """Open a shell in the container that runs, else in a new one.

    Raises Problem without a terminal.
    """
    if not (flow.printing or sys.stdin.isatty()):
        hint = "`make launch_docker DOCKER_COMMAND='make …'`, or DOCKER_DETACH=1"
        raise Problem("needs-input", "a shell in the container needs a terminal", hint)
    _run_in_engine(flow, "run", {**described(flow), "interactive": True}, ["bash"])


def _run_in_engine(
    flow: Flow, what: str, place: dict[str, Any], command: list[str] | None = None
) -> None:
    """Raises Problem where the command in the container fails."""
    name = flow.variables.get("CONTAINER_ENGINE", "")
    if name == NONE:
        hint = "`unset CONTAINER_ENGINE`; the words run on this machine as it is, too"
        raise Problem("bad-value", "CONTAINER_ENGINE=none: no container is made", hint)
    status = flow.runner.container(what, {**place, "engine": name}, command or (), flow.printing)
    if status:
        raise Problem(
            "container-failed",
            f"{shlex.join(command or [what])} in the container ended with {status}",
            "its own message stands above",
        )
