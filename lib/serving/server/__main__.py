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

from common.problems import Problem
from serving.kserve import Connection, ConnectionOptions, KserveError, connect
from serving.kserve.stand_ins import stand_in

from . import background, foreground, server, server_log
from .container import ServerContainer, devices, usual_ports
from .server_spec import ServerSpec
from .settings import Ports

ProgramRequest = Mapping[str, Any]
OPTIONS = ConnectionOptions(timeout=server.ASK_S)


def say(line: str) -> None:
    """Print one line of progress."""
    print(line, flush=True)


def main(words: list[str]) -> int:
    """Run the command of the first word; return 0 also for a failure in the answer."""
    name, path = words
    request: ProgramRequest = json.loads(Path(path).read_text(encoding="utf-8"))
    foreground.stop_on_signals()
    try:
        answer: ProgramRequest = PROGRAMS[name](request)
    except Problem as error:
        answer = error.answer()
    except foreground.StopSignal as stop:
        say(f"ended by {stop}; the server is down")
        return stop.status
    Path(request["answer"]).write_text(json.dumps(answer, indent=2), encoding="utf-8")
    return 0


def _run(request: ProgramRequest) -> ProgramRequest:
    """Return a server in the foreground, in the background, or one that is there already."""
    if request.get("url"):
        return _use(request)
    wanted = _server_spec(request)
    if not request["background"]:
        # Asked for now: it may be gone by the time the server is there.
        parent = os.getppid()
        with server.running(wanted, Path(request["folder"]), say=say) as started:
            _show(started)
            status = foreground.follow(started.kept, started.keeper, say, parent)
        text = f"the server has ended with status {status}"
        raise Problem("server-failed", text, _log(started))
    started = server.start(wanted, background.new_place(), owned=False, say=say)
    facts = background.note(started)
    _show(started)
    say(f"end it: cm run script --tags=stop,triton-server --port={started.ports.http}")
    return facts


def _log(started: server.RunningServer) -> str:
    return f"its whole log: {started.kept.log}"


def _server_spec(request: ProgramRequest) -> ServerSpec:
    ports = Ports(*request["ports"]) if request["ports"] else None
    keys = ("launcher", "repository", "host", "timeout_s", "engine", "image")
    # In a container the image has the launcher.
    options = {"launcher": "", **{key: request[key] for key in keys if key in request}}
    return ServerSpec(
        models=tuple(request["models"]), more=tuple(request["more"]), ports=ports, **options
    )


def _show(started: server.RunningServer) -> None:
    for line in server_log.shown(started.log()):
        say(line)
    with contextlib.suppress(KserveError), connect(started.url, options=OPTIONS) as connection:
        _show_stand_ins(connection)
    say(_log(started))


def _show_stand_ins(connection: Connection) -> None:
    """Print the stand-in for a device of every ready model."""
    for model in connection.index():
        if model.state == server.READY and (what := stand_in(connection.config(model.name))):
            say(f"note: {model.name}: {what}")


def _use(request: ProgramRequest) -> ProgramRequest:
    """Wait for the models of a server that is there; it is not ours to end."""
    deadline = time.monotonic() + float(request["timeout_s"])
    try:
        with connect(request["url"], options=OPTIONS) as connection:
            server.wait_ready(connection, request["models"], deadline)
            metadata = connection.server()
            _show_stand_ins(connection)
    except KserveError as error:
        raise Problem("server-failed", f"{request['url']}: {error}", error.hint) from error
    say(f"{request['url']}: {metadata.name} {metadata.version}, ready")
    return {"url": request["url"], "grpc_url": ""}


def _stop(request: ProgramRequest) -> ProgramRequest:
    ended = background.stop(request.get("port"))
    for facts in ended:
        say(f"ended: the server at {facts['url']}")
    if not ended:
        say("no server of ours is in the background")
    return {"ended": [dict(facts) for facts in ended]}


def _print(request: ProgramRequest) -> ProgramRequest:
    """Return the command lines of both containers."""
    import shlex

    ports = Ports(*request["ports"]) if request["ports"] else usual_ports()
    neurons = devices()
    one = ServerContainer(
        request["engine"], request["image"], request["repository"], "triton-server", neurons
    )
    other = ServerContainer(request["engine"], request["sdk_image"], request["repository"], "", ())
    lines = {
        "server": shlex.join(one.server(ports, request["host"])),
        "client": shlex.join(other.client()),
    }
    for line in lines.values():
        say(line)
    if not neurons:
        say("(this machine has no Neuron device: no --device)")
    return lines


PROGRAMS: Mapping[str, Callable[[ProgramRequest], ProgramRequest]] = {
    "run": _run,
    "stop": _stop,
    "print": _print,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
