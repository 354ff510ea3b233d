"""A container before it is made, for a terminal of 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from cmbench.container import options as options_in
from cmbench.container.design import ContainerDesign
from cmbench.container.engines import (
    ContainerJob,
    begin_commands,
    build_command,
    end_commands,
    exec_command,
    run_commands,
    shown_environment,
)
from cmbench.lib.secrecy import mask_word
from common.text import wrapped

WIDTH = 80


def commands(made: ContainerDesign) -> list[list[str]]:
    """The commands of the engine: the build, and those of the run."""
    engine, job = made.engine, made.job
    if job.detached or job.kept:
        then = [] if job.detached else [exec_command(engine, job, job.command)]
        return [build_command(engine, job), *begin_commands(engine, job), *then]
    return [build_command(engine, job), *run_commands(engine, job)]


def left(made: ContainerDesign) -> str:
    """How a container that stays is looked at, entered and ended; empty where none stays."""
    return "\n".join(enter_lines(made)) if made.job.detached or made.job.kept else ""


def enter_lines(made: ContainerDesign) -> list[str]:
    """How a container that was started is looked at, entered and ended."""
    engine, job = made.engine, made.job
    rows = [("log", [engine.program, "logs", "--follow", job.name])] if job.detached else []
    if job.kept:
        rows.append(("enter", exec_command(engine, replace(job, interactive=True), ["bash"])))
    rows += [("end", words) for words in end_commands(engine, job)]
    return [f"the container {job.name} keeps running", *(f"  {t:<7}{_shell(w)}" for t, w in rows)]


def place_printed(made: ContainerDesign, what: str, command: Sequence[str]) -> str:
    """All that would be made and run for the work in a folder: ``image``, ``user``, ``start``, run.

    A run shows both ways: in the container that runs, and in a new one.
    """
    engine, job = made.engine, replace(made.job, command=tuple(command))
    if what in ("image", "user"):
        text = [f"-- {job.file}", made.text]
        lines = [build_command(engine, job)]
    elif what == "start":
        text, lines = [], begin_commands(engine, job)
    else:
        text, lines = [], run_commands(engine, job)
    end = "-- commands; nothing was written or started"
    head = summary(replace(made, job=job))
    more = enter_lines(made) if what == "start" else []
    return "\n".join([head, *text, end, *map(_shell, lines), *more])


def summary(made: ContainerDesign) -> str:
    """Return the program, the image, the mounts and the command, as shown before the start."""
    job, engine = made.job, made.engine
    rows = [("engine", f"{engine.name} {engine.version}"), ("image", job.image)]
    rows += [("base", made.base), ("user", engine.user)]
    lines = [f"{title:<9}{text}" for title, text in rows]
    for number, mount in enumerate(job.mounts):
        lines += _mount_lines("mounts" if number == 0 else "", mount)
    lines.append(f"{'folder':<9}{job.work}")
    if _rights(job):
        lines += _wrapped("also", ", ".join(_rights(job)))
    if job.passed_variables:
        lines += _wrapped("handed on", ", ".join(job.passed_variables))
    lines += [f"{'command':<9}{_shell(job.command)}"] if job.command else []
    for note in made.notes:
        lines += _wrapped("note", note)
    return "\n".join([*lines, ""])


def _rights(job: ContainerJob) -> list[str]:
    """What else of this machine the container is given."""
    rights = ["all privileges"] if job.privileged else []
    rights += [f"GPUs: {job.gpus}"] if job.gpus else []
    rights += [f"device {device}" for device in job.devices]
    rights += [f"port {port}" for port in job.ports]
    rights += [f"network {job.network}"] if job.network else []
    return [*rights, *([shlex.join(job.extra)] if job.extra else [])]


def _mount_lines(title: str, mount: Any) -> Iterable[str]:
    target = mount.target
    why = mount.why if mount.source == target else f"{mount.why}: {mount.source}"
    line = f"{title:<9}{mount.mode} {target}"
    if len(line) + len(why) + 4 <= WIDTH:
        yield f"{line}  ({why})"
        return
    yield line
    yield f"{'':<12}({why})"


def _wrapped(title: str, text: str) -> list[str]:
    return wrapped(text, f"{title:<9}" if len(title) < 9 else title + " ", " " * 9)


def printed(made: ContainerDesign) -> str:
    """All that would be made and run."""
    front = shown_environment(made.engine, made.job)
    lines = []
    for number, words in enumerate(commands(made)):
        text = _shell(words)
        lines.append(" ".join([*front, text]) if front and number == 1 else text)
    return "\n".join(
        [
            summary(made),
            f"-- {made.job.file}",
            made.text,
            "-- commands; nothing was written or started",
            *lines,
        ]
    )


def _shell(words: Iterable[str]) -> str:
    """Words as a shell would be given them, without secrets."""
    return shlex.join(mask_word(word) for word in words)


def help_text() -> str:
    """The flags of containers."""
    flags = [("--print", "only show the Containerfile, the mounts, the commands")]
    flags += [(f"--docker_{name}", text) for name, text in options_in.FLAGS.items()]
    lines = ["cm docker script --tags=... [the flags of cm run script]", ""]
    for name, text in flags:
        lines += wrapped(text, f"  {name:<28}", " " * 30)
    return "\n".join([*lines, "", "--engine and --base_image may be written without docker_."])
