"""The programs: ``run``, ``stop`` and ``print``, each on a JSON file.

What comes out, a failure too, is written to the file that the request names as its ``answer``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from serving.kserve import Connection, KserveError, Options, connect
from serving.kserve.stand_ins import stand_in

from . import background, foreground, server, server_log
from .container import Container, devices, usual_ports
from .errors import ServerError
from .settings import Ports
from .wanted import Wanted

Asked = Mapping[str, Any]
OPTIONS = Options(timeout=server.ASK_S)


def say(line: str) -> None:
    """One line for whoever watches."""
    print(line, flush=True)


def main(words: list[str]) -> int:
    """Do what the first word says; 0 also for a failure that the answer tells."""
    name, path = words
    asked: Asked = json.loads(Path(path).read_text(encoding="utf-8"))
    foreground.stop_on_signals()
    try:
        answer: Asked = PROGRAMS[name](asked)
    except ServerError as error:
        answer = {"failure": {"kind": error.kind, "text": str(error), "hint": error.hint}}
    except foreground.Stopped as stop:
        say(f"ended by {stop}; the server is down")
        return stop.status
    Path(asked["answer"]).write_text(json.dumps(answer, indent=2), encoding="utf-8")
    return 0


def _run(asked: Asked) -> Asked:
    """A server in the foreground, in the background, or one that is there already."""
    if asked.get("url"):
        return _use(asked)
    wanted = _wanted(asked)
    if not asked["background"]:
        # Asked for now: it may be gone by the time the server is there.
        parent = os.getppid()
        with server.running(wanted, Path(asked["folder"]), say=say) as found:
            _show(found)
            status = foreground.follow(found.kept, found.keeper, say, parent)
        text = f"the server has ended with status {status}"
        raise ServerError("server-failed", text, _log(found))
    found = server.start(wanted, background.new_place(), owned=False, say=say)
    facts = background.note(found)
    _show(found)
    say(f"end it: cm run script --tags=stop,triton-server --port={found.ports.http}")
    return facts


def _log(found: server.Server) -> str:
    return f"its whole log: {found.kept.log}"


def _wanted(asked: Asked) -> Wanted:
    ports = Ports(*asked["ports"]) if asked["ports"] else None
    keys = ("launcher", "repository", "host", "timeout_s", "engine", "image")
    # In a container the image has the launcher.
    given = {"launcher": "", **{key: asked[key] for key in keys if key in asked}}
    return Wanted(models=tuple(asked["models"]), more=tuple(asked["more"]), ports=ports, **given)


def _show(found: server.Server) -> None:
    for line in server_log.shown(found.log()):
        say(line)
    with contextlib.suppress(KserveError), connect(found.url, options=OPTIONS) as connection:
        _show_stand_ins(connection)
    say(_log(found))


def _show_stand_ins(connection: Connection) -> None:
    """Say of each model that is ready what takes the place of a device."""
    for model in connection.index():
        if model.state == server.READY and (what := stand_in(connection.config(model.name))):
            say(f"note: {model.name}: {what}")


def _use(asked: Asked) -> Asked:
    """Wait for the models of a server that is there; it is not ours to end."""
    deadline = time.monotonic() + float(asked["timeout_s"])
    try:
        with connect(asked["url"], options=OPTIONS) as connection:
            server.wait_ready(connection, asked["models"], deadline)
            told = connection.server()
            _show_stand_ins(connection)
    except KserveError as error:
        raise ServerError("server-failed", f"{asked['url']}: {error}", error.hint) from error
    say(f"{asked['url']}: {told.name} {told.version}, ready")
    return {"url": asked["url"], "grpc_url": ""}


def _stop(asked: Asked) -> Asked:
    ended = background.stop(asked.get("port"))
    for facts in ended:
        say(f"ended: the server at {facts['url']}")
    if not ended:
        say("no server of ours is in the background")
    return {"ended": [dict(facts) for facts in ended]}


def _print(asked: Asked) -> Asked:
    """The command lines of both containers."""
    import shlex

    ports = Ports(*asked["ports"]) if asked["ports"] else usual_ports()
    found = devices()
    one = Container(asked["engine"], asked["image"], asked["repository"], "triton-server", found)
    other = Container(asked["engine"], asked["sdk_image"], asked["repository"], "", ())
    lines = {
        "server": shlex.join(one.server(ports, asked["host"])),
        "client": shlex.join(other.client()),
    }
    for line in lines.values():
        say(line)
    if not found:
        say("(this machine has no Neuron device: no --device)")
    return lines


PROGRAMS: Mapping[str, Callable[[Asked], Asked]] = {"run": _run, "stop": _stop, "print": _print}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
