"""``cm gui script`` and ``cm gui results``: serve the pages and open a browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cmbench.cli.reply import Command, Reply, refuse_bare, refuse_unknown
from cmbench.errors import Error, did_you_mean
from cmbench.format.meta import is_true
from cmbench.session.workspace import Workspace
from cmbench_gui import packages

if TYPE_CHECKING:
    import socket

    from cmbench.format.model import Script
    from cmbench_gui.site import Site

PORT = 8501
OWN = ("address", "db", "port", "title", "no_browser", "no_run")
_VALUED = {"address": "HOST", "db": "postgresql://user@host/name", "title": "TEXT"}
_NOT_PRESET = (*OWN, "script", "tags", "out", "silent", "json", "debug", "help")


def gui_script(command: Command) -> Reply:
    """``cm gui script``: compose commands, run and watch them, in a browser.

    Flags that are none of its own are choices of the script that is named. Raises what
    ``start_page`` and ``serve_pages`` do.
    """
    tags, name = command.query()
    words = ",".join(filter(None, (str(command.flags.get("script") or ""), str(tags))))
    chosen = {k: v for k, v in command.flags.items() if k not in _NOT_PRESET}
    if not (words or name):
        refuse_unknown(command.flags, _NOT_PRESET)
    return _gui(command, start_page(command.workspace, words, name, chosen))


def gui_results(command: Command) -> Reply:
    """``cm gui results``: the same server, at the page of results.

    Raises what ``serve_pages`` does, and ``unknown-flag``.
    """
    refuse_unknown(command.flags, _NOT_PRESET)
    return _gui(command, "/results")


def _gui(command: Command, page: str) -> Reply:
    repositories = tuple(repository.path for repository in command.workspace.repositories)
    home = os.path.dirname(command.workspace.root)
    return Reply({"url": serve_pages(home, command.flags, page, command.say, repositories)})


def start_page(workspace: Workspace, tags: str, name: str, chosen: Mapping[str, Any]) -> str:
    """The page of the script that ``tags`` or ``name`` choose, with flags filled in; else "/".

    Raises ``script-not-found``, ``bad-value``, and ``unknown-flag`` for an unknown flag.
    """
    if not (tags or name):
        return "/"
    from urllib.parse import urlencode

    from cmbench.index.select import parse_tags

    packages.require()
    from cmbench_gui.command import ScriptNames, choice_of, flatten_flags, resolve_script
    from cmbench_gui.composer.views import address

    selection = parse_tags(tags)
    script = resolve_script(workspace, selection, name)
    _refuse_unknown(chosen, script)
    variations = [("tags", f"_{variation}") for variation in selection.variations]
    query = urlencode(choice_of(script, [*variations, *flatten_flags(chosen)]).query())
    return address(ScriptNames(workspace.index).of(script), query)


def _refuse_unknown(chosen: Mapping[str, Any], script: Script) -> None:
    """Refuse what a run of ``script`` would refuse, or take for a flag of the server."""
    from cmbench.session.request import FLAGS, unknown_inputs

    if script.dialect.inputs_bind:
        wrong = unknown_inputs((name for name in chosen if name not in FLAGS), script)
        for name, hint in wrong.items():
            words = f"{script.alias} knows no flag --{name}"
            raise Error("unknown-flag", words, hint=did_you_mean(name, OWN) or hint)


def serve_pages(
    home: str,
    flags: Mapping[str, Any],
    page: str,
    say: Callable[[str], None],
    repositories: tuple[str, ...] = (),
) -> str:
    """Serve the pages of the CM home ``home`` until Ctrl-C; return the address that was printed.

    ``flags`` are those of ``OWN``; ``page`` is shown first. Without ``repositories`` the home's
    registered ones count. Raises ``tool-missing``, ``cannot-listen``, ``bad-value``,
    ``no-database``.
    """
    packages.require()
    _check(home, flags)
    from cmbench_gui.access import entrance, is_loopback
    from cmbench_gui.server import create_app, serve

    listener = _listener(flags)
    site = _site(home, flags, listener, repositories)
    address = entrance(site, page)
    say(f"pages of {site.home}: {address}")
    say("Ctrl-C ends the server; runs that it started continue")
    if not is_loopback(site.address):
        say("others can reach this port, and the address gives access: put TLS in front of it")
    if not is_true(flags.get("no_browser", False)):
        _open(site, address)
    serve(create_app(site), listener)
    return address


def _check(home: str, flags: Mapping[str, Any]) -> None:
    """Refuse flags that lack their value, and a database that cannot be opened."""
    refuse_bare(flags, _VALUED)
    if db := str(flags.get("db") or ""):
        from cmbench_results.result_sources import SourceFiles
        from cmbench_results.store import Store

        Store(SourceFiles(Workspace.open(home).root), db).close()


def _listener(flags: Mapping[str, Any]) -> socket.socket:
    """The socket of ``--address`` and ``--port``; without a port, the next one that is free."""
    from cmbench_gui.server import listening

    address = str(flags.get("address") or "127.0.0.1")
    port = flags.get("port", PORT)
    if port is True or not str(port).isdigit() or int(port) > 65535:
        raise Error("bad-value", f"--port={port} is not a port", hint=f"write --port={PORT}")
    return listening(address, int(port), any_port="port" not in flags)


def _site(
    home: str, flags: Mapping[str, Any], listener: socket.socket, repositories: tuple[str, ...]
) -> Site:
    from cmbench_gui.site import Site, kept_key

    return Site(
        home=home,
        key=kept_key(home),
        repositories=repositories,
        title=str(flags.get("title") or "cmbench"),
        address=str(flags.get("address") or "127.0.0.1"),
        port=listener.getsockname()[1],
        db=str(flags.get("db") or ""),
        may_run=not is_true(flags.get("no_run", False)),
    )


def _open(site: Site, address: str) -> None:
    """Show the page in the user's browser.

    The address lets in everyone who has it, and all users of a machine can read command lines:
    the browser gets a file of the user's own that leads there.
    """
    import html
    import webbrowser

    path = os.path.join(site.home, "cmbench", "gui", "open.html")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(
            '<!DOCTYPE html><meta charset="utf-8"><title>cmbench</title>'
            f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">'
            f'<p><a href="{html.escape(address)}">Open the pages</a>'
        )
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
        webbrowser.open(f"file://{path}")
