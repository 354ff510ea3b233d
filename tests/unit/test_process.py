"""Native programs: none is left behind, whenever the signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib import orphans
from cmbench.run import process
from support import HANG_S, wait_for


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
        assert made[0].wait(timeout=HANG_S) == -signal.SIGTERM
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, old)
        made[0].kill()


def stop(*_: Any) -> None:
    raise KeyboardInterrupt


def interrupted(scratch: Path, key: str, program: str, pulse: Callable[[], None]) -> None:
    """Run a program that says ``ready``, and let ``pulse`` interrupt it."""
    said: list[str] = []

    def when_ready() -> None:
        if said:
            pulse()

    environment = {**os.environ, key: str(scratch)}
    with pytest.raises(KeyboardInterrupt):
        process.run_process(
            ["bash", "-c", program], "/", environment, said.append, when_ready, str(scratch)
        )


@pytest.mark.parametrize("key", ["CM_TMP_RUN_DIR", "MLC_TMP_RUN_DIR"])
@pytest.mark.parametrize(
    "program",
    [
        "echo ready; timeout 60 sleep 50",
        "set -m; sleep 50 & echo ready; wait",
        "setsid sleep 50 & sleep 0.2; echo ready; wait",
    ],
)
def test_what_has_left_the_group_ends_too(tmp_path: Path, key: str, program: str) -> None:
    other = subprocess.Popen(["sleep", "50"], env={**os.environ, key: f"{tmp_path}-other"})
    try:
        interrupted(tmp_path, key, program, stop)
        assert orphans.find(str(tmp_path)) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def runs(pid: int) -> bool:
    return bool(orphans.started(pid))


APART = """
setsid env -i bash -c 'trap "" TERM INT; echo $$ > "$0"; while :; do sleep 1; done' {pid} &
until [ -s {pid} ]; do sleep 0.05; done
echo ready; wait
"""


def test_what_has_another_environment_and_session_ends_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    scratch = tmp_path / "scratch"
    interrupted(scratch, "CM_TMP_RUN_DIR", APART.format(pid=pid), stop)
    assert not runs(int(pid.read_text()))


def test_what_a_dead_run_has_left_ends_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    scratch = str(tmp_path / "scratch")
    left = subprocess.Popen(
        ["bash", "-c", APART.format(pid=pid)],
        env={**os.environ, "CM_TMP_RUN_DIR": scratch},
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: pid.exists() and pid.read_text())
    orphans.stop(scratch, 0.3)
    left.wait()
    assert not runs(int(pid.read_text()))


def test_a_pid_that_was_given_again_is_let_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = subprocess.Popen(["sleep", "50"])
    try:
        monkeypatch.setattr(orphans, "started", lambda _: "1")
        family = orphans.Family(str(tmp_path), other.pid)
        monkeypatch.undo()
        assert family.send_signal(signal.SIGKILL) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_programs_have_two_seconds_to_end() -> None:
    assert process.GRACE_SECONDS <= 2


def test_a_second_interruption_does_not_wait_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 2.0 * HANG_S)
    old = signal.signal(signal.SIGINT, stop)
    again = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

    def first() -> None:
        again.start()
        stop()

    began = time.monotonic()
    try:
        interrupted(tmp_path, "CM_TMP_RUN_DIR", "trap '' TERM; echo ready; sleep 600 & wait", first)
    finally:
        again.join()
        signal.signal(signal.SIGINT, old)
    assert time.monotonic() - began < HANG_S, "it waited for the program"
    assert orphans.find(str(tmp_path)) == []


def test_an_env_that_is_too_large_is_reported_by_its_longest_value() -> None:
    environment = {**os.environ, "CM_LIST": "x" * 300_000}
    with pytest.raises(Error, match="Argument list too long") as found:
        process.run_process(["true"], "/", environment, print)
    assert "CM_LIST, has 300000 characters" in found.value.hint
