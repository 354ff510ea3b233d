"""What the words of containers need of the engine: from plain values to containers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cmbench.api import containers
from cmbench.container.design import ContainerDesign
from cmbench.container.engines import ContainerJob, find_engine
from cmbench.container.mounts import Mount
from cmbench.container.workplace import user_text
from cmbench.errors import Error
from cmbench.render.container import enter_lines, place_printed, summary
from cmbench.session.workspace import Workspace

_VARIABLES = {
    ", or --docker_os with --docker_os_version": "",
    "--docker_engine": "CONTAINER_ENGINE",
    "--docker_base_image": "BASE_IMAGE",
    ': write "run" for "docker" in the command': ", with make run_harness",
}
"""Words of advice for ``cm docker``, and what a make line has for them."""
_NOT_OF_THE_JOB = ("engine", "base_image", "tools", "user", "mounts")


def engine_name(requested: str) -> str:
    """Return the container program: the requested one, else docker or podman; empty without one."""
    if requested:
        try:
            return find_engine(requested, os.environ).name
        except Error as error:
            raise error.rewrite(_in_variables) from None
    return next(filter(None, map(_answering, ("docker", "podman"))), "")


def _answering(name: str) -> str:
    try:
        return find_engine(name, os.environ).name
    except Error as error:
        if error.code != "no-engine":
            raise
        return ""


def designed(home: str, settings: Mapping[str, Any], only_look: bool) -> ContainerDesign:
    """Return the design of the container; raise Error."""
    mounts = tuple(Mount(*mount) for mount in settings["mounts"])
    job = ContainerJob(
        file="",
        context="",
        command=(),
        mounts=mounts,
        **{name: value for name, value in settings.items() if name not in _NOT_OF_THE_JOB},
    )
    return containers.workplace_design(
        Workspace.open(home),
        job,
        # Others are used only on request: buildah keeps nothing running.
        str(settings.get("engine", "")) or engine_name("") or "docker",
        base=str(settings.get("base_image", "")),
        tools=tuple(settings.get("tools", ())),
        only_look=only_look,
    )


def run_step(
    home: str, what: str, settings: Mapping[str, Any], command: Sequence[str], only_print: bool
) -> int:
    """Make an image, add the user to it, start a container or run a command in one.

    The plan is printed first. Returns the exit status; raises Error.
    """
    try:
        return _run_step(home, what, settings, command, only_print)
    except Error as error:
        raise error.rewrite(_in_variables) from None


def _in_variables(text: str) -> str:
    """Return the command as typed on a make line."""
    for option, variable in _VARIABLES.items():
        text = text.replace(option, variable)
    return text


def _run_step(
    home: str, what: str, settings: Mapping[str, Any], command: Sequence[str], only_print: bool
) -> int:
    made = designed(home, settings, only_print)
    if what == "user":
        text = user_text(made.job.image, str(settings["user"]), *made.engine.owner)
        made = replace(made, text=text, job=replace(made.job, file=f"{made.job.file}.user"))
    if only_print:
        _show(place_printed(made, what, command))
        return 0
    _show(summary(replace(made, job=replace(made.job, command=tuple(command)))))
    if what in ("image", "user"):
        containers.make_image(made, _show, _show)
        return 0
    status = containers.enter(made, command, stays=what == "start")
    if what == "start":
        _show("\n".join(enter_lines(made)))
    return status


def _show(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)
