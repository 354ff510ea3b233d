"""The registry of checks before a vendor's flow: ``cm doctor script --for=nvidia``, and its words.

A module per vendor holds its checks as a tuple ``CHECKS``; a new vendor is a row in ``FOR``.
A check has an id, which stays, and returns its findings with their remedies. The flow that
is going to run says what it wants by a ``FlowSubject``; without one only the machine is looked at.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cmbench.doctor.finding import INFO, LOOK, OK, STOP, Finding, MachineProbe, checked
from cmbench.errors import Error, did_you_mean
from cmbench.lib import neuron, nvidia

FOR: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("cmbench.doctor.flow", "cmbench.doctor.nvidia"),
    "inferentia": ("cmbench.doctor.flow", "cmbench.doctor.inferentia"),
}
"""By vendor, the modules with its checks, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class BenchmarkNeeds:
    """What a benchmark takes: bytes on disk, bytes of memory, bytes of a GPU's memory.

    ``data`` are folders and files below the scratch space that must be whole once they are begun,
    with the end of their files' names and their least number; 0 means unknown.
    """

    name: str
    disk: int = 0
    memory: int = 0
    gpu_memory: int = 0
    data: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FlowSubject:
    """The flow that is going to run; an empty value or None means unknown.

    ``folder`` is that of the flow, ``scratch`` the scratch space, ``system`` the one whose values
    count. ``skip_driver`` lets a driver pass that is too old for ``vendor_round``.
    """

    vendor_round: str = ""
    folder: Path | None = None
    scratch: Path | None = None
    system: str = ""
    scenarios: tuple[str, ...] = ()
    needs: tuple[BenchmarkNeeds, ...] = ()
    allow_root: bool = False
    skip_driver: bool = False


@dataclass(frozen=True)
class FlowView:
    """The input of a check of the registry; the driver is queried once for all of them."""

    machine: MachineProbe
    subject: FlowSubject = field(default_factory=FlowSubject)

    @cached_property
    def driver(self) -> nvidia.Driver:
        """NVIDIA's driver."""
        machine = self.machine
        return nvidia.read(machine.root, machine.find, lambda words: machine.say(*words))

    @cached_property
    def neuron(self) -> neuron.NeuronMachine:
        """The Neuron devices."""
        machine = self.machine
        return neuron.read(
            machine.root,
            machine.find,
            lambda words: machine.say(*words),
            lambda: neuron.ask_service(machine.environ),
        )

    def env(self, name: str) -> str:
        """The value of a variable; empty where it is not set."""
        return self.machine.environ.get(name, "")

    def finding(self, state: str, text: str, remedy: str = "") -> Finding:
        """A finding; the registry puts the name of the check in."""
        return Finding("", state, text, remedy)


Look = Callable[[FlowView], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class FlowCheck:
    """A row of the registry: its id, whose area is the part before the dot, and how it looks."""

    id: str
    look: Look

    def findings(self, view: FlowView) -> list[Finding]:
        """Return its findings, under its id; a check that fails itself is a finding too."""

        def look(machine: MachineProbe) -> Iterator[Finding]:
            del machine
            return self.look(view)

        area = self.id.partition(".")[0]
        return [replace(f, area=area, id=self.id) for f in checked(look, view.machine)]


def checks_of(vendor: str) -> tuple[FlowCheck, ...]:
    """The checks for a vendor; raises ``bad-value`` for one that is not known."""
    if vendor not in FOR:
        known = ", ".join(FOR)
        hint = did_you_mean(vendor, FOR) or f"one of: {known}"
        raise Error("bad-value", f"--for={vendor} is not known", hint=hint)
    modules = (importlib.import_module(name) for name in FOR[vendor])
    return tuple(check for module in modules for check in module.CHECKS)


def examine_for(
    vendor: str, machine: MachineProbe, subject: FlowSubject | None = None
) -> list[Finding]:
    """All findings for a vendor's flow; raises ``bad-value`` for a vendor that is not known."""
    view = FlowView(machine, subject or FlowSubject())
    return [finding for check in checks_of(vendor) for finding in check.findings(view)]


def subject_of(values: Mapping[str, Any]) -> FlowSubject:
    """Return the subject of plain values, as a flow that does not import the engine passes them.

    Raises ``bad-value`` for a name that a subject does not have.
    """
    names = {need.name for need in fields(FlowSubject)}
    for name in values:
        if name not in names:
            raise Error(
                "bad-value",
                f"there is no check named {name}",
                hint=did_you_mean(name, names),
            )
    arguments = dict(values)
    for name in ("folder", "scratch"):
        arguments[name] = Path(os.path.abspath(arguments[name])) if arguments.get(name) else None
    arguments["scenarios"] = tuple(arguments.get("scenarios", ()))
    arguments["needs"] = tuple(BenchmarkNeeds(**need) for need in arguments.get("needs", ()))
    return FlowSubject(**arguments)


__all__ = [
    "FOR",
    "INFO",
    "LOOK",
    "OK",
    "STOP",
    "BenchmarkNeeds",
    "Finding",
    "FlowCheck",
    "FlowSubject",
    "FlowView",
    "MachineProbe",
    "checks_of",
    "examine_for",
    "subject_of",
]
