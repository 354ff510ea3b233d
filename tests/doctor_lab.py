"""Made-up machines for the tests of the doctor: a tree of files, and programs that answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmbench.doctor.finding import MachineProbe
from cmbench.lib.probe import ProbeResult

DEBIAN = "ID=debian\nVERSION_ID=12\n"


class MadeUp:
    """A Debian below ``root``; who builds on it says which programs are there and what they say.

    It is an x86-64 wherever the tests run, and nobody is root there.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.write("etc/os-release", DEBIAN)

    def write(self, name: str, text: str = "") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def find(self, name: str) -> Path | None:
        raise NotImplementedError

    def answer(self, name: str, words: Sequence[str]) -> tuple[int, str]:
        """Status and output of the program ``name``."""
        raise NotImplementedError

    def ask(self, command: Sequence[Any], timeout: float) -> ProbeResult:
        assert timeout <= 10, "a doctor who does not come back is none"
        words = [str(word) for word in command]
        status, text = self.answer(Path(words[0]).name, words[1:])
        return ProbeResult(tuple(words), status, text, "", 0.1)

    def machine(self, **environ: str) -> MachineProbe:
        return MachineProbe(
            store=str(self.root / "home"),
            root=self.root,
            environ=environ,
            ask=self.ask,
            find=self.find,
            uid=1000,
            architecture="x86_64",
        )
