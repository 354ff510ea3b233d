"""Starting the processes of a session, and making sure that none of them outlives it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from common.problems import MARKED
from common.python_path import child_env

PACKAGE = "mlperf.harness"
# Workers share the cores already: NumPy's products would wait for threads of their own.
BLAS = {"OPENBLAS_NUM_THREADS": "1"}
POLL_S = 0.5
GRACE_S = 2.0


class InterruptSignal(BaseException):
    """A termination signal; a BaseException so that nothing handles it by accident."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``InterruptSignal`` on SIGINT and SIGTERM in the main thread; ignore the second."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, signal.SIG_IGN)
        raise InterruptSignal(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(name: str, config: Path, console: Path, tick: Callable[[int], None]) -> int:
    """Run a program of this package on ``config``; its output goes to ``console``.

    ``tick`` is called about twice a second with the process's number. Returns the exit status; on
    any exception the process is ended first. It gets a pipe as standard input that only closes
    when we end.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", PACKAGE, name, str(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**BLAS, **child_env(Path(__file__).resolve().parents[3]), MARKED: "1"},
        cwd=config.parent,
    )
    try:
        with console.open("wb") as log:
            _follow(process, log.write, tick)
        return process.wait()
    finally:
        end(process)


def _follow(
    process: subprocess.Popen[bytes], write: Callable[[bytes], int], tick: Callable[[int], None]
) -> None:
    """Copy the output until it closes. Waiting on it needs no polling during a measurement."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    while True:
        ready, _, _ = select.select([descriptor], [], [], POLL_S)
        if ready:
            data = os.read(descriptor, 1 << 16)
            if not data:
                return
            write(data)
        tick(process.pid)


def end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that a process has ended and its pipes are closed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
