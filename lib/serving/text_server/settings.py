"""Settings of a server, and what its user must know of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from .engines import ENGINES, FOLDER, TextEngine

PROGRAM = "serving.text_server"


@dataclass(frozen=True, slots=True)
class TextServerSettings:
    """A model and how it is served. ``context`` are tokens for each of ``slots`` requests.

    ``threads`` 0 is one for each core. ``cache`` keeps prompts, as most engines do by default.
    ``dtype`` is the number format of weights, auto for the model's own.
    """

    model: str
    engine: str = "llama"
    host: str = "127.0.0.1"
    port: int = 8080
    slots: int = 4
    context: int = 4096
    threads: int = 0
    cache: str = "yes"
    dtype: str = "auto"

    @property
    def kind(self) -> TextEngine:
        """Return the facts of its engine."""
        return ENGINES[self.engine]

    @property
    def name(self) -> str:
        """Return the name under which the model is served."""
        path = Path(self.model)
        return path.name if self.kind.opens == FOLDER else path.stem

    def command(self, python: str) -> tuple[str, ...]:
        """Return the command line of our program, which starts the server."""
        words = (f"--{name}={value}" for name, value in asdict(self).items())
        return (python, "-m", PROGRAM, *words)

    def server_command(self, python: str) -> tuple[str, ...]:
        """Return the command line of an engine that is a program of its own."""
        kind, values = self.kind, {**asdict(self), "name": self.name}
        words = [
            *kind.words,
            *(kind.cached if self.cache == "yes" else kind.uncached),
            *(kind.together if self.slots > 1 else ()),
        ]
        return (python, *(word.format(**values) for word in words))

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the server; those that its user has set count."""
        count = self.threads or len(os.sched_getaffinity(0))
        return {**dict(self.kind.environment), "OMP_NUM_THREADS": str(count), **own}

    def facts(self) -> dict[str, object]:
        """Return what figures depend on, for a report."""
        names = ("engine", "slots", "context", "cache", "dtype")
        return {**{name: getattr(self, name) for name in names}, "threads": self.threads or "all"}

    def notes(self) -> Iterator[str]:
        """Yield what makes figures of this server other than they seem."""
        kind = self.kind
        yield from (text.format(**asdict(self)) for text in kind.traps)
        if kind.caching and self.cache == "yes":
            yield kind.caching
        if kind.unverified:
            yield f"not verified: {kind.unverified}"


def read_arguments(arguments: Sequence[str]) -> TextServerSettings:
    """Return the settings that ``TextServerSettings.command`` has written."""
    parser = argparse.ArgumentParser(prog=PROGRAM, allow_abbrev=False)
    for item in fields(TextServerSettings):
        kind = int if item.type == "int" else str
        parser.add_argument(f"--{item.name}", type=kind, required=True)
    return TextServerSettings(**vars(parser.parse_args(arguments)))
