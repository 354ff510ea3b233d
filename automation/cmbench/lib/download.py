"""Get a file whatever happens on the way: mirrors, resume, retries, checks, one atomic result.

The file appears at its destination complete and verified, or not at all. What has come so far is
kept beside it as ``.part``, so that the next attempt, also of another process, goes on from there.
Passwords and tokens in URLs are never shown.

``take`` does so by way of a folder where files wait that were fetched ahead of their steps, under
their checksums, or their addresses where they have none. A part is safe there too: what lies in the
directory of a step is swept when that step is killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from cmbench.errors import Error
from cmbench.lib.files import (
    CHUNK,
    Progress,
    existing_parent,
    file_error,
    parse_checksum,
    require_space,
)
from cmbench.lib.partial_file import PartialFile
from cmbench.lib.text_files import sha256
from cmbench.lib.transfer import AttemptError, FileRequest, Policy, fetch_http
from cmbench.lib.urls import mask_url

__all__ = ["DownloadResult", "PartialFile", "Policy", "download", "place_of", "take"]


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """The file now at ``path``, of ``size`` bytes.

    ``source`` is its (masked) URL, or ``present``, or ``ahead`` (fetched before it was
    asked for).
    """

    path: Path
    size: int
    source: str


def download(
    urls: str | Sequence[str],
    destination: Path,
    *,
    size: int | None = None,
    checksum: str = "",
    name: str = "",
    progress: Progress | None = None,
    offline: bool = False,
    verify: bool = True,
    policy: Policy | None = None,
) -> DownloadResult:
    """Bring the file of ``urls`` to ``destination``; mirrors (http, https, file, paths) in order.

    ``size`` is in bytes, ``checksum`` as ``parse_checksum`` takes it, ``name`` what the user calls
    the file. A file that is already there is used when its checksum is right. ``offline`` forbids
    the network. ``verify=False`` accepts any TLS certificate. Proxies, ``REQUESTS_CA_BUNDLE``,
    ``SSL_CERT_FILE`` and ``~/.netrc`` are honoured.
    Raises Error: ``download-failed``, ``checksum-mismatch``, ``size-mismatch``, ``offline``,
    ``no-space``, ``file-not-found``, ``bad-value`` ...
    """
    sources = [urls] if isinstance(urls, str) else list(urls)
    if not sources or not all(sources):
        raise Error("bad-value", "no URL to download from", hint="give one with --url=...")
    expected = parse_checksum(checksum) if checksum else None
    part = PartialFile(Path(os.path.abspath(destination)))
    called = name or part.destination.name
    wanted = FileRequest(called, size, expected, progress, policy or Policy(), verify)

    def waiting() -> None:
        with suppress(OSError):
            wanted.report(part.size, size)

    try:
        part.destination.parent.mkdir(parents=True, exist_ok=True)
        with part.held(waiting):
            present = _present(part.destination, wanted)
            return present or _fetch(sources, part, wanted, offline)
    except OSError as problem:
        raise file_error(problem, part.destination, size or 0) from None


def take(
    urls: Sequence[str], destination: Path, folder: str, *, checksum: str = "", **how: Any
) -> DownloadResult:
    """As ``download``, but by way of ``folder``, where that is on the disk of ``destination``.

    What waits there, or is on its way, is taken from any disk. The checksum is verified here,
    whoever has put the file there. A part is gone on with.
    """
    address = _address(urls, **how)
    place = place_of(folder, checksum, address)
    waiting = PartialFile(place) if place else None
    if waiting is not None:
        waiting.withdraw()
    if (
        waiting is None
        or destination.exists()
        or not (waiting.is_begun() or (address and _on_one_disk(waiting.destination, destination)))
    ):
        return download(urls, destination, checksum=checksum, **how)
    done = download(urls, waiting.destination, checksum=checksum, name=destination.name, **how)
    try:
        _move(waiting.destination, destination)
    except FileNotFoundError:
        # Another run has taken it for itself in this moment.
        return download(urls, destination, checksum=checksum, **how)
    return DownloadResult(
        destination, done.size, "ahead" if done.source == "present" else done.source
    )


def place_of(folder: str, checksum: str, address: str = "") -> Path | None:
    """Where the file of that checksum, or else of that address, waits below ``folder``.

    ``None`` for lack of a folder, or of both. The address is hashed: it may hold secrets.
    """
    if not folder or not (checksum or address):
        return None
    if not checksum:
        return Path(folder) / f"url-{sha256(address)}"
    known = parse_checksum(checksum)
    return Path(folder) / f"{known.algorithm}-{known.value}"


def _address(urls: Sequence[str], verify: bool = True, **_: Any) -> str:
    """What names a file without a checksum; empty where none of ``urls`` is of the network.

    Whose sender was not verified is never gone on with by those who insist on that.
    """
    address = next((url for url in urls if url.startswith(("http://", "https://"))), "")
    return address if verify or not address else f"unverified {address}"


def _on_one_disk(place: Path, destination: Path) -> bool:
    """Return whether a file can be moved from ``place`` to ``destination`` at no cost."""
    try:
        disks = {os.stat(existing_parent(path.parent)).st_dev for path in (place, destination)}
    except OSError:
        return False
    return len(disks) == 1


def _move(place: Path, destination: Path) -> None:
    """Raise ``FileNotFoundError`` where ``place`` is gone, and Error where it cannot be moved."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(place, destination)
        return
    except FileNotFoundError:
        raise
    except OSError:  # It is on another disk.
        require_space(destination, place.stat().st_size)
    draft = destination.with_name(f".{destination.name}.{os.getpid()}")
    try:
        shutil.copyfile(place, draft)
        os.replace(draft, destination)
    except OSError as problem:
        raise Error(
            "file-error", f"cannot write {destination}: {problem.strerror}", hint="check its disk"
        ) from problem
    finally:
        draft.unlink(missing_ok=True)
    place.unlink(missing_ok=True)


def _present(destination: Path, wanted: FileRequest) -> DownloadResult | None:
    """The file, where it is there already and proves to be the right one."""
    if destination.is_dir():
        raise Error(
            "bad-value",
            f"{destination} is a folder, not a file",
            hint="give the name of the file too",
        )
    if wanted.checksum is None or not destination.is_file() or not wanted.fits(destination):
        return None
    return DownloadResult(destination, destination.stat().st_size, "present")


def _fetch(
    sources: list[str], part: PartialFile, wanted: FileRequest, offline: bool
) -> DownloadResult:
    failures: list[tuple[str, AttemptError]] = []
    for source in sources:
        try:
            _fetch_from(source, part, wanted, offline)
        except AttemptError as failure:
            failures.append((source, failure))
            continue
        return DownloadResult(part.destination, part.destination.stat().st_size, mask_url(source))
    raise _explained(failures, wanted.name)


def _fetch_from(source: str, part: PartialFile, wanted: FileRequest, offline: bool) -> None:
    local = _local_path(source)
    if local is not None:
        _copy_local(local, part, wanted)
    elif offline:
        raise AttemptError("offline", "not tried: the network is turned off")
    else:
        fetch_http(source, part, wanted)
        part.finish()


def _explained(failures: list[tuple[str, AttemptError]], name: str) -> Error:
    """One error for all that was tried: that of the last wrong file or failure, every reason."""
    tried = [failure for _, failure in failures if failure.code != "offline"]
    if not tried:
        return Error(
            "offline",
            f"{name} is not here, and the network is turned off",
            hint="run this once with a network (without --offline), or give a local file",
            context=[mask_url(url) for url, _ in failures],
        )
    last = next((f for f in reversed(tried) if f.code.endswith("-mismatch")), tried[-1])
    where = "" if len(failures) == 1 else f" from any of {len(failures)} places"
    return Error(
        last.code,
        f"could not get {name}{where}: {last.reason}",
        hint=last.hint or "check the network, then run the same command again",
        context=[f"{mask_url(url)}: {failure.reason}" for url, failure in failures],
    )


def _local_path(source: str) -> Path | None:
    """The path that ``source`` names, or ``None`` for a URL of a network."""
    try:
        parts = urlsplit(source)
    except ValueError as problem:
        text = f"{mask_url(source)} is not a valid URL"
        raise Error("bad-value", text, hint="check it", context=(str(problem),)) from None
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme in ("http", "https"):
        return None
    if "://" in source:
        raise Error(
            "bad-value",
            f"{mask_url(source)}: cannot download by {parts.scheme}",
            hint="http, https and file URLs and plain paths can be used",
        )
    return Path(source).absolute()


def _copy_local(source: Path, part: PartialFile, wanted: FileRequest) -> None:
    if not source.is_file():
        raise AttemptError(
            "file-not-found", "there is no such file", hint="check the path of the local file"
        )
    if part.destination.exists() and source.samefile(part.destination):
        wanted.check(source)
        return
    total = source.stat().st_size
    require_space(part.destination, total)
    part.forget()
    with open(source, "rb") as stream, open(part.path, "wb") as out:
        while chunk := stream.read(CHUNK):
            out.write(chunk)
            wanted.report(out.tell(), total)
        out.flush()
        os.fsync(out.fileno())
    try:
        wanted.check(part.path)
    except AttemptError:
        part.forget()
        raise
    part.finish()
