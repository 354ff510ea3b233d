"""``configure_mig`` and ``teardown_mig``: a GPU in parts of one size, and whole again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from common.problems import Problem
from nvidia_mlperf.make import gpus
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.gpus import TOOL, UndoableCommand

SLICES: Mapping[str, tuple[int, int]] = {"1": (19, 7), "2": (14, 3), "3": (9, 2)}
"""MIG_CONF as slices of a part: the number of that profile on an A100, and how many fit on it."""
UNDO = "make teardown_mig"
ALL = "ALL"
OFF = "OFF"
_PROFILE = re.compile(r"MIG (\d)g\.(\S+)\s+(\d+)\s+(\d+)/(\d+)\s")


def configure_mig(flow: Flow) -> None:
    """Cut the GPU of NVIDIA_VISIBLE_DEVICES into as many parts of MIG_CONF slices as there fit.

    Raises Problem for a GPU that cannot be cut, is in parts already, or is in use.
    """
    configuration = (flow.variables.get("MIG_CONF") or OFF).upper()
    if configuration == OFF:
        flow.report(["MIG_CONF is OFF: nothing to configure", *_report(flow)])
        return
    if "HET" in configuration:
        text = "HeteroMIG, parts that run different benchmarks at once, is not made here"
        raise Problem("not-available", text, f"parts of one size: MIG_CONF={', '.join(SLICES)}")
    slices = "1" if configuration == ALL else configuration
    if slices not in SLICES:
        hint = f"one of: {OFF}, {', '.join(SLICES)}, {ALL}"
        raise Problem("bad-value", f"MIG_CONF={configuration} is not known here", hint)
    gpu = _one(flow, "make configure_mig MIG_CONF=1")
    number, count = _profile(flow, gpu, slices)
    if gpu["parts"]:
        text = f"GPU {gpu['index']} has {len(gpu['parts'])} MIG instances already"
        undo = gpus.line_for(flow, UNDO)
        raise Problem("bad-value", text, f"`{undo}`, or use them: `nvidia-smi -L`")
    index = str(gpu["index"])
    steps = [] if gpu["mig"] == "on" else [_switch(index)]
    cut = ("sudo", TOOL, "mig", "-i", index, "-cgi", ",".join([str(number)] * count), "-C")
    steps.append(UndoableCommand(cut, (_delete(index, "-dci"), _delete(index, "-dgi"))))
    gpus.change(flow, steps, _used(gpu), UNDO)
    flow.report(_choose(flow, index))


def teardown_mig(flow: Flow) -> None:
    """Remove the parts of the GPU of NVIDIA_VISIBLE_DEVICES, and switch MIG off."""
    gpu = _one(flow, UNDO)
    index = str(gpu["index"])
    if gpu["mig"] == "off":
        flow.report([f"GPU {index}: MIG is off, nothing to remove"])
        return
    there = bool(gpu["parts"]) or not gpu["uuid"]
    removed = [UndoableCommand(_delete(index, word)) for word in ("-dci", "-dgi") if there]
    gpus.change(flow, [*removed, *map(UndoableCommand, _switch(index).undo)], _used(gpu), "")


def _switch(index: str) -> UndoableCommand:
    on, off = (("sudo", TOOL, "-mig", value, "-i", index) for value in "10")
    return UndoableCommand(on, (off,))


def _delete(index: str, word: str) -> tuple[str, ...]:
    return ("sudo", TOOL, "mig", "-i", index, word)


def _used(gpu: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [gpu] if gpu["uuid"] else []


def _one(flow: Flow, line: str) -> Mapping[str, Any]:
    """Return the GPU that a make line names; raise Problem unless it names one."""
    device = flow.variables.get("NVIDIA_VISIBLE_DEVICES", "")
    if not re.fullmatch(r"\d+|GPU-[0-9a-fA-F-]+", device, re.ASCII):
        what = f"NVIDIA_VISIBLE_DEVICES={device or 'nothing'} does not name one GPU"
        raise Problem("needs-input", what, f"NVIDIA_VISIBLE_DEVICES=0 {line}")
    every = gpus.state(flow)
    if not every:
        flow.report(["no NVIDIA GPU answers here: the commands are those for an A100"])
        return {"index": device, "uuid": "", "name": "A100", "mig": "", "parts": []}
    (gpu,) = gpus.visible_gpus(flow, every)
    if not gpu["mig"]:
        what = f"GPU {gpu['index']}, {gpu['name']}, cannot be cut in parts (MIG)"
        raise Problem("not-available", what, "an A100, A30 or H100 can")
    flow.report(_report(flow))
    return gpu


def _report(flow: Flow) -> Iterator[str]:
    for gpu in gpus.state(flow):
        sizes = ", ".join(f"{part['profile']} {part['uuid']}" for part in gpu["parts"])
        state = f"MIG is {gpu['mig']}" if gpu["mig"] else "no MIG"
        yield f"GPU {gpu['index']}: {gpu['name']}, {state}{f': {sizes}' if sizes else ''}"


def _profile(flow: Flow, gpu: Mapping[str, Any], slices: str) -> tuple[int, int]:
    """Return the number of the smallest profile of so many slices, and how many of it fit.

    The GPU lists them once MIG is on; before that they are those of an A100.
    """
    if gpu["mig"] != "on":
        return SLICES[slices]
    status, said = flow.runner.capture_output([TOOL, "mig", "-i", str(gpu["index"]), "-lgip"])
    matches = [
        match for match in _PROFILE.findall(said) if match[0] == slices and "+" not in match[1]
    ]
    if status or not matches:
        text = f"GPU {gpu['index']} lists no MIG profile of {slices} slices"
        raise Problem("not-available", text, f"{TOOL} mig -i {gpu['index']} -lgip")
    least = min(matches, key=lambda match: float(match[1].removesuffix("gb")))
    return int(least[2]), int(least[4])


def _choose(flow: Flow, index: str) -> Iterator[str]:
    """Yield the line that chooses a part by its UUID, not one by chance."""
    parts = [p for gpu in gpus.state(flow) if str(gpu["index"]) == index for p in gpu["parts"]]
    for part in parts:
        yield f"export CUDA_VISIBLE_DEVICES={part['uuid']}  # {part['profile']}"
    if not parts:
        yield "then: export CUDA_VISIBLE_DEVICES=MIG-… of one of them (nvidia-smi -L)"
