"""Where the points of a sweep are measured, as the flags of the command say it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.lib.ssh import check_name
from cmbench_sweep import driver
from cmbench_sweep.job_containers import RUNTIMES, JobContainer

OF_SBATCH = (
    *("partition", "account", "qos", "constraint", "gres", "time", "mem", "cpus_per_task"),
    *("reservation", "nodelist", "exclude"),
)
_MODULES = (
    "type module >/dev/null 2>&1 || for init in /etc/profile.d/*{modules,lmod}*.sh;"
    ' do [ -r "$init" ] && . "$init"; done'
)
"""Defines ``module`` where the shell of the user has not handed it on."""
_SETUP = ("modules", "setup")
_OF_SLURM = (
    *OF_SBATCH,
    *("sbatch", "throttle", *_SETUP, "share_nodes", "scratch", *RUNTIMES),
)
_OF_RAY = ("ray", "scratch")
_OF_SSH = ("hosts", "folder", "keep", "wheels", "patience", *_SETUP)
_PLACES = {"slurm": _OF_SLURM, "ssh": _OF_SSH, "ray": _OF_RAY}
ELSEWHERE = tuple(name for names in _PLACES.values() for name in names)


def execution_site(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> driver.ExecutionSite:
    """Return the site: this machine, a cluster, hosts; raise ``bad-value`` and others.

    ``environment`` are variables that jobs of Slurm export.
    """
    on = str(flags.get("on") or flags.get("executor") or _implied(flags))
    if on not in ("local", *_PLACES):
        hint = did_you_mean(on, ("local", *_PLACES)) or "write --on=slurm, ssh or ray"
        raise Error("bad-value", f"--on={on} is not possible", hint=hint)
    _check_flags(on, flags)
    if on == "slurm":
        return _slurm(flags, environment or {})
    others = {"ray": _ray, "ssh": _hosts, "local": _local}
    return others[on](flags)


def _local(flags: Mapping[str, Any]) -> driver.ExecutionSite:
    return driver.LocalSite(frozenset(filter(None, str(flags.get("labels") or "").split(","))))


def _implied(flags: Mapping[str, Any]) -> str:
    return "ssh" if "hosts" in flags else "ray" if "ray" in flags else "local"


def _ray(flags: Mapping[str, Any]) -> driver.ExecutionSite:
    from cmbench_sweep.clusters import ClusterSite
    from cmbench_sweep.ray_jobs import RayCluster, head

    return ClusterSite(
        RayCluster(head(str(flags.get("ray") or "")), str(flags.get("scratch") or ""))
    )


def _check_flags(on: str, flags: Mapping[str, Any]) -> None:
    """Refuse flags of another executor than ``on``, and those without their value."""
    if "docker" in flags:
        raise Error(
            "bad-value",
            "points do not run in Docker containers",
            hint="on Slurm, --apptainer=docker://IMAGE runs the same image",
        )
    for executor, names in _PLACES.items():
        for name in filter(flags.__contains__, names):
            if name not in _PLACES.get(on, ()):
                raise Error(
                    "unknown-flag", f"--{name} is of {executor}", hint=f"add --on={executor}"
                )
    for name in ("labels", *_PLACES.get(on, ())):
        if flags.get(name) is True and name not in ("share_nodes", "keep"):
            raise Error("bad-value", f"--{name} needs a value", hint=f"write --{name}=VALUE")


def _hosts(flags: Mapping[str, Any]) -> driver.ExecutionSite:
    """Return the machines of ``--hosts=a,b=gpu+big``; all have those of ``--labels``."""
    from cmbench_sweep.hosts import REMOTE_FOLDER, LabeledHost, SshSite
    from cmbench_sweep.ssh_jobs import SshHost

    common = set(filter(None, str(flags.get("labels") or "").split(",")))
    machines: dict[str, LabeledHost] = {}
    for word in filter(None, str(flags.get("hosts") or "").split(",")):
        name, _, labels = word.partition("=")
        check_name(name)
        machines[name] = LabeledHost(SshHost(name), frozenset({*labels.split("+"), *common} - {""}))
    if not machines:
        raise Error("needs-input", "no host is named", hint="write --hosts=HOST,USER@HOST")
    return SshSite(
        tuple(machines.values()),
        folder=str(flags.get("folder") or REMOTE_FOLDER).rstrip("/"),
        stay=bool(flags.get("keep")),
        wheels=str(flags.get("wheels") or ""),
        patience=_seconds(flags.get("patience") or 120),
        setup=tuple(_setup(flags)),
    )


def _seconds(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise Error(
            "bad-value",
            f"--patience={value} is not a number of seconds",
            hint="write --patience=600",
        ) from None


def _slurm(flags: Mapping[str, Any], environment: Mapping[str, str]) -> driver.ExecutionSite:
    """Return a cluster under Slurm with the options of the flags."""
    from cmbench_sweep.clusters import ClusterSite
    from cmbench_sweep.slurm import SbatchOptions, SlurmCluster

    wish = SbatchOptions(
        {name: str(flags[name]) for name in OF_SBATCH if flags.get(name)},
        exclusive=not flags.get("share_nodes"),
        more=tuple(_split_words(flags.get("sbatch"))),
        throttle=_number("throttle", flags.get("throttle")),
        setup=(
            *(f'export {name}="{_escaped(value)}"' for name, value in environment.items()),
            *_setup(flags),
        ),
        scratch=str(flags.get("scratch") or ""),
    )
    requested = {name: " ".join(lines_of(flags[name])) for name in _OF_SLURM if flags.get(name)}
    container = _container(flags, wish.asks_for_gpus)
    if container is not None:
        container = replace(container, variables=tuple(environment))
    return ClusterSite(SlurmCluster(wish, container, requested))


def _escaped(value: str) -> str:
    """Return a value between double quotes of the shell, in which ``$NAME`` is replaced."""
    return re.sub(r'([\\"`]|\$(?![A-Za-z_{]))', r"\\\1", value)


def lines_of(value: Any) -> list[str]:
    """Return the lines of a flag that may be written more than once, or with ``,=``."""
    return [str(line) for line in (value if isinstance(value, list) else [value]) if line]


def _setup(flags: Mapping[str, Any]) -> list[str]:
    """Return the lines of bash that come before the points."""
    return [*_modules(flags.get("modules")), *lines_of(flags.get("setup"))]


def _modules(value: Any) -> list[str]:
    """Return the line that loads the environment modules of ``--modules=A,B``; none for none."""
    names = [name for line in lines_of(value) for name in line.split(",") if name]
    return [_MODULES, f"module load {shlex.join(names)} || exit 1"] if names else []


def _split_words(value: Any) -> list[str]:
    """Return the words of ``--sbatch``; raise ``bad-value``."""
    try:
        return [word for line in lines_of(value) for word in shlex.split(line)]
    except ValueError as problem:
        hint = "write blanks and quotes as in a shell: --sbatch='--comment=\"a b\"'"
        raise Error("bad-value", f"--sbatch={value}: {problem}", hint=hint) from None


def _number(name: str, value: Any) -> int:
    """Return a whole number above 0, or 0 where none is given; raise ``bad-value``."""
    if value is None:
        return 0
    if not str(value).isdecimal() or not int(value):
        hint = f"write --{name}=4"
        raise Error("bad-value", f"--{name}={value} is not a number of tasks", hint=hint)
    return int(value)


def _container(flags: Mapping[str, Any], gpus: bool) -> JobContainer | None:
    """Return the requested image; raise ``file-not-found``."""
    program = next((name for name in RUNTIMES if flags.get(name)), "")
    if not program:
        return None
    image = str(flags[program])
    if not _is_path(program, image):
        return JobContainer(program, image, gpus)
    if not os.path.exists(image):
        raise Error(
            "file-not-found",
            f"--{program}={image} does not exist",
            hint=_IMAGES[program],
        )
    return JobContainer(program, os.path.abspath(image), gpus)


_APPTAINER = "name an image (.sif), an unpacked one, or docker://NAME"
_IMAGES = {
    "apptainer": _APPTAINER,
    "singularity": _APPTAINER,
    "pyxis": "name an image of a registry, such as nvcr.io#nvidia/pytorch:25.01-py3, or the path"
    " of a squashfs file: ./image.sqsh",
    "enroot": "name a container of `enroot list`, or the path of a squashfs file: ./image.sqsh",
}


def _is_path(program: str, image: str) -> bool:
    """Return whether an image is a file or folder here, and no name that its program knows."""
    if program in ("apptainer", "singularity"):
        return "://" not in image
    return image.startswith(("/", "./", "../")) or image.endswith(".sqsh")
