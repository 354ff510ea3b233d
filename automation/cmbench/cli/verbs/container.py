"""``cm docker script``: the run that ``cm run script`` would be, in a container."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from cmbench.container import launch
from cmbench.container import options as options_in
from cmbench.container.design import Design, World, design
from cmbench.container.engines import (
    Engine,
    Job,
    build_command,
    find_engine,
    results_owner,
    run_commands,
    shown_environment,
)
from cmbench.errors import Error
from cmbench.format.env import mask_word
from cmbench.format.meta import is_true
from cmbench.format.model import Request, Script
from cmbench.plan.node import Plan
from cmbench.render.progress import Silent
from cmbench.run.scheduler import FactTeller
from cmbench.run.step import StepRunner
from cmbench.session import request as requests_in
from cmbench.session.session import Answer, Session

WIDTH = 80


def docker_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm docker script``: makes an image for the plan and runs the same command in it.

    ``--print`` shows what would be made and run, and does neither.
    """
    session = Session(cmind, i, write=not i.get("print"))
    if session.flags.get("help") and not (i.get("tags") or i.get("artifact")):
        return _help(i)
    own, request, script = _call(session)
    if session.flags.get("help"):
        return _help(i)
    only_print = is_true(session.flags.pop("print", False))
    made = _design(session, own, request, script, only_print)
    answer = _data(made)
    talks = i.get("out") == "con" and not session.options.silent
    if only_print:
        if i.get("out") == "con":
            print(_printed(made))
        return answer
    if talks:
        print(_summary(made), flush=True)
    _check_terminal(made)
    return {**answer, **_go(session, made, talks)}


def _call(session: Session) -> tuple[dict[str, Any], Request, Script]:
    """The flags of containers, and the request without them; ``session`` keeps the others."""
    from cmbench.index.select import choose, refuse_ambiguity

    session.take_extra_flags()
    tags, uid = requests_in.tags_of(session.i)
    refuse_ambiguity(session.index, tags, uid)
    script = session.index.script(choose(session.index, tags, uid).path)
    own, others = options_in.split_flags(session.flags, script.inputs)
    session.flags = others
    asked = {key: value for key, value in others.items() if key != "print"}
    request = requests_in.request_of(asked, tags, uid, script)
    return own, request, script


def _design(
    session: Session, own: Mapping[str, Any], request: Request, script: Script, only_print: bool
) -> Design:
    plan = _plan(session, request)
    options = options_in.options(own, options_in.declared(plan.frame))
    tags, uid = requests_in.tags_of(session.i)
    world = World(
        root=session.root,
        store=session.store,
        repositories=session.repositories,
        environ=os.environ,
        tags=str(tags),
        uid=uid,
        flags=_of_the_script(session, script),
        current=os.getcwd(),
        offline=session.options.offline,
    )
    engine = _engine(options.engine, only_print)
    return design(engine, options, plan, request, world)


def _of_the_script(session: Session, script: Script) -> dict[str, Any]:
    skip = {"artifact", "artifacts"} - set(script.inputs)
    return {key: value for key, value in session.flags.items() if key not in skip}


def _engine(asked: str, only_print: bool) -> Engine:
    try:
        return find_engine(asked, os.environ)
    except Error as error:
        if not only_print or error.code != "no-engine":
            raise
        name = {"singularity": "apptainer"}.get(asked, asked) or "docker"
        return Engine(name, name, "(cannot be used here)", owner=results_owner(os.environ))


def _plan(session: Session, request: Request) -> Plan:
    from cmbench.cli.verbs.plan import make_plan
    from cmbench.cli.verbs.run import make_resolver, open_lock

    runner = StepRunner(Silent(None), None, True, False, session.cmind, session.words)
    facts = FactTeller(runner, os.devnull)
    resolver = make_resolver(session, facts, open_lock(session))
    return make_plan(session, request, facts, resolver)


def _check_terminal(made: Design) -> None:
    if made.job.interactive and not sys.stdin.isatty():
        raise Error(
            "bad-value",
            "--docker_it needs a terminal, and there is none",
            hint="leave it out: the command runs and its output is shown",
        )


# ---------------------------------------------------------------- doing it


def _go(session: Session, made: Design, talks: bool) -> Answer:
    from cmbench.cli.verbs.run import interruptible

    with interruptible():
        try:
            _prepare(session, made)
            _build(session, made, talks)
        finally:
            launch.hand_over(os.path.dirname(made.job.file), made.engine.owner)
        return _run(made, session.i.get("out") == "con")


def _prepare(session: Session, made: Design) -> None:
    owner = made.engine.owner
    launch.own_folder(made.home, owner)
    launch.register(os.path.join(made.home, "CM"), made.registered, owner)
    for folder in made.folders.make:
        launch.own_folder(folder, owner)
    launch.write_files(made.job, made.text)
    if made.baked:
        launch.bake(session.store, made.baked, made.job.context)


def _build(session: Session, made: Design, talks: bool) -> None:
    if not made.job.rebuild and launch.is_built(made.engine, made.job):
        if talks:
            print("the image is there already\n", flush=True)
        return
    log = os.path.join(os.path.dirname(made.job.file), "build.log")
    if talks:
        print(f"building the image; what the engine says goes to\n  {log}", flush=True)
    shown = talks and session.options.verbose
    seconds = launch.build(made.engine, made.job, log, print if shown else _nothing)
    if talks:
        print(f"the image was built in {seconds:.0f} s\n", flush=True)


def _nothing(line: str) -> None:
    """For whoever does not want to see the line."""


def _run(made: Design, terminal: bool) -> Answer:
    lines: list[str] = []
    say = None if terminal else lines.append
    status = launch.run(made.engine, made.job, say, made.environ)
    if status != 0:
        raise _failed(made, status, lines)
    return {"output": lines} if lines else {}


def _failed(made: Design, status: int, lines: list[str]) -> Error:
    name = made.engine.name
    context = lines[-8:]
    if status in (125, 126, 127):
        other = "buildah" if name == "podman" else "podman"
        return Error(
            "container-failed",
            f"{name} could not start the container (exit status {status})",
            hint=launch.cause_of("\n".join(lines))
            or f"its own message says why; or try another engine: --docker_engine={other}",
            context=context,
        )
    return Error(
        "container-failed",
        f"the command in the container ended with status {status}",
        hint="its own message says why; --docker_it opens a shell in the container after the run",
        context=context,
        exit_code=status if 0 < status < 256 else 1,
    )


# ---------------------------------------------------------------- showing it


def _data(made: Design) -> Answer:
    job = made.job
    return {
        "return": 0,
        "engine": made.engine.name,
        "image": job.image,
        "containerfile": made.text,
        "file": job.file,
        "user": made.engine.user,
        "mounts": [
            {"source": m.source, "target": m.target, "mode": m.mode, "why": m.why}
            for m in job.mounts
        ],
        "handed": list(job.handed),
        "command": [mask_word(word) for word in job.command],
        "commands": [list(map(mask_word, words)) for words in _commands(made)],
        "notes": list(made.notes),
    }


def _commands(made: Design) -> list[list[str]]:
    return [build_command(made.engine, made.job), *run_commands(made.engine, made.job)]


def _summary(made: Design) -> str:
    job, engine = made.job, made.engine
    rows = [("engine", f"{engine.name} {engine.version}"), ("image", job.image)]
    rows += [("base", made.base), ("user", engine.user)]
    lines = [f"{title:<9}{text}" for title, text in rows]
    for number, mount in enumerate(job.mounts):
        lines += _mount_lines("mounts" if number == 0 else "", mount)
    lines.append(f"{'folder':<9}{job.work}")
    if _rights(job):
        lines += _wrapped("also", ", ".join(_rights(job)))
    if job.handed:
        lines += _wrapped("handed on", ", ".join(job.handed))
    lines.append(f"{'command':<9}{_shell(job.command)}")
    for note in made.notes:
        lines += _wrapped("note", note)
    return "\n".join([*lines, ""])


def _rights(job: Job) -> list[str]:
    """What else of this machine the container is given."""
    found = ["all privileges"] if job.privileged else []
    found += [f"GPUs: {job.gpus}"] if job.gpus else []
    found += [f"device {device}" for device in job.devices]
    found += [f"port {port}" for port in job.ports]
    found += [f"network {job.network}"] if job.network else []
    return [*found, *([shlex.join(job.extra)] if job.extra else [])]


def _mount_lines(title: str, mount: Any) -> Iterable[str]:
    place = mount.target
    why = mount.why if mount.source == place else f"{mount.why}: {mount.source}"
    line = f"{title:<9}{mount.mode} {place}"
    if len(line) + len(why) + 4 <= WIDTH:
        yield f"{line}  ({why})"
        return
    yield line
    yield f"{'':<12}({why})"


def _wrapped(title: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{title:<9}" if len(title) < 9 else title + " ",
        subsequent_indent=" " * 9,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _printed(made: Design) -> str:
    front = shown_environment(made.engine, made.job)
    commands = []
    for number, words in enumerate(_commands(made)):
        text = _shell(words)
        commands.append(" ".join([*front, text]) if front and number == 1 else text)
    return "\n".join(
        [
            _summary(made),
            f"-- {made.job.file}",
            made.text,
            "-- commands; nothing was written and nothing was started",
            *commands,
        ]
    )


def _shell(words: Iterable[str]) -> str:
    """Words as a shell would be given them, without secrets."""
    return shlex.join(mask_word(word) for word in words)


def _help(i: Mapping[str, Any]) -> Answer:
    if i.get("out") == "con":
        print("cm docker script --tags=... [the flags of cm run script]\n")
        lines = [("--print", "only show the Containerfile, the mounts, the commands")]
        lines += [(f"--docker_{name}", text) for name, text in options_in.FLAGS.items()]
        for name, text in lines:
            print("\n".join(_entry(name, text)))
        print("\n--engine and --base_image may be written without docker_.")
    return {"return": 0, "flags": dict(options_in.FLAGS)}


def _entry(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {name:<28}",
        subsequent_indent=" " * 30,
        break_long_words=False,
    )
