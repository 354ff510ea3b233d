"""What whoever starts ``cm`` may ask of it: to end with it, and to hand its error over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cmbench.lib.caller import ENDS_WITH, ERROR_FD, Caller, CallerChannel
from support import HANG_S, wait_for

WAITS = """
import os, sys, time
from cmbench.lib.caller import Caller
try:
    from cmbench.api.running import interruptible
    with Caller.take_from(os.environ).end_with_it(), interruptible():
        print("begun", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("ended as by Ctrl-C", flush=True)
"""


def test_what_is_asked_is_for_one_process() -> None:
    env = {ENDS_WITH: "12", ERROR_FD: "x", "OTHER": "1"}
    assert Caller.take_from(env) == Caller(12, 0)
    assert env == {"OTHER": "1"}


def test_nothing_happens_while_the_caller_is_there() -> None:
    with Caller(os.getpid()).end_with_it(), Caller(1).end_with_it():
        pass


def test_the_end_of_the_caller_is_the_end_of_its_line(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with subprocess.Popen(["sleep", "60"]) as caller, said.open("w") as out:
        env = {**os.environ, ENDS_WITH: str(caller.pid)}
        line = subprocess.Popen([sys.executable, "-c", WAITS], env=env, stdout=out)
        wait_for(lambda: said.read_text() == "begun\n")
        caller.kill()
    assert line.wait(HANG_S) == 0
    assert said.read_text() == "begun\nended as by Ctrl-C\n"


def test_an_error_is_handed_over_and_else_stays() -> None:
    asked = CallerChannel()
    assert Caller.take_from(asked.env({})).send_error({"error": "no log", "code": "bad-log"})
    assert asked.error() == {"error": "no log", "code": "bad-log"}
    assert CallerChannel().error() == {}
    assert not Caller().send_error({"error": "no log"})
    assert not Caller(error_fd=999).send_error({"error": "no log"})
