"""The server in a container: the command lines of the guide, for the devices that are there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem

from .settings import Ports

# The default address at which container engines publish ports.
EVERYWHERE = "0.0.0.0"
CONTAINER_FACTS = Path(__file__).with_name("container.json")


def facts() -> dict[str, Any]:
    """What all containers are started with: the options that the guide gives."""
    record: dict[str, Any] = json.loads(CONTAINER_FACTS.read_text(encoding="utf-8"))
    return record


def usual_ports() -> Ports:
    """Those that Triton takes where none are given; in the container they are always these."""
    return Ports(*facts()["ports"])


def devices(root: Path = Path("/")) -> list[str]:
    """Return the Neuron devices of this machine, in the order of their numbers."""
    pattern = str(facts()["device_pattern"]).lstrip("/")
    paths = [path for path in root.glob(pattern) if re.fullmatch(r"neuron\d+", path.name)]
    numbers = sorted(int(path.name.removeprefix("neuron")) for path in paths)
    return [f"/dev/neuron{number}" for number in numbers]


@dataclass(frozen=True, slots=True)
class ServerContainer:
    """A server or client in a container; ``engine`` is docker or a compatible one."""

    engine: str
    image: str
    repository: str
    name: str
    devices: Sequence[str] = ()

    def server(self, ports: Ports, host: str, more: Sequence[str] = ()) -> list[str]:
        """Return the command line that starts the server, as in guide 003."""
        words = [self.engine, "run", "--rm", "--name", self.name]
        for device in self.devices:
            words += ["--device", device]
        words += ["-v", f"{self.repository}:{self.repository}", *facts()["server"]]
        prefix = "" if host == EVERYWHERE else f"{host}:"
        for outer, inner in zip(ports.each(), usual_ports().each(), strict=True):
            words += ["-p", f"{prefix}{outer}:{inner}"]
        return [*words, self.image, "tritonserver", "--model-repository", self.repository, *more]

    def client(self) -> list[str]:
        """Return the command line for a shell with the clients of the image."""
        words = [self.engine, "run", "--rm", "-ti", "-v", f"{self.repository}:{self.repository}"]
        return [*words, *facts()["client"], self.image, "/bin/bash"]

    def remove(self) -> list[str]:
        """What ends it, whatever became of the program that started it."""
        return [self.engine, "rm", "--force", self.name]


def fetch(engine: str, image: str, say: Callable[[str], None]) -> None:
    """Have the image here before a server has so and so long to be ready: it is some GB large.

    The engine's output about it is shown. Raises Problem where the image cannot be had.
    """
    there = subprocess.run([engine, "image", "inspect", image], capture_output=True, check=False)
    if not there.returncode:
        return
    words = [engine, "pull", image]
    say(shlex.join(words))
    status = subprocess.run(words, check=False).returncode
    if status:
        text = f"{engine} cannot get the image {image} (status {status})"
        hint = (
            "what it says stands above; another image: --adr.triton-server.image=NAME; without a "
            "container: leave out _container"
        )
        raise Problem("server-failed", text, hint)
