"""A container for the work in a folder: its image has ``cm``, and any commands can be run in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace

from cmbench.container.design import (
    PROXIES,
    ContainerContext,
    ContainerDesign,
    certificates,
    fixed_mounts,
    folder_name,
    host_name,
    network_of,
    pip_settings,
    registered_repositories,
)
from cmbench.container.engines import ContainerJob, ContainerProgram, ignored_settings
from cmbench.container.mounts import plan_folders
from cmbench.container.recipe import HOME, ContainerRecipe, containerfile
from cmbench.container.systems import base_image
from cmbench.errors import Error

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
_IMAGE = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*:\w[\w.-]{0,127}", re.ASCII)
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATH = f"{HOME}/python/bin:{_SYSTEM}:/usr/local/nvidia/bin:/usr/local/cuda/bin"
"""Commands that come later go past the way in, which puts the user's Python first."""


def workplace(
    engine: ContainerProgram,
    template: ContainerJob,
    world: ContainerContext,
    base: str = "",
    tools: Iterable[str] = (),
) -> ContainerDesign:
    """Return the requested container, with everything that ``cm`` in it needs.

    ``template`` has names, folders, rights and variables; ``base`` is an image, else Debian's, and
    ``tools`` are programs to install in it. Raises ``bad-value`` for what cannot be.
    """
    _check(engine, template)
    image, manager = base_image(base, "", "")
    labels = {"org.opencontainers.image.title": template.name}
    text = containerfile(ContainerRecipe(image, manager, tuple(sorted(tools)), labels))
    folder = os.path.join(world.root, "containers", folder_name(image))
    home = os.path.join(folder, f"home-{engine.owner[0]}")
    registered = registered_repositories(world.repositories)
    fixed, env = fixed_mounts(home, registered, "mount", False, world)
    folders = plan_folders(fixed, (), template.mounts, "", HOME)
    passed_variables = tuple(name for name in PROXIES if world.environ.get(name))
    if engine.name == "buildah":
        # It takes no variable by its name alone.
        env |= {name: world.environ[name] for name in passed_variables}
    job = replace(
        template,
        file=os.path.join(folder, template.name, "Containerfile"),
        context=os.path.join(folder, template.name, "context"),
        mounts=folders.mounts,
        env={**env, "PATH": PATH, **template.env},
        passed_variables=() if engine.name == "buildah" else passed_variables,
        host=template.host or host_name(),
        build_args=passed_variables,
        secrets=_secrets(world),
        network=template.network or network_of(world),
        kept=True,
    )
    names = tuple(repository.path for repository in registered)
    notes = (*folders.notes, *ignored_settings(engine, job))
    return ContainerDesign(
        engine, job, text, image, home, folders, (), dict(world.environ), names, notes
    )


def _check(engine: ContainerProgram, job: ContainerJob) -> None:
    if engine.name == "apptainer":
        hint = "use docker or podman, or work on this machine directly"
        raise Error("bad-value", "apptainer keeps no container for further commands", hint=hint)
    if not _NAME.fullmatch(job.name):
        raise Error("bad-value", f"{job.name!r} is not a valid container name")
    if not _IMAGE.fullmatch(job.image):
        raise Error("bad-value", f"{job.image!r} is not a valid image name")


def _secrets(world: ContainerContext) -> dict[str, str]:
    paths = {
        "cmbench_ca": certificates(world.environ),
        "cmbench_pip": pip_settings(world.environ),
    }
    return {key: path for key, path in paths.items() if path}


def user_text(image: str, name: str, uid: int, gid: int) -> str:
    """The Containerfile that gives a user a name in an image, where it has none there yet.

    Raises ``bad-value`` for a name that a line of passwd cannot hold.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name, re.ASCII):
        raise Error("bad-value", f"{name!r} is not a valid user name")
    known = f"^({re.escape(name)}:|[^:]*:[^:]*:{uid}:)"
    user = f"{name}:x:{uid}:{gid}::{HOME}:/bin/sh"
    lines = (
        f"FROM {image}",
        f"RUN grep -Eq '^[^:]*:[^:]*:{gid}:' /etc/group || echo '{name}:x:{gid}:' >> /etc/group",
        f"RUN grep -Eq '{known}' /etc/passwd || echo '{user}' >> /etc/passwd",
    )
    return "\n".join(lines) + "\n"
