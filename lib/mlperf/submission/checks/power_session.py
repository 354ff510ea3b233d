"""Sessions of a power measurement: its client and server, and the files that they made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..build import LOGS, SAMPLES
from ..files import text
from ..layouts import POWER, RANGING, ScenarioCell
from .base import CHECKER, FIRST_FILLED, Finding, Rule, SubmitterSite

SESSION = Rule(
    "power.session",
    "client and server of one session, and their files unchanged",
    CHECKER,
    first=FIRST_FILLED,
)

CLIENT, SERVER = "client.json", "server.json"
WRITTEN = ("client.log", "ptd_logs.txt", "server.log")
ALIKE = ("session_name", "uuid", "version")
# Client and server look at their own clocks.
TIME = "time"
AGAIN = "put the files of one session there, unchanged, or measure again with the power meter"


def session(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    """Compare what client and server say of a session with each other and with its files."""
    folder = cell.results / POWER
    described = {name: _document(folder / name) for name in (CLIENT, SERVER)}
    for name, document in described.items():
        # An empty file is one that is missing.
        if document is None and text(folder / name):
            yield SESSION.broken(site.where(folder / name), "it is not a JSON object", AGAIN)
    client, server = described.values()
    if client is None or server is None:
        return
    where = site.where(folder / SERVER)
    for fault in (*_unlike(client, server), *_of_debugging(server)):
        yield SESSION.broken(where, fault, AGAIN)
    yield from _checksums(site, cell, (client, server))


def _document(path: Path) -> Mapping[str, Any] | None:
    """Return a JSON object, or None where there is none."""
    try:
        document = json.loads(text(path))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _unlike(client: Mapping[str, Any], server: Mapping[str, Any]) -> Iterator[str]:
    for key in ALIKE:
        if client.get(key) != server.get(key):
            yield f"its {key} is {server.get(key)!r}, that of {CLIENT} is {client.get(key)!r}"
    sent, received = (_exchanged(document) for document in (client, server))
    for number, (mine, other) in enumerate(zip(sent, received, strict=False)):
        if mine != other:
            yield f"its message {number} is {other!r}, that of {CLIENT} is {mine!r}"
            return
    if len(sent) != len(received):
        yield f"it has {len(received)} messages, {CLIENT} has {len(sent)}"


def _exchanged(document: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return commands and replies."""
    messages = document.get("messages")
    pairs = (
        [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    )
    return [
        (each.get("cmd"), None if each.get("cmd") == TIME else each.get("reply")) for each in pairs
    ]


def _of_debugging(server: Mapping[str, Any]) -> Iterator[str]:
    if server.get("debug"):
        yield "the server ran in debug mode"


def _checksums(
    site: SubmitterSite, cell: ScenarioCell, documents: tuple[Mapping[str, Any], ...]
) -> Iterator[Finding]:
    stated: dict[str, set[str]] = {}
    for document in documents:
        results = document.get("results")
        for name, checksum in results.items() if isinstance(results, dict) else ():
            stated.setdefault(name, set()).add(str(checksum))
    performance = (cell.results / POWER).parent
    power, ranging = Path(POWER).name, Path(RANGING).name
    wanted = [f"{power}/{name}" for name in WRITTEN]
    wanted += [
        f"{folder}/{name}" for folder in (ranging, cell.run.name) for name in (*LOGS, SAMPLES)
    ]
    for name in wanted:
        path = performance / name
        if path.is_file() and path.stat().st_size and stated.get(name) != {_checksum(path)}:
            fault = f"its SHA-1 is not that of {CLIENT} and {SERVER}"
            yield SESSION.broken(site.where(path), fault, AGAIN)


def _checksum(path: Path) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
