"""Settings of a server, as its owner passes them to its keeper."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from common.records import RecordReader

# Names of regions in /dev/shm begin with it, so that leftovers are known as ours.
FAMILY = "cmtriton-"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the server answers: HTTP, gRPC, metrics."""

    http: int
    grpc: int
    metrics: int

    def each(self) -> tuple[int, int, int]:
        """Return all three ports."""
        return self.http, self.grpc, self.metrics


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """Settings of a keeper: a command, its mark, its log, and the commands at the end.

    ``orphaned`` are commands for the end of an owner that could not run them: until then it may
    need what they remove.
    """

    command: tuple[str, ...]
    mark: str
    folder: str
    finish: tuple[tuple[str, ...], ...] = ()
    owned: bool = True
    orphaned: tuple[tuple[str, ...], ...] = ()

    @property
    def log(self) -> Path:
        """Return the path of the server's log."""
        return Path(self.folder, "server.log")

    def write(self) -> Path:
        """Write it to its folder, and return the file."""
        path = Path(self.folder, "keeper.json")
        path.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")
        return path


def read(path: Path) -> KeeperSettings:
    """Read the settings that ``KeeperSettings.write`` has stored."""
    return RecordReader(ValueError).decode(KeeperSettings, json.loads(path.read_text("utf-8")))


def new_mark() -> str:
    """Return a mark that no other server has; it ends so that no mark begins another."""
    return f"{FAMILY}{os.getuid()}-{secrets.token_hex(6)}-"
