"""``info``: what a folder is for, on which machine, and every word."""

from __future__ import annotations

from dataclasses import asdict

from common.text import wrapped
from nvidia_mlperf.make import neuron
from nvidia_mlperf.make.flow import VARIABLES, Flow
from nvidia_mlperf.make.targets import TARGETS, MakeTarget


def _machine(flow: Flow) -> str:
    if flow.vendor == neuron.ACCELERATOR:
        return str(neuron.device(flow))
    return str(flow.runner.machine() or "no NVIDIA GPU: the stand-in is used")


def info(flow: Flow) -> None:
    """Show settings, machine, scratch space, and the words of this vendor's systems."""
    for name, value in asdict(flow.settings).items():
        flow.runner.show(f"{name + ':':16}{value}")
    flow.runner.show(f"{'machine:':16}{_machine(flow)}")
    variables = {name: flow.variables[name] for name in VARIABLES if flow.variables.get(name)}
    flow.runner.show(
        f"{'variables:':16}{' '.join(f'{k}={v}' for k, v in variables.items()) or 'none'}"
    )
    flow.runner.show("")
    for target in TARGETS:
        if target.vendor in ("", flow.vendor):
            for line in _lines(target):
                flow.runner.show(line)


def _lines(target: MakeTarget) -> list[str]:
    """Return a target and its purpose, wrapped for a terminal."""
    also = f" (also: {', '.join(target.aliases)})" if target.aliases else ""
    head = f"  make {target.word:24}"
    return wrapped(target.help + also, head, " " * len(head))
