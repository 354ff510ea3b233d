"""Reading and writing an artefact's sidecar, and comparing the artefact with it."""

from __future__ import annotations

import json
from pathlib import Path

from common.files import replace_text, sha256

from .artefact import ArtefactError, NeuronArtefact, from_facts


def sidecar_of(path: Path) -> Path:
    """Return the path of an artefact's JSON sidecar."""
    return path.with_name(f"{path.name}.json")


def read(path: Path, *, verify_digest: bool = True) -> NeuronArtefact:
    """Read the artefact or sidecar at ``path``; raise ArtefactError.

    With ``verify_digest`` the SHA-256 of the artefact is compared too, which takes a second per GB.
    """
    beside = path if path.suffix == ".json" else sidecar_of(path)
    try:
        record = json.loads(beside.read_text(encoding="utf-8"))
    except OSError as error:
        text = f"nothing tells what {path} was compiled for: {beside}: {error.strerror}"
        raise ArtefactError(text if path.exists() else f"{path} is not compiled yet") from error
    except ValueError as error:
        raise ArtefactError(f"{beside} is not JSON: {error}") from error
    artefact = from_facts(record, str(beside))
    _compare(beside.with_name(artefact.file), artefact, verify_digest)
    return artefact


def write(path: Path, artefact: NeuronArtefact) -> Path:
    """Write the sidecar of the artefact at ``path``, at once or not at all; returns its path."""
    beside = sidecar_of(path)
    replace_text(beside, json.dumps(artefact.facts(), indent=2) + "\n")
    return beside


def _compare(path: Path, artefact: NeuronArtefact, verify_digest: bool) -> None:
    if not path.is_file():
        raise ArtefactError(f"there is no {path}, which the file beside it describes")
    if path.stat().st_size != artefact.bytes or (verify_digest and sha256(path) != artefact.sha256):
        raise ArtefactError(f"{path} is not the file that was compiled")
