"""Download one file through cmbench's own downloader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.download import download
from cmbench.lib.download_spool import take
from cmbench.lib.files import ProgressFile
from cmbench.lib.text_files import size_text
from cmbench.lib.transfer import forget
from cmbench.lib.urls import file_name, mask_url
from cmbench.lib.yes_no import is_no, is_yes


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


def use_local(env: dict[str, Any], given: Path) -> Path:
    """A file of the user's own, used where it is."""
    path = Path(os.path.abspath(given.expanduser()))
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
    groups = addresses(env)
    if not groups:
        raise Error("bad-value", "no URL to download from", hint="give one with --url=...")
    folder = Path(env.get("CM_DOWNLOAD_PATH") or os.getcwd()).expanduser()
    name = env.get("CM_DOWNLOAD_FILENAME") or file_name(groups[0][1][0])
    target = folder / (env.get("CM_DOWNLOAD_RENAME_FILE") or name)
    return first_of(env, groups, target)


def first_of(env: dict[str, Any], groups: list[tuple[str, list[str]]], target: Path) -> Path:
    """The file of the first group that has it; an error tells of all that were tried."""
    (checksum, urls), *others = groups
    try:
        return fetch_from(env, urls, checksum, target)
    except Error as failure:
        if not others:
            raise
        # What one file has left is no beginning of another.
        forget(target.with_name(target.name + ".part"))
        tried = failure.context or (failure.message,)
    try:
        return first_of(env, others, target)
    except Error as failure:
        context = (*tried, *(failure.context or (failure.message,)))
        raise Error(failure.code, failure.message, hint=failure.hint, context=context) from None


def fetch_from(env: dict[str, Any], urls: list[str], checksum: str, target: Path) -> Path:
    done = take(
        urls,
        target,
        str(env.get("CM_TMP_DOWNLOADS") or ""),
        size=wanted_size(env),
        checksum=checksum,
        progress=ProgressFile(env.get("CM_PROGRESS_FILE"), target.name),
        offline=is_yes(env.get("CM_TMP_OFFLINE")),
        verify=not is_no(env.get("CM_VERIFY_SSL")),
    )
    print(f"{target.name}: {size_text(done.size)} {origin(done.source)}")
    return done.path


def origin(source: str) -> str:
    known = {"present": "was here already", "ahead": "fetched ahead of this step"}
    return known.get(source) or f"from {mask_url(source)}"


def addresses(env: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The addresses in order, those that follow each other with the same checksum together."""
    found: list[tuple[str, list[str]]] = []
    for number in ("", "1", "2", "3", "4"):
        url = str(env.get(f"CM_DOWNLOAD_URL{number}") or "").strip()
        if not url:
            continue
        own = str(env.get(f"CM_DOWNLOAD_CHECKSUM{number}") or "").strip()
        checksum = own or wanted_checksum(env)
        if not found or found[-1][0] != checksum:
            found.append((checksum, []))
        found[-1][1].append(url)
    return found


def wanted_checksum(env: dict[str, Any]) -> str:
    return str(env.get("CM_DOWNLOAD_CHECKSUM") or "").strip()


def wanted_size(env: dict[str, Any]) -> int | None:
    text = str(env.get("CM_DOWNLOAD_SIZE") or "").strip()
    if text and not text.isdigit():
        raise Error("bad-value", f'"{text}" is not a size in bytes', hint="give a whole number")
    return int(text) if text else None
