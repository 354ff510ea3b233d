"""One child process in a group of its own: its output line by line, and its end within seconds."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from cmbench.errors import Error
from cmbench.lib import orphans

GRACE_SECONDS = 2.0


def run_process(
    command: list[str],
    cwd: str,
    environment: Mapping[str, str],
    line: Callable[[str], None],
    pulse: Callable[[], None] = lambda: None,
    scratch: str = "",
) -> int:
    """Run ``command`` in a process group of its own; its output goes to ``line``, line by line.

    An interruption ends the whole group, by force after ``GRACE_SECONDS`` or a second interruption,
    and passes on. So does it end what has left the group, such as ``timeout 60 make``, where
    ``scratch`` is the private directory that the environment names.
    Returns the exit status (negative for a signal). ``pulse`` is called a few times a second; what
    it raises ends the process too.
    """
    with _signals_held() as let_go:
        process = _start(command, cwd, environment)
        try:
            let_go()
            _pump(process, line, pulse)
            return process.wait()
        except BaseException:
            end_all(process, scratch)
            raise


def _start(command: list[str], cwd: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as problem:
        raise Error(
            "cannot-start",
            f"cannot start {command[0]}: {problem.strerror}",
            hint=_remedy(problem, command[0], environment),
        ) from None


def _remedy(problem: OSError, program: str, environment: Mapping[str, str]) -> str:
    if problem.errno != errno.E2BIG:
        return f"install {program} or put it on PATH"
    key = max(environment, key=lambda name: len(environment[name]))
    size = len(environment[key])
    return f"the longest value, that of {key}, has {size} characters: hand it on in a file"


@contextmanager
def _signals_held() -> Iterator[Callable[[], None]]:
    """Keep Ctrl-C and SIGTERM back until the given function is called, or the block ends.

    One that arrives when a process was made, and nobody knows of it yet, would leave it behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    arrived: list[int] = []
    old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    kept = {number: handler for number, handler in old.items() if callable(handler)}
    for number in kept:
        signal.signal(number, lambda number, frame: arrived.append(number))

    def let_go() -> None:
        for number, handler in kept.items():
            signal.signal(number, handler)
        kept.clear()
        if arrived:
            signal.raise_signal(arrived.pop())

    try:
        yield let_go
    finally:
        let_go()


def _pump(
    process: subprocess.Popen[bytes], line: Callable[[str], None], pulse: Callable[[], None]
) -> None:
    import selectors

    stream = process.stdout
    assert stream is not None
    os.set_blocking(stream.fileno(), False)
    rest = b""
    with selectors.DefaultSelector() as selector, stream:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            pulse()
            ready = selector.select(timeout=0.2)
            data = stream.read(65536) if ready else None
            if data:
                *lines, rest = (rest + data).split(b"\n")
                for item in lines:
                    line(_visible(item))
            elif data == b"" or process.poll() is not None:
                break
    if rest:
        line(_visible(rest))


def _visible(raw: bytes) -> str:
    """The last state of a line that a program drew over with carriage returns."""
    return raw.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")


def end_all(process: subprocess.Popen[bytes], scratch: str) -> None:
    """End a process with all that it has started: ask first, force after ``GRACE_SECONDS``."""
    try:
        _tell_all(process, scratch, signal.SIGTERM, GRACE_SECONDS)
    finally:
        # Who presses Ctrl-C again while they have time to end has waited long enough.
        _tell_all(process, scratch, signal.SIGKILL, 0.5)
        with suppress(Exception):
            process.wait(timeout=1)


def _tell_all(process: subprocess.Popen[bytes], scratch: str, number: int, patience: float) -> None:
    """Send a signal to the group and to what has left it; wait until all are gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
    if scratch:
        orphans.tell(scratch, number)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and _alive(process, scratch):
        time.sleep(0.05)


def _alive(process: subprocess.Popen[bytes], scratch: str) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return bool(scratch) and bool(orphans.find(scratch))
    return True
