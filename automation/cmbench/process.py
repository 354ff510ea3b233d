"""One child process in a group of its own: its output line by line, and its end within seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from cmbench.errors import Error

GRACE_SECONDS = 2.0


def run_process(
    command: list[str],
    cwd: str,
    environment: Mapping[str, str],
    line: Callable[[str], None],
    pulse: Callable[[], None] = lambda: None,
) -> int:
    """Run ``command`` in a process group of its own; its output goes to ``line``, line by line.

    An interruption ends the whole group, by force after ``GRACE_SECONDS``, and passes on.
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
            end_group(process)
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
            hint=f"install {command[0]} or put it on PATH",
        ) from None


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


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process group: ask first, force after ``GRACE_SECONDS``."""
    for wanted, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 0.5)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, wanted)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and _group_alive(process):
            time.sleep(0.05)
    with suppress(Exception):
        process.wait(timeout=1)


def _group_alive(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
