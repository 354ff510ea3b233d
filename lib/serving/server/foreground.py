"""A server in the foreground: its log is shown, and it ends with this program."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from types import FrameType

from . import server_log
from .settings import KeeperSettings

LOOK_S = 0.2


class StopSignal(BaseException):
    """A signal to end this process."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def stop_on_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP raise ``StopSignal``, once."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise StopSignal(number)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, stop)


def follow(
    kept: KeeperSettings, keeper: subprocess.Popen[bytes], say: Callable[[str], None], parent: int
) -> int:
    """Show what the server writes from now on until it ends; its exit status.

    It is over too when ``parent``, the process that started this one, is gone.
    """
    with kept.log.open(encoding="utf-8", errors="replace") as log:
        log.seek(0, os.SEEK_END)
        while keeper.poll() is None and os.getppid() == parent:
            for line in log:
                if not server_log.harmless(line):
                    say(line.rstrip("\n"))
            time.sleep(LOOK_S)
    return keeper.poll() or 0
