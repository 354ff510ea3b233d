"""Writing a model of a repository: all of it, or nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from common.problems import Problem

from . import config_text, onnx_weights, refusals
from .plan import ModelArtefact, RepositoryPlan

# Programs for the server, which may run them in a Python as old as 3.8.
PROGRAMS = Path(__file__).with_name("models")
SHARED = "served.py"
CONTENT = "CONTENT_SHA256"


@dataclass(frozen=True, slots=True)
class WrittenModel:
    """A model in a repository: its folder, its SHA-256, and notes."""

    folder: Path
    sha256: str
    label: str
    notes: tuple[str, ...]


def write(plan: RepositoryPlan, repository: Path) -> WrittenModel:
    """Check a plan and write its model into ``repository``, replacing one of that name.

    Raises Problem; then what was there before is still there.
    """
    notes = refusals.check(plan)
    text = config_text.write(plan)
    config_text.check(plan, text)
    new, old = repository / f".{plan.name}.new", repository / f".{plan.name}.old"
    try:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        version = new / str(plan.version)
        version.mkdir(parents=True)
        (new / "config.pbtxt").write_text(text, encoding="utf-8")
        shutil.copyfile(PROGRAMS / f"{plan.runtime}.py", version / "model.py")
        for helper in (str(PROGRAMS / SHARED), *plan.helpers):
            shutil.copyfile(helper, version / Path(helper).name)
        sums = dict(_put(plan.artefact, version)) if plan.artefact else {}
        digest = _digest(new, sums)
        _tell(plan, digest, new / "config.pbtxt")
        folder = repository / plan.name
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        text = f"{error.filename}: {error.strerror}"
        raise Problem("not-writable", text, "choose another folder") from error
    return WrittenModel(folder, digest, plan.label, tuple(notes))


def _tell(plan: RepositoryPlan, digest: str, path: Path) -> None:
    """Say in the configuration what the model consists of: clients of the server see it there."""
    whole = replace(plan, parameters={**plan.parameters, CONTENT: digest})
    text = config_text.write(whole)
    config_text.check(whole, text)
    path.write_text(text, encoding="utf-8")


def _put(artefact: ModelArtefact, version: Path) -> Iterator[tuple[str, str]]:
    """Write the files of a model; yield their names in the version's folder, and checksums."""
    path = Path(artefact.path.rstrip("/"))
    if path.is_dir():
        shutil.copytree(path.resolve(), version / path.name, copy_function=_link)
        return
    for name, source in {path.name: path, **onnx_weights.files(path)}.items():
        target = version / name
        target.parent.mkdir(parents=True, exist_ok=True)
        _link(str(source.resolve()), str(target))
        known = artefact.sha256 if source == path else ""
        yield str(target.relative_to(version.parent)), known or _sum(source)


def _link(source: str, target: str) -> None:
    """The file under a second name; a copy where that is on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _digest(folder: Path, known: dict[str, str]) -> str:
    """Return the SHA-256 of the names and sums of all files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in files}
    sums = {name: known.get(name) or _sum(path) for name, path in names.items()}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
