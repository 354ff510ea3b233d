"""``cm show site``: the sites that can be named, and what a name stands for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.cli.reply import Command, Reply
from cmbench.errors import Error
from cmbench_sweep.site_files import (
    SiteDescription,
    SiteSystem,
    find_site,
    read_site,
    site_folders,
    site_paths,
)


def show_site(command: Command) -> Reply:
    """``cm show site [NAME|FILE]``: what the systems of a site are, or all sites.

    Raises ``site-not-found``, ``bad-site``.
    """
    if command.names:
        sites = [find_site(command.workspace, name) for name in command.names]
        data = [_plain(site) for site in sites]
        return Reply({"list": data}, "\n\n".join(map(_shown, sites)), data)
    rows = [_row(name, path) for name, path in site_paths(command.workspace).items()]
    folder = site_folders(command.workspace)[0]
    none = f"no sites yet; describe one in {folder}/NAME.yaml: docs/how-to/sites.md"
    return Reply({"list": rows}, "\n".join(map(_line, rows)) or none, rows)


def _line(row: Mapping[str, str]) -> str:
    line = f"{row['name']:<20}{row['scheduler']:<8}{row['description']}".rstrip()
    return f"{line}\n{'':<20}{row['problem']}" if row["problem"] else line


def _row(name: str, path: str) -> dict[str, str]:
    """Return a line of the list; a file with faults is in it too."""
    row = {"name": name, "scheduler": "?", "description": "", "path": path, "problem": ""}
    try:
        site = read_site(path)
    except Error as error:
        return row | {"problem": error.message}
    first = next(iter(site.systems.values()))
    return row | {"scheduler": first.scheduler, "description": site.description}


def _plain(site: SiteDescription) -> dict[str, Any]:
    systems = [
        {
            "name": system.name,
            "scheduler": system.scheduler,
            "description": system.description,
            "flags": dict(system.flags),
            "environment": dict(system.environment),
        }
        for system in site.systems.values()
    ]
    return {"name": site.name, "path": site.path, "systems": systems}


def _shown(site: SiteDescription) -> str:
    head = f"{site.name}: {site.description}" if site.description else site.name
    lines = [head, f"  {site.path}"]
    for system in site.systems.values():
        lines += ["", *_system(system, site)]
    return "\n".join(lines)


def _system(system: SiteSystem, site: SiteDescription) -> Iterator[str]:
    about = system.description if system.description != site.description else ""
    yield f"--site={system.name}" + (f"  {about}" if about else "")
    yield from (f"  {word}" for word in words_of(system.flags))
    yield from (f"  {name}={value}" for name, value in system.environment.items())


def words_of(flags: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a command line that say the same."""
    for name, value in flags.items():
        for item in value if isinstance(value, list) else [value]:
            word = f"--{name.replace('_', '-')}"
            yield word if item is True else f"{word}={shlex.quote(str(item))}"
