"""Native programs: none is left behind, whenever the signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from cmbench import process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_right_after_the_start(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    made: list[subprocess.Popen[bytes]] = []
    genuine = subprocess.Popen

    def start(*words: Any, **options: Any) -> Any:
        made.append(genuine(*words, **options))
        os.kill(os.getpid(), number)
        return made[0]

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    old = signal.signal(number, interrupt)
    monkeypatch.setattr(subprocess, "Popen", start)
    try:
        with pytest.raises(KeyboardInterrupt):
            process.run_process(["sleep", "60"], "/", os.environ, print)
        assert made[0].wait(timeout=5) == -signal.SIGTERM
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, old)
        made[0].kill()
