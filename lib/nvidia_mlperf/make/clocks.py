"""``lock_clocks`` and ``free_clocks``: the clock of the GPUs, locked for measurements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from common.problems import Problem
from nvidia_mlperf.make import gpus
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.gpus import TOOL, UndoableCommand

DEFAULT = "1000"
"""MHz, as in NVIDIA's makefiles."""


def lock_clocks(flow: Flow) -> None:
    """Lock the clock of the GPUs at GPUCLK in MHz; raises Problem for one that cannot be."""
    clock = _clock(flow)
    chosen = _chosen(flow, clock)
    gpus.change(flow, _locks(flow, chosen, clock), chosen, "make free_clocks")


def locked(flow: Flow) -> AbstractContextManager[None]:
    """Return the clocks locked for as long as runs take, where GPUCLK and APPLY=1 ask for it."""
    if not (flow.variables.get("GPUCLK") and flow.is_on("APPLY")):
        return nullcontext()
    clock = _clock(flow)
    chosen = _chosen(flow, clock)
    return gpus.during(flow, _locks(flow, chosen, clock), chosen)


def _locks(flow: Flow, chosen: Sequence[Mapping[str, Any]], clock: int) -> list[UndoableCommand]:
    pair = f"{clock},{clock}"
    targets = _targets(flow, chosen)
    return [UndoableCommand(_smi(words, "-lgc", pair), (_smi(words, "-rgc"),)) for words in targets]


def _clock(flow: Flow) -> int:
    clock = flow.variables.get("GPUCLK") or DEFAULT
    if not re.fullmatch(r"[1-9]\d{1,4}", clock, re.ASCII):
        raise Problem("bad-value", f"GPUCLK={clock} is not a clock in MHz", "GPUCLK=1590")
    return int(clock)


def free_clocks(flow: Flow) -> None:
    """Let the clocks of the GPUs go."""
    chosen = _chosen(flow)
    steps = [UndoableCommand(_smi(words, "-rgc")) for words in _targets(flow, chosen)]
    gpus.change(flow, steps, chosen, "")


def _chosen(flow: Flow, clock: int = 0) -> list[Mapping[str, Any]]:
    """Return the chosen GPUs and show their maximum clocks; raise Problem for a slower one."""
    every = gpus.state(flow)
    chosen = gpus.visible_gpus(flow, every) if every else []
    for gpu in chosen:
        limit = f"up to {gpu['clock']} MHz" if gpu["clock"] else "its clocks are not told"
        flow.report([f"GPU {gpu['index']}: {gpu['name']}, {limit}"])
    if not every:
        flow.report(["no NVIDIA GPU answers here"])
    slow = [gpu for gpu in chosen if 0 < gpu["clock"] < clock]
    if slow:
        text = f"GPUCLK={clock} is beyond the {slow[0]['clock']} MHz of {slow[0]['name']}"
        raise Problem("bad-value", text, f"`GPUCLK={slow[0]['clock']} make lock_clocks`")
    return chosen


def _targets(flow: Flow, chosen: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One command for all GPUs, as in the guide; one per GPU where some are named."""
    if flow.variables.get("NVIDIA_VISIBLE_DEVICES", "").lower() in ("", "all"):
        return [()]
    words = [str(gpu["index"]) for gpu in chosen]
    return [("-i", word) for word in words]


def _smi(target: Sequence[str], *words: str) -> tuple[str, ...]:
    return ("sudo", TOOL, *target, *words)
