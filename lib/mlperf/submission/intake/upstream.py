"""The files of CM and MLC next to LoadGen's logs: facts of system, model and code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..build import MEASUREMENT_KEYS
from ..fields import FIELDS, NETWORK_FIELDS
from ..sources import as_object
from ..system import FieldValue, without_accelerator

META = "system_meta.json"
SUT_INFO = ("mlc-sut-info.json", "cm-sut-info.json")
HOST_INFO = ("mlc-host-info.json", "cm-host-info.json")
# What they write for what they do not know.
NOTHING = ("", "undefined", "none", "null", "tbd", "default")
# Those are said anew for every submission.
OWNERS = ("submitter", "division", "system_type")
DEVICE = re.compile(r"(?:^|[-_])(cpu|cuda|gpu|rocm|tpu|qaic)(?=$|[-_])")


def read(folders: Iterable[Path], names: Iterable[str]) -> dict[str, object]:
    """Return the first JSON object with one of the names in one of the folders, or an empty one."""
    file_names = tuple(names)
    for path in (folder / name for folder in folders for name in file_names):
        document = as_object(path.read_text("utf-8", "replace")) if path.is_file() else None
        if document is not None:
            return document
    return {}


def known(document: Mapping[str, object]) -> dict[str, str]:
    """Return the keys of a file that have a value, as texts."""
    texts = {name: str(value).strip() for name, value in document.items() if value is not None}
    return {name: text for name, text in texts.items() if text.lower() not in NOTHING}


def facts(folders: Iterable[Path]) -> dict[str, FieldValue]:
    """Fields of the system's description."""
    places = tuple(folders)
    meta = known(read(places, (META,)))
    sut = known(read(places, SUT_INFO))
    names = {field.name for field in (*FIELDS, *NETWORK_FIELDS)} - set(OWNERS)
    values = {name: FieldValue(meta[name], META) for name in names & set(meta)}
    framework = meta.get("framework") or " ".join(
        word for word in (sut.get("framework"), sut.get("framework_version")) if word
    )
    if framework:
        values["framework"] = FieldValue(framework, META)
    return values


def owned(folders: Iterable[Path], name: str) -> str:
    """Return division or category of the runs, empty where they are not set."""
    return known(read(folders, (META,))).get(name, "")


def device(folders: Iterable[Path], system: str) -> str:
    """Return the device of a system: as declared, or by its name."""
    declared_device = known(read(folders, SUT_INFO)).get("device", "")
    named = DEVICE.search(system)
    return declared_device or (named.group(1) if named else "")


def of_device(name: str) -> dict[str, FieldValue]:
    """Return the fields of the system that follow from the device."""
    return without_accelerator() if name == "cpu" else {}


def measurements(folders: Iterable[Path]) -> Path | None:
    """The file that describes the implementation: by its keys, as its name differs by round."""
    return next((path for path in _objects(folders) if _describes(path)), None)


def _objects(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(folder.glob("*.json"))


def _describes(path: Path) -> bool:
    # Logs of answers are not searched.
    if path.name.startswith("mlperf_log") or path.stat().st_size > 1 << 16:
        return False
    document = as_object(path.read_text("utf-8", "replace"))
    return document is not None and set(MEASUREMENT_KEYS) <= set(document)


def code(folders: Iterable[Path], benchmark: str, system: str) -> str:
    """Return a README.md instead of the code: its repository and revision, where known."""
    places = tuple(folders)
    sut, host = known(read(places, SUT_INFO)), known(read(places, HOST_INFO))
    lines = [f"# {benchmark}: implementation", ""]
    words = {name: sut.get(name, "") for name in ("implementation", "framework", "device")}
    if any(words.values()):
        statements = (f"{name} {text}" for name, text in words.items() if text)
        lines += [f"The runs of {system} were made with: {', '.join(statements)}.", ""]
    repository = host.get("mlc_repo_name") or host.get("cm_repo_name")
    revision = host.get("mlc_repo_git_hash") or host.get("cm_repo_git_hash")
    if repository:
        at = f", revision `{revision}`" if revision else ""
        lines += [f"Automation: `{repository}`{at}.", ""]
    return "\n".join([*lines, "The README.md of each scenario says how it was run.", ""])
