"""Download one file through cmbench's own downloader."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.download import PartialFile, download, take
from cmbench.lib.download_request import (
    DownloadRequest,
    Group,
    read_request,
    wanted_checksum,
    wanted_size,
)
from cmbench.lib.files import ProgressFile
from cmbench.lib.text_files import size_text
from cmbench.lib.urls import mask_url
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    local = env.get("CM_DOWNLOAD_LOCAL_FILE_PATH")
    path = use_local(env, Path(local)) if local else fetch(env)
    env["CM_DOWNLOAD_DOWNLOADED_PATH"] = str(path)
    env["CM_GET_DEPENDENT_CACHED_PATH"] = str(path)
    final = env.get("CM_DOWNLOAD_FINAL_ENV_NAME")
    if final:
        env[final] = str(path)
    return {"return": 0}


def use_local(env: dict[str, Any], local: Path) -> Path:
    """A file of the user's own, used where it is."""
    path = Path(os.path.abspath(local.expanduser()))
    if not path.exists():
        raise Error(
            "file-not-found",
            f"there is no {path}",
            hint="check the path given with --local_path",
        )
    if path.is_dir():
        return path
    try:
        download(str(path), path, size=wanted_size(env), checksum=wanted_checksum(env))
    except Error as problem:
        problem.hint = "the file is another one, or damaged: check the path given with --local_path"
        raise
    return path


def fetch(env: dict[str, Any]) -> Path:
    """Return the requested file, downloaded or local; raise Error without a URL."""
    wanted = read_request(env)
    if not wanted.groups:
        raise Error("bad-value", "no URL to download from", hint="give one with --url=...")
    folder = Path(env.get("CM_DOWNLOAD_PATH") or os.getcwd()).expanduser()
    return first_of(env, wanted, wanted.groups, folder / wanted.name)


def first_of(
    env: dict[str, Any], wanted: DownloadRequest, groups: Sequence[Group], target: Path
) -> Path:
    """Return the file from the first group that has it; an error lists all that were tried."""
    try:
        return fetch_from(env, wanted, groups[0], target)
    except Error as failure:
        if len(groups) == 1:
            raise
        # What one file has left is no beginning of another.
        PartialFile(target).forget()
        tried = failure.context or (failure.message,)
    try:
        return first_of(env, wanted, groups[1:], target)
    except Error as failure:
        context = (*tried, *(failure.context or (failure.message,)))
        raise Error(failure.code, failure.message, hint=failure.hint, context=context) from None


def fetch_from(env: dict[str, Any], wanted: DownloadRequest, group: Group, target: Path) -> Path:
    checksum, urls = group
    done = take(
        urls,
        target,
        str(env.get("CM_TMP_DOWNLOADS") or ""),
        size=wanted.size,
        checksum=checksum,
        progress=ProgressFile(env.get("CM_PROGRESS_FILE"), target.name),
        offline=is_yes(env.get("CM_TMP_OFFLINE")),
        verify=wanted.verify,
    )
    print(f"{target.name}: {size_text(done.size)} {origin(done.source)}")
    return done.path


def origin(source: str) -> str:
    known = {"present": "was here already", "ahead": "fetched ahead of this step"}
    return known.get(source) or f"from {mask_url(source)}"
