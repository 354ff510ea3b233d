"""Reading and writing an artefact's sidecar, and comparing the artefact with it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from .artefact import ArtefactError, NeuronArtefact, from_facts

BLOCK = 1 << 24


def sidecar_of(path: Path) -> Path:
    """Return the path of an artefact's JSON sidecar."""
    return path.with_name(f"{path.name}.json")


def read(path: Path, *, whole: bool = True) -> NeuronArtefact:
    """Read the artefact or sidecar at ``path``; raise ArtefactError.

    With ``whole`` the SHA-256 of the artefact is compared too, which takes a second per GB.
    """
    beside = path if path.suffix == ".json" else sidecar_of(path)
    try:
        record = json.loads(beside.read_text(encoding="utf-8"))
    except OSError as error:
        text = f"nothing tells what {path} was compiled for: {beside}: {error.strerror}"
        raise ArtefactError(text) from error
    except ValueError as error:
        raise ArtefactError(f"{beside} is not JSON: {error}") from error
    artefact = from_facts(record, str(beside))
    _compare(beside.with_name(artefact.file), artefact, whole)
    return artefact


def write(path: Path, artefact: NeuronArtefact) -> Path:
    """Write the sidecar of the artefact at ``path``, at once or not at all; returns its path."""
    beside = sidecar_of(path)
    unfinished = beside.with_name(f".{beside.name}.{os.getpid()}.part")
    try:
        unfinished.write_text(json.dumps(artefact.facts(), indent=2) + "\n", encoding="utf-8")
        os.replace(unfinished, beside)
    finally:
        unfinished.unlink(missing_ok=True)
    return beside


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _compare(path: Path, artefact: NeuronArtefact, whole: bool) -> None:
    if not path.is_file():
        raise ArtefactError(f"there is no {path}, which the file beside it describes")
    if path.stat().st_size != artefact.bytes or (whole and sha256(path) != artefact.sha256):
        raise ArtefactError(f"{path} is not the file that was compiled")
