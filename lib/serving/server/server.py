"""A server for the time of a block: started, ready, and gone afterwards however that ends."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from common.problems import Hint, Problem
from common.python_path import child_env
from serving.kserve import Connection, ConnectionOptions, KserveError, connect

from . import container, remains, server_log
from . import ports as choice
from .server_spec import ServerSpec
from .settings import KeeperSettings, Ports, new_mark


class LateError(Problem):
    """A server that is running, and not ready in time."""


POLL_S = 0.05
ASK_S = 5.0
LOOK_S = 1.0
GRACE_S = 10.0
# Another process may take a free port before it is used.
TRIES = 5
TAKEN = "Address already in use"
LONGER = "give it longer with --timeout=SECONDS"
READY = "READY"
PLAIN, ALIAS = re.compile(r"[\w@%+=:,./-]+", re.ASCII), "models"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A ready server: its addresses, its version, and its keeper."""

    host: str
    ports: Ports
    version: str
    kept: KeeperSettings
    keeper: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """HOST:PORT of its HTTP service."""
        return f"{self.host}:{self.ports.http}"

    @property
    def grpc_url(self) -> str:
        """HOST:PORT of its gRPC service."""
        return f"{self.host}:{self.ports.grpc}"

    def log(self) -> str:
        """Return all that it has written."""
        return read_log(self.kept)


Say = Callable[[str], None]


def quiet(_line: str) -> None:
    """Show nothing."""


@contextlib.contextmanager
def running(
    wanted: ServerSpec, folder: Path, finish: Sequence[Sequence[str]] = (), say: Say = quiet
) -> Iterator[RunningServer]:
    """Run a server whose requested models are ready; its log goes into ``folder``.

    ``finish`` are commands that are run where this process is killed, and cannot clean up itself.
    ``say`` gets the command line before it runs.

    Raises Problem where it cannot be started, or is not ready in time.
    """
    server = start(wanted, folder, finish=finish, say=say)
    try:
        yield server
    finally:
        end(server.kept, server.keeper)


def start(
    wanted: ServerSpec,
    folder: Path,
    owned: bool = True,
    finish: Sequence[Sequence[str]] = (),
    say: Say = quiet,
) -> RunningServer:
    """Start a server that ends with this process, or lives on where it is not ``owned``.

    Raises Problem when the server does not become ready or finds no free port.
    """
    remains.remove_stale_regions()
    wanted = _reachable(wanted, folder)
    if wanted.image:
        container.fetch(wanted.engine, wanted.image, say)
    for _ in range(TRIES):
        ports = wanted.ports or choice.free(wanted.host)
        if wanted.ports:
            choice.require_free(wanted.host, ports)
        mark = new_mark()
        command = tuple(wanted.command(ports, mark))
        orphaned = tuple(map(tuple, finish))
        kept = KeeperSettings(
            command, mark, str(folder), tuple(wanted.finish(mark)), owned, orphaned
        )
        say(shlex.join(command))
        folder.mkdir(parents=True, exist_ok=True)
        with kept.log.open("w+", encoding="utf-8", errors="replace") as log:
            keeper = keep(kept)
            try:
                return _ready(wanted, ports, kept, keeper, log)
            except BaseException as error:
                end(kept, keeper)
                if wanted.ports or not isinstance(error, Problem) or TAKEN not in _content(log):
                    raise
    raise Problem("port-taken", f"no free port was found in {TRIES} tries", "try again")


def _reachable(wanted: ServerSpec, folder: Path) -> ServerSpec:
    """Return the spec with a repository whose path is safe in the server's shell."""
    repository = Path(wanted.repository).absolute()
    if not repository.is_dir():
        text = f"{repository} is not a folder of models"
        raise Problem("file-not-found", text, "give one with --model_repository")
    for program in repository.glob("*/*/model.py"):
        name = program.parents[1].name
        if not PLAIN.fullmatch(name):
            # Triton passes the folder to a shell unquoted, and then waits for ever.
            text = f"a model of Python cannot be served under the name {name!r}"
            raise Problem("bad-value", text, "use letters, digits and _ . - (also in its config)")
    if wanted.image or PLAIN.fullmatch(str(repository)):
        return replace(wanted, repository=str(repository))
    folder.mkdir(parents=True, exist_ok=True)
    alias = folder / ALIAS
    alias.unlink(missing_ok=True)
    alias.symlink_to(repository)
    # The server runs in that folder.
    return replace(wanted, repository=ALIAS)


def keep(kept: KeeperSettings) -> subprocess.Popen[bytes]:
    """Start the keeper of a server; the engine's search for what a step leaves must not find it."""
    Path(kept.folder).mkdir(parents=True, exist_ok=True)
    config = kept.write()
    kept.log.write_bytes(b"")
    inherited = {k: v for k, v in os.environ.items() if not k.endswith("_TMP_RUN_DIR")}
    environment = child_env(Path(__file__).resolve().parents[2], base=inherited)
    environment[remains.KEY] = kept.mark
    return subprocess.Popen(
        [sys.executable, "-m", "serving.server.keeper", str(config)],
        stdin=subprocess.PIPE if kept.owned else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def end(kept: KeeperSettings, keeper: subprocess.Popen[bytes]) -> None:
    """End a server of ours; nothing of it is left when this returns."""
    if keeper.stdin is not None:
        keeper.stdin.close()
    if keeper.poll() is None:
        if not kept.owned:
            keeper.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(GRACE_S)
    remains.end(kept.mark)
    keeper.wait()


def read_log(kept: KeeperSettings) -> str:
    """What the server has written until now."""
    try:
        return kept.log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _content(log: TextIO) -> str:
    log.seek(0)
    return log.read()


def _ready(
    wanted: ServerSpec,
    ports: Ports,
    kept: KeeperSettings,
    keeper: subprocess.Popen[bytes],
    log: TextIO,
) -> RunningServer:
    deadline = time.monotonic() + wanted.timeout_s
    host = "127.0.0.1" if wanted.host == "0.0.0.0" else wanted.host
    with connect(f"{host}:{ports.http}", options=ConnectionOptions(timeout=ASK_S)) as connection:
        try:
            wait_ready(connection, wanted.models, deadline, _Watch(kept, keeper, log))
        except LateError as error:
            raise late(_content(log), str(kept.log), error) from error
        version = connection.server().version
    return RunningServer(host, ports, version, kept, keeper)


def wait_ready(
    connection: Connection,
    models: Sequence[str],
    deadline: float,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Return when the models are ready, all of the repository where ``models`` is empty.

    Raises Problem when one of them has failed or the time is over. ``watch`` is called in
    between, and may raise.
    """
    states: dict[str, tuple[str, str]] = {}
    while True:
        watch()
        with contextlib.suppress(KserveError):
            states = {each.name: (each.state, each.reason) for each in connection.index()}
            if _all_ready(states, models) and connection.ready():
                return
        if time.monotonic() > deadline:
            late = [name for name in models or states if states.get(name, ("",))[0] != READY]
            text = f"not ready in time: {', '.join(late) or 'the server'}"
            raise LateError("server-failed", text, LONGER)
        time.sleep(POLL_S)


def _all_ready(states: dict[str, tuple[str, str]], models: Sequence[str]) -> bool:
    """Return whether all are; raise Problem for one that never will be."""
    for name in models or states:
        state, reason = states.get(name, ("", ""))
        if state == "UNAVAILABLE" and reason:
            raise Problem("server-failed", f"the model {name} is not ready: {reason}")
    return bool(states) and all(states.get(n, ("",))[0] == READY for n in models or states)


class _Watch:
    """Raises Problem when the server, or the process of a model that it loads, has ended."""

    def __init__(self, kept: KeeperSettings, keeper: subprocess.Popen[bytes], log: TextIO) -> None:
        self._kept, self._keeper, self._log = kept, keeper, log
        self._next, self._had_died = 0.0, False

    def __call__(self) -> None:
        if self._keeper.poll() is not None:
            raise failed(_content(self._log), str(self._kept.log))
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LOOK_S
        has_died = remains.dead_stubs(self._kept.mark) > 0
        # At the second look: a server that does notice needs a moment.
        if has_died and self._had_died:
            raise killed(_content(self._log), str(self._kept.log))
        self._had_died = has_died


def late(text: str, path: str, error: LateError) -> Problem:
    """The error for a server that does not become ready: which models it still loads, or cannot."""
    lines = [f"the model {name} failed: {why}" for name, why in server_log.failures(text).items()]
    lines += [f"the model {name} is still loading" for name in server_log.unfinished(text)]
    hint = Hint.joined(error.hint, f"its whole log: {path}")
    return Problem(error.code, "\n  ".join([str(error), *lines]), hint)


def killed(text: str, path: str) -> Problem:
    """Return the error for a server that waits for the process of a model which has died."""
    models = ", ".join(server_log.unfinished(text)) or "a Python model"
    return Problem(
        "server-failed",
        f"the process of {models} was killed while it loaded",
        f"where memory ran out, `dmesg` tells: load fewer instances at once\nits whole log: {path}",
    )


def failed(text: str, path: str) -> Problem:
    """Return the error for a server that did not start: which model, why, and the last lines."""
    known, models = server_log.cause(text), server_log.failures(text)
    lines = [f"the model {name} failed: {why}" for name, why in models.items()]
    lines = lines or ["the server has ended", *server_log.last_lines(text)]
    hint = f"{known}\n" if known else ""
    return Problem("server-failed", "\n  ".join(lines), f"{hint}its whole log: {path}")
