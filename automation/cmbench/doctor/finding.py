"""A finding, and the machine that checks look at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cmbench.lib.probe import ProbeResult, probe, which
from common.problems import Hint

OK, INFO, LOOK, STOP = "ok", "info", "look", "stop"
"""States of a finding: fine; good to know; may get in the way; nothing runs until it is fixed."""

_TIMEOUT = 8.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: what was looked at, its state, what was found, what to do.

    ``id`` names the check where it is one of the registry of a vendor's flow (``vendors.py``).
    """

    area: str
    state: str
    text: str
    remedy: str = ""
    id: str = ""

    def __post_init__(self) -> None:
        """Take the commands in the remedy as such."""
        object.__setattr__(self, "remedy", Hint(self.remedy))


@dataclass(frozen=True, slots=True)
class MachineProbe:
    """The machine as the checks read it; tests replace it with a fake.

    ``root`` is the tree with ``/proc``, ``/sys`` and ``/dev``. ``store`` is where the cache lies.
    """

    store: str
    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    ask: Callable[..., ProbeResult] = probe
    find: Callable[[str], Path | None] = which
    uid: int = field(default_factory=os.geteuid)
    architecture: str = field(default_factory=lambda: os.uname().machine)

    def read(self, path: str) -> str:
        """The text of a file below ``root``; empty where there is none."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def glob(self, pattern: str) -> list[Path]:
        """What matches ``pattern`` below ``root``, sorted."""
        return sorted(self.root.glob(pattern))

    def say(self, *command: str) -> ProbeResult:
        """What a program answers within a few seconds."""
        return self.ask(list(command), timeout=_TIMEOUT)


Check = Callable[[MachineProbe], Iterator[Finding]]


def checked(check: Check, machine: MachineProbe) -> list[Finding]:
    """What one check finds; one that fails itself is a finding too."""
    try:
        return list(check(machine))
    except (OSError, ValueError) as problem:
        area = check.__name__.strip("_")
        return [Finding(area, LOOK, f"could not be checked: {problem}")]
