"""What a server is started with, as its owner and its keeper hand it to each other."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Names of regions in /dev/shm begin with it, so that leftovers are known as ours.
FAMILY = "cmtriton-"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the server answers: HTTP, gRPC, metrics."""

    http: int
    grpc: int
    metrics: int

    def each(self) -> tuple[int, int, int]:
        """All three."""
        return self.http, self.grpc, self.metrics


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """What a keeper looks after: a command, its mark, its log, and what to run at the end.

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
        """All that the server writes."""
        return Path(self.folder, "server.log")

    def write(self) -> Path:
        """Store it in its folder, and return the file."""
        path = Path(self.folder, "keeper.json")
        path.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")
        return path


def read(path: Path) -> KeeperSettings:
    """What ``KeeperSettings.write`` has stored."""
    record: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    finish, orphaned = (tuple(map(tuple, record[name])) for name in ("finish", "orphaned"))
    command = tuple(record["command"])
    return KeeperSettings(
        command, record["mark"], record["folder"], finish, record["owned"], orphaned
    )


def new_mark() -> str:
    """A mark that no other server has; it ends so that no mark begins another."""
    return f"{FAMILY}{os.getuid()}-{secrets.token_hex(6)}-"
