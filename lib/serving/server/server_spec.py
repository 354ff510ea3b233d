"""The settings of a server, and its command line."""

from __future__ import annotations

from dataclasses import dataclass

from .container import ServerContainer, devices
from .settings import Ports


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """The settings of a server; ``ports`` of None means free ones, ``models`` of () all.

    Attributes:
        launcher: The program ``tritonserver``.
        repository: The folder of models.
        models: Those to load, instead of all of the repository.
        ports: Given, or None for any free ones.
        host: The address to listen at.
        timeout_s: How long the models may take until they are ready.
        more: Further options of the server.
        engine, image: The container engine and the image, where it is to run in a container.
    """

    launcher: str
    repository: str
    models: tuple[str, ...] = ()
    ports: Ports | None = None
    host: str = "127.0.0.1"
    timeout_s: float = 120.0
    more: tuple[str, ...] = ()
    engine: str = ""
    image: str = ""

    def command(self, ports: Ports, mark: str) -> list[str]:
        """Return the server's command line; the names of its shared memory begin with ``mark``."""
        if self.image:
            return self._container(mark).server(ports, self.host, self._loaded())
        words = [self.launcher, f"--model-repository={self.repository}"]
        words += [f"--http-address={self.host}", f"--grpc-address={self.host}"]
        words += [f"--metrics-address={self.host}"]
        for name, port in zip(("http", "grpc", "metrics"), ports.each(), strict=True):
            words.append(f"--{name}-port={port}")
        words.append(f"--backend-config=python,shm-region-prefix-name={mark}")
        return [*words, *self._loaded()]

    def finish(self, mark: str) -> tuple[tuple[str, ...], ...]:
        """Return the commands that end a server which is not a child of its owner."""
        return (tuple(self._container(mark).remove()),) if self.image else ()

    def _loaded(self) -> list[str]:
        only = [f"--load-model={name}" for name in self.models]
        return [*(["--model-control-mode=explicit"] if only else []), *only, *self.more]

    def _container(self, mark: str) -> ServerContainer:
        return ServerContainer(
            self.engine, self.image, self.repository, mark.rstrip("-"), devices()
        )
