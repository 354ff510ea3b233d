"""What commands about points share: the site and the sweep that flags mean, and its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cmbench import api
from cmbench.cli.reply import Command
from cmbench_sweep import driver
from cmbench_sweep.driver import OpenSweep
from cmbench_sweep.execution_flags import execution_site
from cmbench_sweep.site_files import with_site
from cmbench_sweep.values import Sweep


def open_at(
    workspace: api.Workspace, sweep: Sweep, typed: Mapping[str, Any]
) -> tuple[driver.ExecutionSite, OpenSweep]:
    """Return where the flags ``typed`` let a sweep be measured, and the sweep, opened.

    Raises what ``with_site``, ``execution_site`` and ``open_sweep`` raise.
    """
    flags, system = with_site(workspace, typed)
    if system is None:
        return execution_site(flags), driver.open_sweep(workspace, sweep)
    sweep = replace(sweep, name=f"{sweep.name}@{system.name}", site=system.name)
    if system.scheduler == "slurm":
        site = execution_site(flags, system.environment)
        return site, driver.open_sweep(workspace, sweep)
    return execution_site(flags), driver.open_sweep(workspace, sweep, system.environment)


def sayer_of(command: Command) -> driver.Say:
    """Return what reports progress: nothing where JSON is to be alone on the output."""
    silent = command.as_json or command.options.quiet or command.options.silent
    return (lambda text: None) if silent else command.say


def screen_of(command: Command) -> api.OnEvent | None:
    """Return what shows the steps of a run; ``None`` where nothing is to be shown."""
    if not command.console or command.as_json:
        return None
    from cmbench.render.progress import screen

    return screen(command.console, command.options)
