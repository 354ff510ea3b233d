"""One run at another place: ``cm remote-run script``, and ``--site`` of ``cm run script``.

It is a sweep of one point. For a machine that is reached by SSH, repository, libraries and cache
entries go along, the record comes back, and nothing stays there. ``cm remote-run`` has the input
names of mlcflow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cmbench import api
from cmbench.cli.reply import Command, Reply
from cmbench.cli.results import warn
from cmbench.errors import Error, did_you_mean
from cmbench.lib import ssh
from cmbench.render.plans import plan_text
from cmbench_sweep import driver, render
from cmbench_sweep.execution_flags import ELSEWHERE
from cmbench_sweep.hosts import LabeledHost, SshSite
from cmbench_sweep.opening import open_at, sayer_of, screen_of
from cmbench_sweep.site_files import with_site
from cmbench_sweep.ssh_jobs import SshHost
from cmbench_sweep.values import FAILED, MEASURED, PointOutcome, Sweep

USED = (
    "host",
    "site",
    "port",
    "user",
    "client_refresh",
    "ssh_key_file",
    "pre_run_cmds",
    "post_run_cmds",
)
REFUSED = {
    "skip_host_verify": ("host keys are always checked", "connect once by hand: ssh HOST"),
    "password": ("others would see it", "copy your key there once: ssh-copy-id HOST"),
}
WITHOUT_EFFECT = (
    *("copy_directory", "copy_mlc_repos", "mlc_repos_path", "pull_mlc_repos", "python_venv"),
    *("shell", "action"),
)
"""What mlcflow needs to have its repositories and a virtual environment there: they go along."""


_OF_OUTPUT = ("out", "json", "quiet", "silent", "verbose")


def remote_run(command: Command) -> Reply:
    """Run a script on ``--remote_host``; raises ``ssh-failed``, ``points-failed`` and others."""
    flags = {
        name.removeprefix("remote_"): command.flags.pop(name)
        for name in list(command.flags)
        if name.startswith("remote_")
    }
    # Faults of the request are reported before any machine is contacted.
    command.request()
    site, opened = _hosts(command, flags)
    host = site.machines[0].host
    for line in _commands(flags, "pre_run_cmds"):
        _ordered(command, host, line)
    reply = _measured(command, site, opened)
    for line in _commands(flags, "post_run_cmds"):
        _ordered(command, host, line)
    return reply


def run_at_site(command: Command) -> Reply:
    """``cm run script … --site=NAME``: one run at a site, with its setup.

    Flags of the site's scheduler may follow, as for a sweep. Raises ``site-not-found``,
    ``bad-site``, ``points-failed`` and others.
    """
    site, opened = _at_site(command)
    return _measured(command, site, opened)


def plan_at_site(command: Command) -> Reply:
    """``cm plan script … --site=NAME``: the steps, and the job that would be submitted there."""
    site, opened = _at_site(command)
    key = opened.points[0].key
    # What an earlier run has measured is measured again.
    store = opened.store.replacing({key: opened.store.version(key)})
    jobs = site.preview(replace(opened, store=store))
    planned = api.plan(command.request())
    warn(command, planned.warnings)
    data = {
        **planned.data(),
        "jobs": [{"submit": words, "script": text} for words, text in jobs],
    }
    why = bool(command.flags.get("why"))
    return Reply(
        {"plan": data},
        lambda: plan_text(planned.plan, planned.totals, why) + render.submitted(jobs),
        data,
    )


def _at_site(command: Command) -> tuple[driver.ExecutionSite, driver.OpenSweep]:
    """Return the site that a command names, and its run as a sweep of one point."""
    typed = command.flags
    site = {"site": typed.pop("site")}
    names = [name for name in typed if name in (*ELSEWHERE, "on", "executor")]
    own = {name: typed.pop(name) for name in names if not _is_input(command, name)}
    request, sweep = command.request(), _sweep(command)
    _, system = with_site(command.workspace, site)
    if system and system.scheduler != "ssh":
        sweep = replace(sweep, request=_with_paths(sweep.request, request))
    return open_at(command.workspace, sweep, {**own, **site})


def _is_input(command: Command, name: str) -> bool:
    """Return whether the script of a command has an input of this name."""
    bare = api.request(command.workspace, *command.names[:1], tags=command.flags.get("tags", ""))
    return name in bare.script.inputs


def _hosts(command: Command, flags: Mapping[str, Any]) -> tuple[SshSite, driver.OpenSweep]:
    """Return the machine as a site, and the run there as a sweep of one point.

    With ``--remote_site`` they are what the description of a site says, with its first host unless
    ``--remote_host`` names another one; raises ``bad-value``, ``site-not-found`` and others.
    """
    sweep = _sweep(command)
    if "site" not in flags:
        opened = driver.open_sweep(command.workspace, sweep)
        return SshSite((LabeledHost(_host(flags)),)), opened
    site, opened = open_at(command.workspace, sweep, {"site": flags["site"]})
    if not isinstance(site, SshSite):
        hint = f"run it there by its scheduler: `cm run script ... --site={flags['site']}`"
        raise Error("bad-value", f"--remote_site={flags['site']} has no hosts", hint=hint)
    named = {"host": site.machines[0].host.name, **flags}
    return replace(site, machines=(LabeledHost(_host(named)),)), opened


def _sweep(command: Command) -> Sweep:
    """Return the run of a command as a sweep of one point."""
    point = {name: value for name, value in command.flags.items() if name not in _OF_OUTPUT}
    if command.names:
        point["script"] = command.names[0]
    return Sweep("remote-run", point, {})


def _with_paths(point: Mapping[str, Any], request: api.RunRequest) -> dict[str, Any]:
    """Return the flags of a run with absolute paths: its nodes have the files of this machine."""
    absolute = {name: request.request.inputs.get(name, value) for name, value in point.items()}
    return {**absolute, "path": request.request.path} if request.request.path else absolute


def _host(flags: Mapping[str, Any]) -> SshHost:
    """Return the requested machine; raise ``unknown-flag``, ``bad-value``."""
    for name, value in flags.items():
        _check(name, value)
    words = []
    for name, start in (("port", "-p"), ("ssh_key_file", "-i")):
        if flags.get(name):
            words += [start, os.path.expanduser(str(flags[name]))]
    if flags.get("client_refresh"):
        words += ["-o", f"ServerAliveInterval={flags['client_refresh']}"]
    name = str(flags.get("host") or "localhost")
    return SshHost(f"{flags['user']}@{name}" if flags.get("user") else name, words)


def _check(name: str, value: object) -> None:
    """Refuse a flag that is not known, or not possible; ``name`` is without ``remote_``."""
    names = (*USED, *REFUSED, *WITHOUT_EFFECT)
    if name not in names:
        near = did_you_mean(f"remote_{name}", [f"remote_{flag}" for flag in names])
        raise Error("unknown-flag", f"--remote_{name} is not known", hint=near)
    if name in REFUSED and value not in ("", False, "no"):
        why, remedy = REFUSED[name]
        raise Error("bad-value", f"--remote_{name} is not possible: {why}", hint=remedy)
    if name == "action" and value != "run":
        hint = "for a sweep, use `cm run experiment --on=ssh`"
        raise Error("bad-value", f"--remote_action={value} is not possible", hint=hint)


def _commands(flags: Mapping[str, Any], name: str) -> list[str]:
    value = flags.get(name) or []
    return [str(line) for line in value] if isinstance(value, list) else [str(value)]


def _ordered(command: Command, host: SshHost, line: str) -> None:
    """Run a line of the user's own there."""
    done = ssh.call([*ssh.connection(host.name, host.options), line])
    text = (done.stdout + done.stderr).decode("utf-8", "replace").rstrip()
    if done.returncode == ssh.UNREACHED:
        raise ssh.connection_error(host.name, done.stderr, host.options)
    command.say(text)
    if done.returncode:
        raise Error(
            "script-failed",
            f"{host.name}: a command ended with status {done.returncode}: {line}",
            context=text.splitlines()[-6:],
        )


def _measured(command: Command, site: driver.ExecutionSite, opened: driver.OpenSweep) -> Reply:
    """Run the only point of a sweep at a site; raise ``points-failed`` and others."""
    opened = driver.again(opened, [MEASURED, FAILED])
    done = driver.run_sweep(opened, site, sayer_of(command), screen_of(command))
    key = opened.points[0].key
    outcome = opened.store.outcome(key)
    if not outcome.done:
        hint = done.advice or "repeat the command to continue"
        raise Error("sweep-unfinished", "the run has not been done", hint=hint)
    return _reply(command, outcome, opened.store.run_folder(key) / "run-1")


def _reply(command: Command, outcome: PointOutcome, folder: Path) -> Reply:
    """Show what a run has printed, and return how it went; raise why it has failed."""
    output = folder / _OUTPUT
    text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
    command.say("\n".join(filter(None, [text.rstrip(), *_given_back(outcome), *fetched(folder)])))
    if outcome.status == FAILED:
        raise Error(
            outcome.code or "points-failed",
            f"{outcome.host}: {outcome.reason}",
            context=[f"record: {outcome.record}"],
        )
    run = outcome.runs[0]
    data = {
        "host": run.host,
        "seconds": run.seconds,
        "record": run.record,
        "output": text,
        "folder": str(folder),
    }
    return Reply(data, f"ran on {run.host} in {run.seconds:.1f} s; record: {run.record}", data)


def fetched(folder: Path) -> list[str]:
    """Return a line about the files that a run has left in its folder; none for its output."""
    left = any(path.name != _OUTPUT for path in folder.iterdir()) if folder.is_dir() else False
    return [f"files of the run: {folder}"] if left else []


_OUTPUT = "output.txt"


def _given_back(outcome: PointOutcome) -> list[str]:
    """Return what a run has given back, as its record has it, one key a line."""
    try:
        record = json.loads(Path(outcome.runs[0].record).read_text(encoding="utf-8"))
        values: Mapping[str, Any] = record["steps"][-1]["new_env"]
    except (OSError, ValueError, LookupError):
        return []
    return [f"{key}={value}" for key, value in values.items()]
