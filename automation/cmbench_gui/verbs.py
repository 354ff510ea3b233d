"""``cm gui script`` and ``cm gui results``: serve the pages and open a browser."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from cmbench.cli.reply import Command, Reply, refuse_unknown
from cmbench.errors import Error
from cmbench.format.meta import is_true

if TYPE_CHECKING:
    import socket

    from cmbench_gui.site import Site

PORT = 8501
OWN = ("address", "browser", "db", "port", "title", "no_browser", "no_run", "script")
_IGNORED = ("tags", "out", "quiet", "silent", "verbose", "json", "debug", "help")


def gui_script(command: Command) -> Reply:
    """``cm gui script``: compose commands, run and watch them, in a browser.

    Raises ``tool-missing``, ``cannot-listen``, ``bad-value``, ``unknown-flag``.
    """
    return _gui(command, "/")


def gui_results(command: Command) -> Reply:
    """``cm gui results``: the same server, at the page of results."""
    return _gui(command, "/results")


def _gui(command: Command, page: str) -> Reply:
    refuse_unknown(command.flags, (*OWN, *_IGNORED))
    try:
        import jinja2
        import starlette
        import uvicorn
    except ModuleNotFoundError as missing:
        raise Error(
            "tool-missing",
            f"the pages need the Python package {missing.name}, which is not installed",
            hint=f"{sys.executable} -m pip install 'cmbench[gui]'",
        ) from None
    del jinja2, starlette, uvicorn
    from cmbench_gui.guard import entrance, is_loopback
    from cmbench_gui.server import create_app, serve

    listener = _listener(command)
    site = _site(command, listener)
    app, address = create_app(site), entrance(site, page)
    command.say(f"pages of {site.home}: {address}")
    command.say("Ctrl-C ends the server; runs that it has started go on")
    if not is_loopback(site.address):
        command.say("others can reach this port, and the address lets them in: use TLS in front")
    if not is_true(command.flags.get("no_browser", False)):
        _open(site, address)
    serve(app, listener)
    return Reply({"url": address})


def _listener(command: Command) -> socket.socket:
    """The socket of ``--address`` and ``--port``; without a port, the next one that is free."""
    from cmbench_gui.server import listening

    address = str(command.flags.get("address") or "127.0.0.1")
    given = command.flags.get("port", PORT)
    if given is True or not str(given).isdigit() or int(given) > 65535:
        raise Error("bad-value", f"--port={given} is no port", hint=f"write --port={PORT}")
    return listening(address, int(given), any_port="port" not in command.flags)


def _site(command: Command, listener: socket.socket) -> Site:
    from cmbench_gui.site import Site, kept_key

    home = os.path.dirname(command.workspace.root)
    return Site(
        home=home,
        key=kept_key(home),
        repositories=tuple(each.path for each in command.workspace.repositories),
        title=str(command.flags.get("title") or "cmbench"),
        address=str(command.flags.get("address") or "127.0.0.1"),
        port=listener.getsockname()[1],
        db=str(command.flags.get("db") or ""),
        may_run=not is_true(command.flags.get("no_run", False)),
    )


def _open(site: Site, address: str) -> None:
    """Show the page in the user's browser.

    The address lets in whoever has it, and command lines can be read by all users of a machine:
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
