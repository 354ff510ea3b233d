"""A run in a container: its design, made from the plan, and its execution."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cmbench.api.resolving import make_context, make_plan, open_lock, silent_facts
from cmbench.api.running import interruptible
from cmbench.container import launch
from cmbench.container import options as options_in
from cmbench.container.design import ContainerContext, ContainerDesign, design
from cmbench.container.engines import ContainerJob, ContainerProgram, find_engine, results_owner
from cmbench.container.workplace import workplace
from cmbench.errors import Error
from cmbench.index.select import choose, refuse_ambiguity
from cmbench.session.call import Call, RunRequest
from cmbench.session.workspace import Workspace

Say = Callable[[str], None]


def split(call: Call) -> tuple[dict[str, Any], RunRequest]:
    """Return the flags of containers in ``call``, and the request that its others make."""
    call.take_extra_flags()
    index = call.workspace.index
    tags, uid = call.query()
    refuse_ambiguity(index, tags, uid)
    script = index.script(choose(index, tags, uid).path)
    own, others = options_in.split_flags(call.flags, script.inputs)
    others.pop("print", None)
    return own, call.request_of(script, others)


def design_container(
    request: RunRequest, own: Mapping[str, Any], only_look: bool = False
) -> ContainerDesign:
    """The image for the plan of ``request`` and the container for its command; makes nothing.

    ``own`` are the flags of containers. With ``only_look`` no engine needs to be there. Raises
    ``no-engine``, and ``bad-value`` for what cannot be.
    """
    workspace = request.workspace
    context = make_context(workspace, silent_facts(workspace), open_lock(request))
    plan = make_plan(workspace, request.request, context)
    options = options_in.options(own, options_in.declared(plan.step_run))
    skip = {"artifact", "artifacts"} - set(request.script.inputs)
    world = ContainerContext(
        root=workspace.root,
        store=workspace.store,
        repositories=workspace.repositories,
        environ=os.environ,
        tags=str(request.request.tags),
        uid=request.request.uid,
        flags={key: value for key, value in request.flags.items() if key not in skip},
        current=os.getcwd(),
        offline=request.options.offline,
    )
    engine = _engine(options.engine, only_look)
    return design(engine, options, plan, request.request, world)


def _engine(program: str, only_look: bool) -> ContainerProgram:
    try:
        return find_engine(program, os.environ)
    except Error as error:
        if not only_look or error.code != "no-engine":
            raise
        name = {"singularity": "apptainer"}.get(program, program) or "docker"
        return ContainerProgram(
            name, name, "(cannot be used here)", owner=results_owner(os.environ)
        )


def run_container(
    request: RunRequest,
    made: ContainerDesign,
    *,
    attached: bool = False,
    say: Say | None = None,
    build_output: Say | None = None,
) -> list[str]:
    """Make the image of ``made`` where it is not there yet, and run its command in a container.

    ``attached`` gives the container the terminal of this process; else the lines of its output are
    returned. ``say`` is called with messages, ``build_output`` with lines of the build. Raises
    ``image-failed`` and ``container-failed``.
    """
    if made.job.interactive and not sys.stdin.isatty():
        raise Error(
            "bad-value",
            "--docker_it needs a terminal, and there is none",
            hint="leave it out: the command runs and its output is shown",
        )
    with interruptible():
        try:
            _prepare(made)
            if made.baked:
                launch.bake(request.workspace.store, made.baked, made.job.context)
            _build(made, say or _nothing, build_output or _nothing)
        finally:
            launch.hand_over(os.path.dirname(made.job.file), made.engine.owner)
        lines: list[str] = []
        status = _run(made, None if attached else lines.append)
    if status != 0:
        raise _failed(made, status, lines)
    return lines


def _run(made: ContainerDesign, keep: Say | None) -> int:
    """Return the exit status of the command; 0 where it runs on its own."""
    engine, job, environ = made.engine, made.job, made.environ
    if not (job.detached or job.kept):
        return launch.run(engine, job, keep, environ)
    launch.begin(engine, job, environ)
    return 0 if job.detached else launch.run_in(engine, job, job.command, keep, environ)


def _nothing(line: str) -> None:
    """Does nothing with the line."""


def _prepare(made: ContainerDesign) -> None:
    owner = made.engine.owner
    launch.own_folder(made.home, owner)
    launch.register(os.path.join(made.home, "CM"), made.registered, owner)
    for folder in made.folders.make:
        launch.own_folder(folder, owner)
    launch.write_files(made.job, made.text)


def _build(made: ContainerDesign, say: Say, output: Say, always: bool = False) -> None:
    if not (always or made.job.rebuild) and launch.is_built(made.engine, made.job):
        say("the image is there already\n")
        return
    log = os.path.join(os.path.dirname(made.job.file), "build.log")
    say(f"building the image; the engine's output goes to\n  {log}")
    seconds = launch.build(made.engine, made.job, log, output)
    say(f"the image was built in {seconds:.0f} s\n")


def _failed(made: ContainerDesign, status: int, lines: list[str]) -> Error:
    name = made.engine.name
    context = lines[-8:]
    if status in (125, 126, 127):
        other = "buildah" if name == "podman" else "podman"
        return Error(
            "container-failed",
            f"{name} could not start the container (exit status {status})",
            hint=launch.cause_of("\n".join(lines), name)
            or f"its message above says why; or try another engine: --docker_engine={other}",
            context=context,
        )
    return Error(
        "container-failed",
        f"the command in the container ended with status {status}",
        hint="its output says why; --docker_it opens a shell in the container after the run",
        context=context,
        exit_code=status if 0 < status < 256 else 1,
    )


# ---------------------------------------------------------------- a container for a folder


def workplace_design(
    workspace: Workspace,
    job: ContainerJob,
    engine: str = "",
    *,
    base: str = "",
    tools: Iterable[str] = (),
    only_look: bool = False,
) -> ContainerDesign:
    """Return a container for the work in a folder; makes nothing.

    ``job`` has its names, folders and rights. With ``only_look`` no engine needs to be there.
    Raises ``no-engine``, and ``bad-value`` for what cannot be.
    """
    world = ContainerContext(
        root=workspace.root,
        store=workspace.store,
        repositories=workspace.repositories,
        environ=os.environ,
        tags="",
        uid="",
        flags={},
        current="",
    )
    return workplace(_engine(engine, only_look), job, world, base, tools)


def make_image(made: ContainerDesign, say: Say, output: Say) -> None:
    """Make the image of ``made`` under its name, also where there is one; layers are reused.

    Raises ``image-failed``.
    """
    with interruptible():
        try:
            _prepare(made)
            _build(made, say, output, always=True)
        finally:
            launch.hand_over(os.path.dirname(made.job.file), made.engine.owner)


def enter(made: ContainerDesign, command: Sequence[str], *, stays: bool = False) -> int:
    """Run a command in the container of ``made``, on this terminal; its exit status.

    In the one of that name where it runs; else in a new one, which ends with the command.
    ``stays``: the new one is left for further commands, and none is run. Raises ``image-missing``,
    ``container-exists``, ``container-failed``.
    """
    engine, job = made.engine, made.job
    with interruptible():
        if not stays and launch.state(engine, job) == "running":
            return launch.run_in(engine, job, command, None, made.environ)
        if not launch.is_built(engine, job):
            raise Error("image-failed", f"there is no image {job.image}", hint="build it first")
        launch.own_folder(made.home, engine.owner)
        launch.register(os.path.join(made.home, "CM"), made.registered, engine.owner)
        if stays:
            launch.begin(engine, job, made.environ)
            return 0
        return launch.run(engine, replace(job, command=tuple(command)), None, made.environ)
