"""Clocks and MIG: the commands that change them, which only root may type, and how to undo them."""

from __future__ import annotations

import re

from nvidia_flow.errors import FlowError

from nvidia_make.flow import Flow

DEFAULT_CLOCK = "1000"
SLICES = {"1": "19", "2": "14", "3": "9"}
"""The profile of an A100 that has so many of its seven slices."""


def lock_clocks(flow: Flow) -> None:
    """The command that locks the clock of every GPU at GPUCLK in MHz."""
    clock = flow.variables.get("GPUCLK") or DEFAULT_CLOCK
    if not re.fullmatch(r"\d{2,5}", clock):
        raise FlowError("bad-value", f"GPUCLK={clock} is no clock in MHz", "GPUCLK=1590")
    _printed(flow, [f"sudo nvidia-smi -lgc {clock},{clock}"], "make free_clocks")


def free_clocks(flow: Flow) -> None:
    """The command that lets clocks go again."""
    _printed(flow, ["sudo nvidia-smi -rgc"])


def configure_mig(flow: Flow) -> None:
    """The commands that cut the GPU of NVIDIA_VISIBLE_DEVICES into instances of MIG_CONF slices."""
    slices = flow.variables.get("MIG_CONF") or "OFF"
    if slices == "OFF":
        flow.tell(["MIG_CONF is OFF: nothing to configure"])
        return
    if slices not in SLICES:
        hint = f"one of: OFF, {', '.join(SLICES)}"
        raise FlowError("bad-value", f"MIG_CONF={slices} is not known here", hint)
    gpu = _one_gpu(flow)
    profiles = ",".join([SLICES[slices]] * (7 // int(slices)))
    _printed(
        flow,
        [
            f"nvidia-smi -i {gpu} --query-compute-apps=pid,name --format=csv  # must show none",
            f"sudo nvidia-smi -mig 1 -i {gpu}",
            f"sudo nvidia-smi mig -i {gpu} -cgi {profiles} -C",
            "nvidia-smi -L  # export CUDA_VISIBLE_DEVICES=MIG-… of one of them",
        ],
        "make teardown_mig",
    )


def teardown_mig(flow: Flow) -> None:
    """The commands that remove the instances and switch MIG off."""
    gpu = _one_gpu(flow)
    _printed(
        flow,
        [
            f"sudo nvidia-smi mig -i {gpu} -dci",
            f"sudo nvidia-smi mig -i {gpu} -dgi",
            f"sudo nvidia-smi -mig 0 -i {gpu}",
        ],
    )


def _one_gpu(flow: Flow) -> str:
    """The one GPU that is meant; never one that nobody has named."""
    named = flow.variables.get("NVIDIA_VISIBLE_DEVICES", "")
    if not re.fullmatch(r"\d+|GPU-[0-9a-fA-F-]+", named):
        told = f"NVIDIA_VISIBLE_DEVICES={named or 'nothing'} does not name one GPU"
        raise FlowError("needs-input", told, "NVIDIA_VISIBLE_DEVICES=0 make configure_mig")
    return named


def _printed(flow: Flow, commands: list[str], undo: str = "") -> None:
    """Show commands; they are not run."""
    flow.tell(["nothing is changed here: these commands need root, and do it (not tried here)"])
    for command in commands:
        flow.doer.show(command)
    flow.tell([f"to undo: {undo}"] if undo else [])
