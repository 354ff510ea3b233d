"""Plans in a process of their own, which waits for questions on its standard input.

A plan runs the scripts that detect this machine, which change the current directory and may print,
crash or hang. None of that may reach the server. The process starts with the first question, keeps
the engine imported, and ends with the server or after a minute without questions.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cmbench.errors import Error

IDLE_S = 60.0
ANSWER_S = 60.0


class PlannerProcess:
    """A client of that process; one question at a time."""

    def __init__(self, home: str, repositories: Sequence[str], folder: str) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
        self._words = [sys.executable, "-c", code, home, folder, *repositories]
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def plan(self, flags: Mapping[str, Any]) -> dict[str, Any]:
        """The plan of a request as JSON holds it, with ``warnings``; raises what planning raises.

        Raises ``cannot-plan`` where the process died, or took longer than a minute.
        """
        with self._lock:
            for _ in range(2):
                answer = self._request_answer(json.dumps(flags))
                if answer:
                    break
        if not answer:
            raise Error(
                "cannot-plan",
                "there was no plan within a minute, or the planning process died",
                hint="run the command yourself, with plan instead of run",
            )
        plan: dict[str, Any] = json.loads(answer)
        if "error" in plan:
            raise Error(plan["code"], plan["error"], hint=plan["hint"], context=plan["context"])
        return plan

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _request_answer(self, question: str) -> str:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(question + "\n")
            process.stdin.flush()
            if select.select([process.stdout], [], [], ANSWER_S)[0]:
                answer = process.stdout.readline()
                if answer.endswith("\n"):
                    return answer
        except OSError:
            pass
        self.close()
        return ""

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        return self._process


def answer(home: str, folder: str, repositories: Sequence[str], flags: dict[str, Any]) -> Any:
    """The answer to one question."""
    from cmbench import api

    try:
        os.chdir(folder)
        workspace = api.Workspace.open(home, repositories)
        planned = api.plan(api.request(workspace, flags.pop("name", ""), **flags))
    except Error as error:
        return _failure(error)
    return {**planned.data(), "warnings": [*planned.request.warnings, *planned.warnings]}


def _failure(error: Error) -> Mapping[str, Any]:
    hint = error.hint.marked
    return {"code": error.code, "error": error.message, "hint": hint, "context": error.context}


def main() -> None:
    """Answer questions, one per line, until the input ends."""
    from cmbench.errors import internal

    home, folder, *repositories = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What scripts print, and what they read, is not for us.
    os.dup2(2, 1)
    questions = os.fdopen(os.dup(0), "rb", buffering=0)
    with open(os.devnull, encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), 0)
    while select.select([questions], [], [], IDLE_S)[0]:
        line = questions.readline()
        if not line:
            return
        try:
            reply = answer(home, folder, repositories, json.loads(line))
        except Exception as problem:
            reply = _failure(internal(problem))
        with suppress(BrokenPipeError):
            print(json.dumps(reply, default=str), file=answers, flush=True)
