"""The server in a container: the command lines of the guide, for the devices that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .settings import Ports

FACTS = Path(__file__).with_name("container.json")


def facts() -> dict[str, Any]:
    """What all containers are started with: the options that the guide gives."""
    told: dict[str, Any] = json.loads(FACTS.read_text(encoding="utf-8"))
    return told


def usual_ports() -> Ports:
    """Those that Triton takes where none are given; in the container they are always these."""
    return Ports(*facts()["ports"])


def devices(root: Path = Path("/")) -> list[str]:
    """The Neuron devices of this machine, in the order of their numbers."""
    pattern = str(facts()["device_pattern"]).lstrip("/")
    found = [path for path in root.glob(pattern) if re.fullmatch(r"neuron\d+", path.name)]
    numbers = sorted(int(path.name.removeprefix("neuron")) for path in found)
    return [f"/dev/neuron{number}" for number in numbers]


@dataclass(frozen=True, slots=True)
class Container:
    """How a server or a client runs in a container; ``engine`` is docker or one like it."""

    engine: str
    image: str
    repository: str
    name: str
    found: Sequence[str] = ()

    def server(self, ports: Ports, host: str, more: Sequence[str] = ()) -> list[str]:
        """The command line that starts the server, as guide 003 has it."""
        words = [self.engine, "run", "--rm", "--name", self.name]
        for device in self.found:
            words += ["--device", device]
        words += ["-v", f"{self.repository}:{self.repository}", *facts()["server"]]
        for outer, inner in zip(ports.each(), usual_ports().each(), strict=True):
            words += ["-p", f"{host}:{outer}:{inner}"]
        return [*words, self.image, "tritonserver", "--model-repository", self.repository, *more]

    def client(self) -> list[str]:
        """The command line for a shell with the clients of the image."""
        words = [self.engine, "run", "--rm", "-ti", "-v", f"{self.repository}:{self.repository}"]
        return [*words, *facts()["client"], self.image, "/bin/bash"]

    def remove(self) -> list[str]:
        """What ends it, whatever became of the program that started it."""
        return [self.engine, "rm", "--force", self.name]
