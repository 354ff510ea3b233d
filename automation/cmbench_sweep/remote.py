"""``cm remote-run script``: one run on another machine, with the input names of mlcflow.

It is a sweep of one point: repository, libraries and cache entries go along, the record comes back,
nothing stays there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cmbench import api
from cmbench.cli.reply import Command, Reply
from cmbench.errors import Error, did_you_mean
from cmbench.lib import ssh
from cmbench_sweep import driver
from cmbench_sweep.execution_flags import execution_site
from cmbench_sweep.hosts import LabeledHost, SshSite
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
    site, environment = _site(command, flags)
    host = site.machines[0].host
    # Faults of the request are reported before any machine is contacted.
    command.request()
    for line in _commands(flags, "pre_run_cmds"):
        _ordered(command, host, line)
    outcome, folder = _measured(command, site, environment)
    output = folder / "run-1" / "output.txt"
    text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
    command.say(text.rstrip())
    for line in _commands(flags, "post_run_cmds"):
        _ordered(command, host, line)
    if outcome.status == FAILED:
        raise Error(
            outcome.code or "points-failed",
            f"{host.name}: {outcome.reason}",
            context=[f"record: {outcome.record}"],
        )
    run = outcome.runs[0]
    data = {"host": host.name, "seconds": run.seconds, "record": run.record, "output": text}
    return Reply(data, f"ran on {host.name} in {run.seconds:.1f} s; record: {run.record}", data)


def _site(command: Command, flags: Mapping[str, Any]) -> tuple[SshSite, Mapping[str, str]]:
    """Return the machine as a site, and the variables of the run there.

    With ``--remote_site`` they are what the description of a site says, with its first host unless
    ``--remote_host`` names another one; raises ``bad-value``, ``site-not-found`` and others.
    """
    if "site" not in flags:
        return SshSite((LabeledHost(_host(flags)),)), {}
    below, system = with_site(command.workspace, {"site": flags["site"]})
    site = execution_site(below)
    if system is None or not isinstance(site, SshSite):
        hint = "a site with `scheduler: ssh` can; for the others: `cm run experiment --site=NAME`"
        raise Error("bad-value", f"--remote_site={flags['site']} has no hosts", hint=hint)
    named = {"host": site.machines[0].host.name, **flags}
    return replace(site, machines=(LabeledHost(_host(named)),)), system.environment


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


def _measured(
    command: Command, site: SshSite, environment: Mapping[str, str]
) -> tuple[PointOutcome, Path]:
    """Run the request remotely; return its outcome and the folder with its files."""
    request = {name: value for name, value in command.flags.items() if name not in _OF_OUTPUT}
    if command.names:
        request["script"] = command.names[0]
    sweep = Sweep("remote-run", request, {})
    opened = driver.open_sweep(command.workspace, sweep, environment)
    opened = driver.again(opened, [MEASURED, FAILED])
    quiet = command.as_json or command.options.quiet or command.options.silent
    say: driver.Say = (lambda text: None) if quiet else command.say
    driver.run_sweep(opened, site, say, _nothing)
    key = opened.points[0].key
    outcome = opened.store.outcome(key)
    if not outcome.done:
        raise Error(
            "sweep-unfinished",
            f"{site.machines[0].host.name} has not done it",
            hint="repeat the command to continue",
        )
    return outcome, opened.store.run_folder(key)


def _nothing(event: api.Event) -> None:
    """Report to no screen."""
