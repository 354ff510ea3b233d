"""Unpack one archive through cmbench's own extractor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.archives import extract
from cmbench.lib.files import (
    ProgressFile,
    file_checksum,
    parse_checksum,
    verify_listed,
)
from cmbench.lib.text_files import size_text
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    archive = find_archive(env)
    folder = Path(env.get("CM_EXTRACT_PATH") or os.getcwd()).expanduser()
    extra = str(env.get("CM_EXTRACT_TO_FOLDER") or "")
    name = str(env.get("CM_EXTRACT_EXTRACTED_FILENAME") or "")
    target = Path(os.path.abspath(folder / extra))
    done = extract(
        archive,
        target,
        strip_folder=is_yes(env.get("CM_EXTRACT_STRIP_FOLDER")),
        single_name=name,
        progress=ProgressFile(env.get("CM_PROGRESS_FILE"), f"unpacking {archive.name}"),
    )
    print(f"{archive.name}: {done.files} files, {size_text(done.size)}, in {target}")
    path = result(target, name) if name else done.single or target
    check(env, path)
    if is_yes(env.get("CM_EXTRACT_REMOVE_EXTRACTED")):
        archive.unlink()
    export(env, path)
    return {"return": 0}


def export(env: dict[str, Any], path: Path) -> None:
    final = env.get("CM_EXTRACT_FINAL_ENV_NAME")
    for key in ("CM_EXTRACT_EXTRACTED_PATH", "CM_GET_DEPENDENT_CACHED_PATH", final):
        if key:
            env[key] = str(path)


def find_archive(env: dict[str, Any]) -> Path:
    """The archive that the caller named; raises Error when it is no file."""
    text = str(env.get("CM_EXTRACT_FILEPATH") or "")
    if not text:
        raise Error("bad-value", "no archive to unpack", hint="name it with --input=/path/archive")
    path = Path(os.path.abspath(Path(text).expanduser()))
    if not path.is_file():
        raise Error(
            "file-not-found",
            f"there is no archive {path}",
            hint="check the path given with --input",
        )
    return path


def result(target: Path, wanted: str) -> Path:
    """The file or folder of the archive that the caller named.

    Raises Error when it is not there.
    """
    path = target / wanted
    if not path.exists():
        inside = ", ".join(sorted(item.name for item in target.iterdir())[:10])
        raise Error(
            "file-not-found",
            f"the archive has no {wanted}",
            hint="correct CM_EXTRACT_EXTRACTED_FILENAME, or leave it out",
            context=[f"it has: {inside}"],
        )
    return path


def check(env: dict[str, Any], path: Path) -> None:
    """Compare what was unpacked with the checksum or the list of checksums, where given.

    Raises Error when it differs.
    """
    listing = env.get("CM_EXTRACT_EXTRACTED_CHECKSUM_FILE")
    if listing:
        verify_listed(path, path / str(listing))
    text = env.get("CM_EXTRACT_EXTRACTED_CHECKSUM")
    if text:
        wanted = parse_checksum(str(text))
        checksum = file_checksum(path, wanted.algorithm) if path.is_file() else "a folder"
        if checksum != wanted.value:
            raise Error(
                "checksum-mismatch",
                f"{path} is not what was expected",
                hint="get the archive again, or correct the checksum",
                context=[f"expected {wanted}", f"got      {wanted.algorithm}:{checksum}"],
            )
