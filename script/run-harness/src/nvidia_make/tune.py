"""``autotune``: a bounded search over the batch size, each try a short run of LoadGen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nvidia_make import engines, harness
from nvidia_make.flow import Flow
from nvidia_make.work import Item, Work, plan

FIELD, OPTION = "gpu_batch_size", "batch_size"
TRIES = (1, 4, 16, 64)
"""Samples of a batch. The stand-in finds others by itself; these tell what a batch is worth."""
NOT = "not VALID"
SECONDS = 5
LESS_IS_BETTER = ("SingleStream", "MultiStream")


def autotune(flow: Flow) -> None:
    """Try every batch size for each item; the best is shown as what goes into RUN_ARGS."""
    work = plan(flow)
    flow.tell(work.lines())
    count = len(work.items) * len(TRIES)
    flow.tell([f"{count} runs of {SECONDS} s at least, beside their preparation"])
    engines.make(flow, work)
    for item in work.items:
        found = {size: tried(flow, work, item, size) for size in TRIES}
        flow.tell(f"{item.name}: {size} a batch: {value or NOT}" for size, value in found.items())
        best = best_of(item, found)
        flow.doer.show(f"{item.name}: --{FIELD}={best}" if best else f"{item.name}: none is VALID")


def best_of(item: Item, found: Mapping[int, float | None]) -> int:
    """The batch size of the best VALID run; 0 where none is."""
    valid = {size: value for size, value in found.items() if value is not None}
    if not valid:
        return 0
    pick = min if item.config.scenario in LESS_IS_BETTER else max
    return pick(valid, key=lambda size: valid[size])


def tried(flow: Flow, work: Work, item: Item, size: int) -> float | None:
    """The figure of a short run with so many samples a batch; None where it is not VALID."""
    apart = replace(flow, settings=replace(flow.settings, execution_mode="test"))
    words = harness.line(apart, work, item)
    words = [word for word in words if not word.startswith((f"--{OPTION}=", "--min_duration="))]
    words += [f"--{OPTION}={size}", f"--min_duration={SECONDS * 1000}", "--max_attempts=1"]
    words = [
        f"--results_dir={flow.build / 'autotune'}" if word.startswith("--results_dir=") else word
        for word in words
    ]
    started = time.time()
    flow.doer.cm(words)
    found = harness.newest(apart, work, item, started, flow.build / "autotune")
    result: Mapping[str, Any] = harness.told_of(found, item) if found else {}
    return float(result["value"]) if result.get("validity") == "VALID" else None
