"""The verbs of ``cm … experiment``: parse, query, render."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cmbench import api
from cmbench.cli.reply import Command, Reply, refuse_unknown
from cmbench.errors import Error, did_you_mean
from cmbench.lib.ssh import check_name
from cmbench.lib.text_files import listed
from cmbench_sweep import driver, render
from cmbench_sweep.driver import OpenSweep
from cmbench_sweep.reading import read_sweep
from cmbench_sweep.report import best, effects, frontier, report
from cmbench_sweep.store import PointStore, decode
from cmbench_sweep.values import (
    FAILED,
    MEASURED,
    OPEN,
    PointOutcome,
    Sweep,
    SweepPoint,
)

if TYPE_CHECKING:
    from cmbench_sweep.clusters import JobContainer

_COMMON = ("sweep", "name", "out", "json", "quiet", "silent", "verbose", "debug", "help")
_OF_RUNS = ("retry_failed", "new", "complete", "on", "executor", "labels")
_OF_EXPLORATION = ("tags", "explore", "dir")
_OF_SBATCH = (
    *("partition", "account", "qos", "constraint", "gres", "time", "mem", "cpus_per_task"),
    *("reservation", "nodelist", "exclude"),
)
_CONTAINERS = ("apptainer", "singularity")
_MODULES = (
    "type module >/dev/null 2>&1 || for init in /etc/profile.d/*{modules,lmod}*.sh;"
    ' do [ -r "$init" ] && . "$init"; done'
)
"""Defines ``module`` where the shell of the user has not handed it on."""
_OF_SLURM = (
    *_OF_SBATCH,
    *("sbatch", "throttle", "modules", "setup", "share_nodes", "scratch", *_CONTAINERS),
)
_OF_RAY = ("ray", "scratch")
_OF_SSH = ("hosts", "folder", "keep", "wheels", "patience")
_PLACES = {"slurm": _OF_SLURM, "ssh": _OF_SSH, "ray": _OF_RAY}
_ELSEWHERE = tuple(name for names in _PLACES.values() for name in names)


def run_experiment(command: Command) -> Reply:
    """``cm run experiment``: measure a sweep file, or go through a command line as CM does.

    Raises ``bad-sweep``, ``points-failed`` and others.
    """
    if not command.flags.get("sweep"):
        from cmbench_sweep.explore import explore

        if not command.rest:
            own = {name for name in command.flags if name.split(".")[0] in _OF_EXPLORATION}
            refuse_unknown(command.flags, (*_COMMON, *_OF_RUNS, *_ELSEWHERE, *own))
        return explore(command)
    refuse_unknown(command.flags, (*_COMMON, *_OF_RUNS, *_ELSEWHERE, "docker"))
    site = _place(command.flags)
    opened = _opened(command)
    redone = [
        name
        for name, flag in ((FAILED, "retry_failed"), (MEASURED, "new"))
        if command.flags.get(flag)
    ]
    lacking = bool(command.flags.get("complete"))
    say = _sayer(command)
    if redone or lacking:
        opened = driver.again(opened, redone, lacking)
        others = driver.shared_with(opened)
        if others:
            say(f"some points are of other sweeps too, which get the new results: {listed(others)}")
    opened = driver.run_sweep(opened, site, say, _screen(command))
    outcomes = opened.outcomes()
    reply = _reply(opened.sweep, opened.points, outcomes)
    return Reply(reply.answer, reply.text, reply.data, _failure(opened, outcomes))


def replay_experiment(command: Command) -> Reply:
    """``cm replay experiment NAME``: run a recorded command line again, as CM does.

    Raises ``sweep-not-found``, ``points-failed`` and others.
    """
    from cmbench_sweep.explore import replay

    refuse_unknown(command.flags, (*_COMMON, "tags", "dir", "uid"))
    return replay(command)


def plan_experiment(command: Command) -> Reply:
    """``cm plan experiment --sweep=FILE``: its points, their state, the steps to prepare.

    With the flags of a cluster, also what would be submitted. Raises ``needs-input``,
    ``bad-sweep``, ``unknown-flag`` and others.
    """
    refuse_unknown(command.flags, (*_COMMON, "on", "executor", "labels", *_ELSEWHERE))
    if not command.flags.get("sweep"):
        raise Error("needs-input", "no sweep is named", hint="write --sweep=FILE")
    site = _place(command.flags)
    opened = _opened(command)
    seen = driver.foresee(opened)
    jobs = site.preview(opened)
    data = {
        "name": opened.sweep.name,
        "points": [render.data_of(point, seen.known[point.key]) for point in opened.points],
        "measured": seen.count(MEASURED),
        "failed": seen.count(FAILED),
        "prepare": [asdict(step) for step in seen.preparation.steps],
        "point_seconds": seen.point_seconds,
        "jobs": [{"submit": words, "script": text} for words, text in jobs],
    }
    return Reply({"plan": data}, lambda: render.foreseen(seen) + render.submitted(jobs), data)


def show_experiment(command: Command) -> Reply:
    """``cm show experiment NAME``: its points, frontier, effects; without a name, all sweeps.

    Raises ``sweep-not-found``, ``no-results``, ``bad-value``.
    """
    store = PointStore(command.workspace.root)
    names = command.names
    if not names:
        return _names(store)
    sweep, points = sweep_from(store.stored_sweep(names[0]))
    outcomes = store.outcomes(points)
    sweep_report = report(sweep, points, outcomes)
    flags = command.flags
    if flags.get("effects"):
        figure = sweep_report.figure("" if flags["effects"] is True else str(flags["effects"]))
        rows = effects(sweep_report, figure)
        return Reply({}, lambda: render.effects(rows, figure), [asdict(e) for e in rows])
    if flags.get("frontier"):
        return _frontier(command, sweep, points)
    if flags.get("best"):
        return _best(command, sweep, points)
    return _reply(sweep, points, outcomes)


def _frontier(command: Command, sweep: Sweep, points: tuple[SweepPoint, ...]) -> Reply:
    x, comma, y = str(command.flags["frontier"]).partition(",")
    if not comma:
        raise Error(
            "bad-value",
            "--frontier names no two figures",
            hint="write --frontier=throughput,latency_p99",
        )
    outcomes = PointStore(command.workspace.root).outcomes(points)
    sweep_report = report(sweep, points, outcomes)
    entries = frontier(sweep_report, x, y)
    data = [render.data_of(entry.point, entry.outcome) for entry in entries]
    return Reply({"list": data}, lambda: "\n".join(render.table(sweep_report, entries)), data)


def _best(command: Command, sweep: Sweep, points: tuple[SweepPoint, ...]) -> Reply:
    sweep_report = report(sweep, points, PointStore(command.workspace.root).outcomes(points))
    figure = command.flags["best"]
    top = best(sweep_report, "" if figure is True else str(figure))
    if top is None:
        raise Error("no-results", "no point satisfies the constraints", hint="relax them")
    data = render.data_of(top.point, top.outcome)
    return Reply({"best": data}, data["command"], data)


def _names(store: PointStore) -> Reply:
    rows = []
    for name in store.names():
        points = sweep_from(store.stored_sweep(name))[1]
        outcomes = store.outcomes(points).values()
        rows.append(
            {"name": name, "points": len(points)}
            | {status: sum(o.status == status for o in outcomes) for status in (MEASURED, FAILED)}
        )
    lines = [f"{r['measured']:>7} of {r['points']:<7} {r['name']}" for r in rows]
    text = "\n".join(lines) or "no sweeps yet; measure one: cm run experiment --sweep=FILE"
    return Reply({"list": rows}, text, rows)


def sweep_from(stored: Mapping[str, Any]) -> tuple[Sweep, tuple[SweepPoint, ...]]:
    """Return a sweep and its points as they were kept; raise ``sweep-not-found``."""
    try:
        points = tuple(decode(SweepPoint, point) for point in stored["points"])
        return decode(Sweep, stored["sweep"]), points
    except (KeyError, TypeError, ValueError) as problem:
        raise Error(
            "sweep-not-found",
            f"the stored data of a sweep cannot be read: {problem}",
            hint="to store it again: `cm run experiment --sweep=FILE`",
        ) from None


def _opened(command: Command) -> OpenSweep:
    path = command.flags["sweep"]
    if path is True:
        raise Error("bad-value", "--sweep needs a file", hint="write --sweep=FILE")
    name = command.flags.get("name")
    sweep = read_sweep(str(path), str(name) if name and name is not True else "")
    return driver.open_sweep(command.workspace, sweep)


def _place(flags: Mapping[str, Any]) -> driver.ExecutionSite:
    """Return the site: this machine, a cluster, hosts; raise ``bad-value`` and others."""
    on = str(flags.get("on") or flags.get("executor") or _implied(flags))
    if on not in ("local", *_PLACES):
        hint = did_you_mean(on, ("local", *_PLACES)) or "write --on=slurm, ssh or ray"
        raise Error("bad-value", f"--on={on} is not possible", hint=hint)
    _check_flags(on, flags)
    if on == "slurm":
        return _slurm(flags)
    if on == "ray":
        return _ray(flags)
    if on == "ssh":
        return _hosts(flags)
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
        for name in (name for name in names if name in flags):
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


def _slurm(flags: Mapping[str, Any]) -> driver.ExecutionSite:
    """Return a cluster under Slurm with the options of the flags."""
    from cmbench_sweep.clusters import ClusterSite
    from cmbench_sweep.slurm import SbatchOptions, SlurmCluster

    wish = SbatchOptions(
        {name: str(flags[name]) for name in _OF_SBATCH if flags.get(name)},
        exclusive=not flags.get("share_nodes"),
        more=tuple(_split_words(flags.get("sbatch"))),
        throttle=_number("throttle", flags.get("throttle")),
        setup=(*_modules(flags.get("modules")), *_lines(flags.get("setup"))),
        scratch=str(flags.get("scratch") or ""),
    )
    requested = {name: str(flags[name]) for name in _OF_SLURM if flags.get(name)}
    return ClusterSite(SlurmCluster(wish, _container(flags, wish.asks_for_gpus), requested))


def _lines(value: Any) -> list[str]:
    """Return the lines of a flag that may be written more than once, or with ``,=``."""
    return [str(line) for line in (value if isinstance(value, list) else [value]) if line]


def _modules(value: Any) -> list[str]:
    """Return the line that loads the environment modules of ``--modules=A,B``; none for none."""
    names = [name for line in _lines(value) for name in line.split(",") if name]
    return [_MODULES, f"module load {shlex.join(names)} || exit 1"] if names else []


def _split_words(value: Any) -> list[str]:
    """Return the words of ``--sbatch``; raise ``bad-value``."""
    try:
        return [word for line in _lines(value) for word in shlex.split(line)]
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
    from cmbench_sweep.clusters import JobContainer

    program = next((name for name in _CONTAINERS if flags.get(name)), "")
    if not program:
        return None
    image = str(flags[program])
    if "://" not in image and not os.path.exists(image):
        raise Error(
            "file-not-found",
            f"--{program}={image} does not exist",
            hint="name an image (.sif), an unpacked one, or docker://NAME",
        )
    return JobContainer(program, image if "://" in image else os.path.abspath(image), gpus)


def _sayer(command: Command) -> driver.Say:
    """Return what reports progress: nothing where JSON is to be alone on the output."""
    silent = command.as_json or command.options.quiet or command.options.silent
    return (lambda text: None) if silent else command.say


def _screen(command: Command) -> api.OnEvent | None:
    if not command.console or command.as_json:
        return None
    from cmbench.render.progress import screen

    return screen(command.console, command.options)


def _reply(sweep: Sweep, points: tuple[SweepPoint, ...], outcomes: Mapping[str, Any]) -> Reply:
    sweep_report = report(sweep, points, outcomes)
    data = {
        "name": sweep.name,
        "points": [render.data_of(point, outcomes[point.key]) for point in points],
    }
    return Reply(data, lambda: render.shown(sweep_report, points, outcomes), data)


def _failure(opened: OpenSweep, outcomes: Mapping[str, PointOutcome]) -> Error | None:
    failed = [key for key, outcome in outcomes.items() if outcome.status == FAILED]
    left = [key for key, outcome in outcomes.items() if outcome.status == OPEN]
    # Points that are left to measure again have their old results for all other callers.
    before = PointStore(opened.workspace.root)
    if failed:
        again = any(before.outcome(key).status == MEASURED for key in failed)
        hint = f"their reasons are kept: `cm show experiment {opened.sweep.name}`"
        hint += "\nagain: add --retry-failed"
        return Error(
            "points-failed",
            f"{len(failed)} of {len(opened.points)} points have failed",
            hint="the results that they had before stay" if again else hint,
        )
    if left:
        again = any(before.outcome(key).done for key in left)
        stays = "the results that they had before stay; " if again else ""
        return Error(
            "sweep-unfinished",
            f"{len(left)} of {len(opened.points)} points are still to do",
            hint=f"{stays}repeat the command to continue",
        )
    return None
