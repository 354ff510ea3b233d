"""``cm serve results`` and ``cm review results``: the server, and the person who looks."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cmbench.cli.reply import Command, Reply, refuse_bare
from cmbench.errors import Error
from cmbench.format.meta import is_true
from cmbench.lib import locks
from cmbench.lib.files import file_error
from cmbench.lib.text_files import read_or_empty

if TYPE_CHECKING:
    from cmbench_crowd_server.api import CrowdServer
    from cmbench_crowd_server.ledger import Ledger

PORT = 8502
_VALUED = {
    "address": "HOST",
    "db": "postgresql://user@host/name",
    "home": "DIR",
    "publish": "checked",
    "title": "TEXT",
    "token-file": "FILE",
    "want": "FILE",
    "why": "TEXT",
}
"""Flags that say nothing without a value, with one that they may have."""


def serve_results(command: Command) -> Reply:
    """``cm serve results``: take results of volunteers, check them, show them, until Ctrl-C.

    Raises ``tool-missing``, ``needs-token``, ``cannot-listen``, ``bad-value``, ``no-database``.
    """
    from cmbench_gui import packages

    packages.require()
    from cmbench_gui.access import is_loopback
    from cmbench_gui.server import listening

    flags = command.flags
    refuse_bare(flags, _VALUED)
    address, tokens = str(flags.get("address") or "127.0.0.1"), _tokens(flags)
    if not is_loopback(address) and tokens is None:
        raise Error(
            "needs-token",
            f"others can reach {address}: uploads need a token",
            hint="write a long random token to a private file: --token-file=FILE",
        )
    port = flags.get("port", PORT)
    if port is True or not str(port).isdigit() or int(port) > 65535:
        raise Error("bad-value", f"--port={port} is not a port", hint=f"write --port={PORT}")
    server = _opened(command, tokens)
    with alone(server.files.root.parent):
        listener = listening(address, int(port), any_port="port" not in flags)
        url = f"http://{address}:{listener.getsockname()[1]}"
        command.say(f"results of volunteers: {url}")
        if not is_loopback(address):
            command.say("others can reach this port: put TLS in front (cm serve results --proxied)")
        _serve(command, server, listener)
    return Reply({"url": url})


def _serve(command: Command, server: CrowdServer, listener: Any) -> None:
    from cmbench_crowd_server.app import create_app, serve
    from cmbench_gui.site import Site, kept_key

    home = _home(command)
    title = str(command.flags.get("title") or "results of volunteers")
    db = str(command.flags.get("db") or "")
    site = Site(home=home, key=kept_key(home), title=title, db=db, may_run=False)
    stop = server.checker.start()
    try:
        serve(create_app(site, server), listener, server.proxied)
    finally:
        stop()
        server.ledger.store.close()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the only server that works in a folder; raises ``cannot-listen``, ``not-writable``."""
    path = folder / "server.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise file_error(problem, path) from None
    try:
        if not _is_ours(handle):
            words = f"process {read_or_empty(path).strip() or 'unknown'} serves the same home"
            raise Error("cannot-listen", words, hint="end that one first, or name another --home")
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _is_ours(handle: int) -> bool:
    try:
        return locks.try_lock(handle)
    except OSError as problem:
        if problem.errno not in locks.UNSUPPORTED:
            raise
        return True


def _home(command: Command) -> str:
    path = command.flags.get("home")
    return os.path.abspath(str(path)) if path else os.path.dirname(command.workspace.root)


def _tokens(flags: Mapping[str, Any]) -> Path | None:
    file = flags.get("token_file")
    if not file:
        return None
    path = Path(str(file)).expanduser().absolute()
    try:
        words = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as problem:
        raise Error("bad-value", f"--token-file: {problem}", hint="one token a line") from None
    if not words or min(map(len, words)) < 16:
        raise Error(
            "bad-value",
            f"{path} has no token, or one with fewer than 16 characters",
            hint="`python3 -c 'import secrets; print(secrets.token_urlsafe())' > FILE`",
        )
    return path


def _opened(command: Command, tokens: Path | None = None) -> CrowdServer:
    from cmbench.session.workspace import Workspace
    from cmbench_crowd_server.api import CrowdServer
    from cmbench_crowd_server.checker import Checker
    from cmbench_crowd_server.files import Files
    from cmbench_crowd_server.ledger import Ledger
    from cmbench_gui.site import kept_key
    from cmbench_results.result_sources import SourceFiles
    from cmbench_results.store import Store

    home, flags = _home(command), command.flags
    os.makedirs(home, exist_ok=True)
    root = Path(Workspace.open(home).root)
    store = Store(SourceFiles(root), str(flags.get("db") or ""))
    ledger = Ledger(store, kept_key(home))
    files = Files(root / "crowd" / "files")
    _check_database_has_uploads(ledger, root / "crowd")
    publish = str(flags.get("publish") or "")
    if publish not in ("", "checked"):
        hint = "write --publish=checked, or leave it out: then people review first"
        raise Error("bad-value", f"--publish={publish} is not possible", hint=hint)
    checker = Checker(ledger, files, root / "crowd" / "published", trusting=bool(publish))
    return CrowdServer(ledger, files, checker, tokens, is_true(flags.get("proxied", False)))


def _check_database_has_uploads(ledger: Ledger, folder: Path) -> None:
    """Raise ``no-database`` where files were uploaded that a database without uploads lacks."""
    uploads = folder / "files"
    if uploads.is_dir() and any(uploads.iterdir()) and ledger.is_new():
        raise Error(
            "no-database",
            f"the uploads in {uploads} are not in the database, which is new",
            hint=f"restore its backup, or move {folder} away to begin without them",
        )


def review_results(command: Command) -> Reply:
    """``cm review results``: list uploads; publish or reject them, block a contributor, queue work.

    Raises ``upload-not-found``, ``wrong-state``, ``needs-input``, ``bad-value``.
    """
    flags = command.flags
    refuse_bare(flags, _VALUED)
    server = _opened(command)
    _check_words(server.ledger, flags)
    who = getpass.getuser()
    done = []
    for run in _words(flags, "accept"):
        server.checker.accept(run, who)
        done.append(f"{run} is published")
    for run in _words(flags, "reject"):
        server.checker.reject(run, who, str(flags.get("why") or ""))
        done.append(f"{run} is rejected")
    for sender in _words(flags, "block"):
        server.ledger.block(sender, who)
        done.append(f"nothing more is accepted from {sender}")
    if flags.get("want"):
        done += _queue_work(server, Path(str(flags["want"])))
    if done:
        return Reply({"done": done}, "\n".join(done))
    return _waiting(server, command.names)


def _check_words(ledger: Ledger, flags: Mapping[str, Any]) -> None:
    """Refuse a word that means nothing before anything is done."""
    for run in (*_words(flags, "accept"), *_words(flags, "reject")):
        ledger.row(run)
    for sender in _words(flags, "block"):
        ledger.check_sender(sender)


def _words(flags: Mapping[str, Any], name: str) -> list[str]:
    value = flags.get(name)
    if value is True:
        raise Error("needs-input", f"--{name} needs an id", hint=f"write --{name}=ID,ID")
    return [word for word in str(value or "").split(",") if word]


def _queue_work(server: CrowdServer, path: Path) -> list[str]:
    from cmbench_crowd_server import work

    try:
        specs = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise Error("bad-value", f"--want: {problem}", hint="a JSON list of objects") from None
    if not isinstance(specs, list) or not all(
        isinstance(s, dict) and s.get("benchmark") and s.get("scenario") for s in specs
    ):
        raise Error(
            "bad-value",
            f"{path} is not a list of work",
            hint='[{"benchmark": "bert-99", "scenario": "Offline", "backend": "onnxruntime"}]',
        )
    plain = [{str(k): str(v) for k, v in spec.items()} for spec in specs]
    return [f"wanted: {work.want(server.ledger, spec)}" for spec in plain]


def _waiting(server: CrowdServer, names: Sequence[str]) -> Reply:
    from cmbench_crowd_server import standing
    from cmbench_crowd_server.ledger import HELD, IDLE, QUARANTINE, public
    from cmbench_results.schema import crowd_run

    if names:
        rows = [server.ledger.row(name) for name in names]
    else:
        rows = server.ledger.rows(crowd_run.c.state == QUARANTINE)
    listed = [{**public(row), "claim": dict(standing.claim_of(server.ledger, row))} for row in rows]
    lines = []
    for item in listed:
        lines.append(f"{item['id']}  {item['state']}  {item['tier']}")
        lines += [f"    {name + ':':<13}{value}" for name, value in item["claim"].items()]
        applied = [c for c in item["checks"] if c["check"] != IDLE]
        applied.sort(key=lambda c: (c["passed"] is True, c["check"] != HELD))
        lines += [f"    {_mark(c['passed'])} {c['words']}" for c in applied]
        if names:
            events = server.ledger.events(item["id"])
            lines += [f"    {e['who']}: {e['what']} {e['told']}".rstrip() for e in events]
    text = "\n".join(lines) or "nothing to review"
    return Reply({"list": listed}, text, listed)


def _mark(passed: bool | None) -> str:
    return {True: "ok  ", False: "NOT ", None: "?   "}[passed]
