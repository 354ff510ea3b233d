"""The two processes between a server and its owner: whoever is killed, the others clean up.

The owner holds the standard input of the outer one, which holds a pipe of the inner one, which
starts the server. The server ends with the inner one, and its stubs with it. What is left is looked
for by its mark. Only where both are killed at the same moment can a region of shared memory stay:
the next start removes it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

from . import remains
from .settings import KeeperSettings, read

GRACE_S = 5.0
FINISH_S = 30.0
PR_SET_PDEATHSIG = 1


def main(config: Path) -> int:
    """Keep a server until it ends, its owner does, or SIGTERM comes; its exit status."""
    kept = read(config)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ours, theirs = os.pipe()
    inner = os.fork()
    if inner == 0:
        os.close(theirs)
        # Nothing of this process's stack is to run twice.
        os._exit(_keep(kept, ours))
    os.close(ours)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(inner, number)

    signal.signal(signal.SIGTERM, pass_on)
    status = os.waitstatus_to_exitcode(_wait(inner))
    _finish(kept, {os.getpid()})
    return status if status >= 0 else 128 - status


def _wait(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def _keep(kept: KeeperSettings, outer: int) -> int:
    """Return the inner process: start the server, and end it when there is a reason."""
    notice, tell = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(tell, b"x"))
    with kept.log.open("wb") as log:
        server = subprocess.Popen(
            kept.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=kept.folder,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    ended = os.pidfd_open(server.pid)
    reasons = [ended, outer, notice, *([0] if kept.owned else [])]
    ready, _, _ = select.select(reasons, [], [])
    # Who has gone waits for no answers. Nor does an owner whose keeper is asked to end: what ends
    # the owner kills the keeper too after a moment, and its regions would stay.
    status = _end(server, GRACE_S if notice in ready and not kept.owned else 0)
    _finish(kept, {os.getpid(), os.getppid()})
    return status if status >= 0 else 128 - status


def _die_with_parent() -> None:
    """Have this process killed with its parent; called before it executes the server."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(server: subprocess.Popen[bytes], patience_s: float) -> int:
    if server.poll() is None and patience_s:
        server.terminate()
        try:
            return server.wait(patience_s)
        except subprocess.TimeoutExpired:
            pass  # it has had its time
    server.kill()
    return server.wait()


def _finish(kept: KeeperSettings, but: set[int]) -> None:
    # Its owner never writes: there is something to read where it has gone.
    gone = kept.owned and bool(select.select([0], [], [], 0)[0])
    for command in (*kept.finish, *(kept.orphaned if gone else ())):
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, timeout=FINISH_S, check=False)
    remains.end(kept.mark, but, os.getsid(0))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
