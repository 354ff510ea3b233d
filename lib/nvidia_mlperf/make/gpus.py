"""What ``clocks`` and ``mig`` share: the GPUs as they are, and commands that only root may give.

Without APPLY=1 nothing is changed: the state and the commands are shown. With it they run
one after the other, each after a look at who computes on the GPU, and are undone when one fails.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from common.problems import Problem
from nvidia_mlperf.make.flow import Flow

TOOL = "nvidia-smi"


@dataclass(frozen=True, slots=True)
class UndoableCommand:
    """A command that changes the machine, and those that undo it, in their order."""

    command: tuple[str, ...]
    undo: tuple[tuple[str, ...], ...] = ()


def state(flow: Flow) -> list[Mapping[str, Any]]:
    """Return the GPUs of this machine as the driver reports them; empty without one."""
    return list(flow.runner.cards())


def visible_gpus(flow: Flow, gpus: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The GPUs of NVIDIA_VISIBLE_DEVICES; all without it. Raises Problem for one not there."""
    ids = flow.variables.get("NVIDIA_VISIBLE_DEVICES", "")
    if ids.lower() in ("", "all"):
        return list(gpus)
    chosen = []
    for word in (word.strip() for word in ids.split(",")):
        fits = [gpu for gpu in gpus if word in (str(gpu["index"]), gpu["uuid"])]
        if not fits:
            what = f"NVIDIA_VISIBLE_DEVICES={ids}: {word or 'nothing'} is not a GPU of this machine"
            raise Problem("no-device", what, "`nvidia-smi -L` shows them")
        chosen += fits
    return chosen


def change(
    flow: Flow, steps: Sequence[UndoableCommand], used: Sequence[Mapping[str, Any]], undo: str
) -> None:
    """Show the commands, or with APPLY=1 run them; raises Problem.

    ``used`` are the GPUs that they change: none of them may be in use. ``undo`` is the word that
    takes the change back, for the same GPUs.
    """
    undo = undo and line_for(flow, undo)
    if not flow.is_on("APPLY"):
        flow.report(["nothing is changed: these commands need root; APPLY=1 as root runs them"])
        for step in steps:
            flow.runner.show(_line(step.command))
        flow.report([f"to undo: {undo}"] if undo else [])
        return
    if os.geteuid() != 0:
        hint = "type the commands that are shown without APPLY=1, or call it as root"
        raise Problem("not-writable", "APPLY=1 changes the machine, which root alone may", hint)
    if not used:
        raise Problem("no-device", "no NVIDIA GPU answers here: nothing is changed", "nvidia-smi")
    _apply(flow, steps, used)
    flow.report([f"to undo: {undo} APPLY=1"] if undo else [])


def line_for(flow: Flow, word: str) -> str:
    """Return the make line of a word for the GPUs that this call names."""
    chosen = flow.variables.get("NVIDIA_VISIBLE_DEVICES", "")
    return f"NVIDIA_VISIBLE_DEVICES={shlex.quote(chosen)} {word}" if chosen else word


@contextmanager
def during(
    flow: Flow, steps: Sequence[UndoableCommand], used: Sequence[Mapping[str, Any]]
) -> Iterator[None]:
    """With the machine changed, as root and with APPLY=1; however it ends, it is undone."""
    change(flow, steps, used, "")
    try:
        yield
    finally:
        if flow.is_on("APPLY"):
            _undo(flow, steps)


def _apply(flow: Flow, steps: Sequence[UndoableCommand], used: Sequence[Mapping[str, Any]]) -> None:
    done: list[UndoableCommand] = []
    try:
        for step in steps:
            refuse_used(flow, used)
            # Interrupted in the middle it may have been done.
            done.append(step)
            _run(flow, step.command)
    except BaseException:
        _undo(flow, done)
        raise


def _undo(flow: Flow, steps: Sequence[UndoableCommand]) -> None:
    """Undo changes, the last one first; report failures and continue."""
    for command in (command for step in reversed(steps) for command in step.undo):
        flow.report(_tried(flow, command))


def _tried(flow: Flow, command: Sequence[str]) -> list[str]:
    try:
        _run(flow, command)
    except Problem as problem:
        return [f"not undone: {problem}"]
    return []


def _run(flow: Flow, command: Sequence[str]) -> None:
    flow.report([_line(command)])
    # Root needs no sudo, and a container has none.
    status, said = flow.runner.capture_output([word for word in command if word != "sudo"])
    flow.report(line for line in said.splitlines() if line.strip())
    if status:
        last = said.strip().rpartition("\n")[2] or "it said nothing"
        raise Problem("script-failed", f"{_line(command)} ended with {status}: {last}", "")


def refuse_used(flow: Flow, used: Sequence[Mapping[str, Any]]) -> None:
    """Raise Problem where a process computes on one of the GPUs."""
    uuids = {gpu["uuid"]: gpu["index"] for gpu in used}
    busy = [p for gpu in state(flow) if gpu["uuid"] in uuids for p in gpu["processes"]]
    if busy:
        who = ", ".join(f"{process['name']} ({process['pid']})" for process in busy[:5])
        raise Problem("no-device", f"the GPU is in use by {who}", "wait for them, or end them")


def _line(command: Sequence[str]) -> str:
    return shlex.join(command)
