"""Files that a program writes, and the facts about them in dataset.json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from common.files import replace_text, sha256
from modelzoo.program import ProgramError

DATASET_FACTS = "dataset.json"


def file_facts(path: Path) -> dict[str, Any]:
    """Size in bytes and SHA-256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def facts_of_files(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return size and SHA-256 of these files in ``folder``."""
    return {name: file_facts(folder / name) for name in names}


def write_facts(folder: Path, facts: Mapping[str, Any], indent: int = 1) -> None:
    """Write dataset.json, which a program does last of all."""
    replace_text(folder / DATASET_FACTS, json.dumps(facts, indent=indent) + "\n")


def read_facts(folder: Path) -> dict[str, Any]:
    """Return dataset.json of ``folder``."""
    facts: dict[str, Any] = json.loads((folder / DATASET_FACTS).read_text(encoding="utf-8"))
    return facts


def intact_facts(folder: Path) -> dict[str, Any]:
    """What dataset.json says; ValueError when one of the files was changed since."""
    facts = read_facts(folder)
    for name, file in facts["files"].items():
        if sha256(folder / name) != file["sha256"]:
            raise ValueError(f"{folder / name} does not have the sha256 noted in {DATASET_FACTS}")
    return facts


def held_out(folder: Path, file: str, **counts: str) -> dict[str, Any]:
    """Return the entry of model.json for the data in ``folder`` that a model was judged by.

    ``file`` is the array that identifies them; ``counts`` maps names to keys: cases="count".
    """
    data = read_facts(folder)
    return {
        "name": data["name"],
        **{name: data[key] for name, key in counts.items()},
        **data["files"][file],
    }


def array(path: Path, dtype: Any, *shape: int) -> Any:
    """An array of zeros in a new .npy file, which is written as the array is filled."""
    import numpy as np

    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)


def check_disk(
    folder: Path, needed: int, message: str = "", margin: int = 0, *, advice: str = "", old: int = 0
) -> None:
    """Raise ProgramError when ``needed`` bytes and ``margin`` do not fit into ``folder``.

    ``{needed}`` and ``{free}`` in the message are replaced by gigabytes. ``old`` bytes there will
    be written over.
    """
    free = shutil.disk_usage(folder).free + old
    if free < needed + margin:
        usual = f"{{needed:.1f}} GB are needed in {folder}, {{free:.1f}} GB are free"
        raise ProgramError((message or usual).format(needed=needed / 1e9, free=free / 1e9), advice)
