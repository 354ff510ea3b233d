"""Makes NVIDIA's configurations and words importable, and flows that run nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from support import ROOT

sys.path.append(str(ROOT / "script/run-harness/src"))
sys.path.append(str(ROOT / "script/compile-neuron-model/src"))

from nvidia_flow import registry
from nvidia_flow.systems import Machine
from nvidia_make import asked, flow, targets
from nvidia_make.neuron import Device

KNOWN = registry.load()


@dataclass
class Hands:
    """Keeps what a word would have called; ``gpus`` is the machine that it finds."""

    gpus: Machine | None = None
    lines: list[list[str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    found: list[dict[str, str]] = field(default_factory=list)
    made: list[tuple[str, dict[str, Any], list[str]]] = field(default_factory=list)

    def findings(self, vendor: str, subject: Mapping[str, Any]) -> list[Mapping[str, str]]:
        return [*self.found]

    def cards(self) -> list[dict[str, Any]]:
        return []

    def ask(self, command: Sequence[str]) -> tuple[int, str]:
        raise AssertionError(f"nothing is asked of {command}")

    def container_engine(self, asked: str) -> str:
        return asked

    def container(
        self, what: str, told: Mapping[str, Any], command: Sequence[str], only_print: bool
    ) -> int:
        self.made.append((what, dict(told), list(command)))
        return 0

    def cm(self, line: Sequence[str]) -> int:
        self.lines.append(list(line))
        return 0

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        raise AssertionError(f"nothing is asked of {line}")

    def machine(self) -> Machine | None:
        return self.gpus

    def neuron(self) -> Device:
        return Device()

    def tell(self, line: str) -> None:
        self.told.append(line)

    def show(self, line: str) -> None:
        self.shown.append(line)


def a_flow(folder: Path, run_args: str = "", **given: Any) -> flow.Flow:
    hands = given.pop("hands", None) or Hands()
    settings = replace(flow.Settings("Me", form="tiny", execution_mode="test"), **given)
    return flow.Flow(folder, settings, {"RUN_ARGS": run_args}, targets.NVIDIA, hands)


def read(text: str, vendor_round: str = "v0.7", benchmarks: str = "") -> asked.Asked:
    return asked.read(text, KNOWN.fields, vendor_round, benchmarks)
