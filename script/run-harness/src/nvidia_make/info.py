"""``info``: what a folder is for, on which machine, and every word."""

from __future__ import annotations

from dataclasses import asdict

from nvidia_make import neuron
from nvidia_make.flow import VARIABLES, Flow


def _machine(flow: Flow) -> str:
    if flow.vendor == neuron.ACCELERATOR:
        return str(neuron.device(flow))
    return str(flow.doer.machine() or "no NVIDIA GPU: the stand-in is used")


def info(flow: Flow) -> None:
    """Show settings, machine, scratch space, and the words of this vendor's systems."""
    from nvidia_make import targets

    for name, value in asdict(flow.settings).items():
        flow.doer.show(f"{name + ':':16}{value}")
    flow.doer.show(f"{'machine:':16}{_machine(flow)}")
    given = {name: flow.variables[name] for name in VARIABLES if flow.variables.get(name)}
    flow.doer.show(f"{'variables:':16}{' '.join(f'{k}={v}' for k, v in given.items()) or 'none'}")
    flow.doer.show("")
    for target in targets.TARGETS:
        if target.vendor in ("", flow.vendor):
            also = f" (also: {', '.join(target.aliases)})" if target.aliases else ""
            flow.doer.show(f"  make {target.word:24}{target.help}{also}")
