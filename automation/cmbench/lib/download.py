"""Get a file whatever happens on the way: mirrors, resume, retries, checks, one atomic result.

The file appears at its destination complete and verified, or not at all. What has come so far is
kept beside it as ``.part``, so that the next attempt, also of another process, goes on from there.
Passwords and tokens in URLs are never shown.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.lib.files import (
    CHUNK,
    Checksum,
    Progress,
    file_checksum,
    file_error,
    parse_checksum,
    require_space,
)
from cmbench.lib.text_files import size_text
from cmbench.lib.transfer import (
    AttemptError,
    Policy,
    Wanted,
    fetch_http,
    forget,
    note_of,
    size_failure,
)
from cmbench.lib.urls import mask_url

__all__ = ["Downloaded", "Policy", "download"]

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Downloaded:
    """The file now at ``path``; ``source`` is its (masked) URL, ``store`` or ``present``."""

    path: Path
    size: int
    source: str


def download(
    urls: str | Sequence[str],
    destination: Path,
    *,
    size: int | None = None,
    checksum: str = "",
    progress: Progress | None = None,
    offline: bool = False,
    verify: bool = True,
    store: Path | None = None,
    policy: Policy | None = None,
) -> Downloaded:
    """Bring the file of ``urls`` to ``destination``; mirrors (http, https, file, paths) in order.

    ``size`` is in bytes, ``checksum`` as ``parse_checksum`` takes it. A file that is already there
    is used when its checksum is right. ``store`` is a folder of files under their checksums: it is
    looked at first, and gets what was downloaded. ``offline`` forbids the network. ``verify=False``
    accepts any TLS certificate. Proxies, ``REQUESTS_CA_BUNDLE``, ``SSL_CERT_FILE`` and ``~/.netrc``
    are honoured.
    Raises Error: ``download-failed``, ``checksum-mismatch``, ``size-mismatch``, ``offline``,
    ``no-space``, ``file-not-found``, ``bad-value`` ...
    """
    sources = [urls] if isinstance(urls, str) else list(urls)
    if not sources or not all(sources):
        raise Error("bad-value", "no URL to download from", hint="give one with --url=...")
    expected = parse_checksum(checksum) if checksum else None
    wanted = Wanted(size, expected, progress, policy or Policy(), verify)
    destination = Path(os.path.abspath(destination))
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with _locked(destination, wanted):
            return _present(destination, wanted, store) or _fetch(
                sources, destination, wanted, offline, store
            )
    except OSError as problem:
        raise file_error(problem, destination, size or 0) from None


@contextmanager
def _locked(destination: Path, wanted: Wanted) -> Iterator[None]:
    """Hold the right to make ``destination``; a second process waits and then finds the file."""
    path = destination.with_name(destination.name + ".part.lock")

    def wait(handle: int) -> None:
        while not locks.try_lock(handle):
            with suppress(OSError):
                wanted.report(_part_of(destination).stat().st_size, wanted.size)
            time.sleep(_LOOK_SECONDS)

    try:
        handle = locks.acquire(path, wait)
    except OSError as problem:
        if problem.errno not in locks.UNSUPPORTED:
            raise
        handle = -1
    try:
        yield
    finally:
        locks.release(path, handle)


def _present(destination: Path, wanted: Wanted, store: Path | None) -> Downloaded | None:
    """The file, where it is there already and proves to be the right one."""
    if destination.is_dir():
        raise Error(
            "bad-value",
            f"{destination} is a folder, not a file",
            hint="give the name of the file too",
        )
    if wanted.checksum is None:
        return None
    if destination.is_file() and _is_right(destination, wanted):
        return Downloaded(destination, destination.stat().st_size, "present")
    stored = _stored(store, wanted.checksum)
    if stored is None or not stored.is_file():
        return None
    if not _is_right(stored, wanted):
        stored.unlink(missing_ok=True)
        return None
    _link_or_copy(stored, destination)
    return Downloaded(destination, destination.stat().st_size, "store")


def _is_right(path: Path, wanted: Wanted) -> bool:
    try:
        _check(path, wanted)
    except AttemptError:
        return False
    return True


def _stored(store: Path | None, checksum: Checksum) -> Path | None:
    if store is None or checksum.algorithm not in ("md5", "sha256"):
        return None
    return store / checksum.algorithm / checksum.value[:2] / checksum.value


def _link_or_copy(source: Path, target: Path) -> None:
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        try:
            os.link(source, draft)
        except OSError:
            require_space(target, source.stat().st_size)
            shutil.copyfile(source, draft)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _fetch(
    sources: list[str], destination: Path, wanted: Wanted, offline: bool, store: Path | None
) -> Downloaded:
    failures: list[tuple[str, AttemptError]] = []
    for source in sources:
        failure = _try_source(source, destination, wanted, offline)
        if failure is None:
            _keep(destination, wanted, store)
            return Downloaded(destination, destination.stat().st_size, mask_url(source))
        failures.append((source, failure))
    raise _explained(failures, destination)


def _try_source(
    source: str, destination: Path, wanted: Wanted, offline: bool
) -> AttemptError | None:
    local = _local_path(source)
    try:
        if local is not None:
            _copy_local(local, destination, wanted)
        elif offline:
            raise AttemptError("offline", "not tried: the network is switched off")
        else:
            part = _part_of(destination)
            fetch_http(source, part, wanted, lambda: _check_part(part, wanted))
            _finish(part, destination)
    except AttemptError as failure:
        return failure
    return None


def _part_of(destination: Path) -> Path:
    return destination.with_name(destination.name + ".part")


def _finish(part: Path, destination: Path) -> None:
    os.replace(part, destination)
    note_of(part).unlink(missing_ok=True)


def _keep(destination: Path, wanted: Wanted, store: Path | None) -> None:
    stored = _stored(store, wanted.checksum) if wanted.checksum else None
    if stored is not None and not stored.exists():
        # The download has succeeded; a store that cannot take it is no reason to fail.
        with suppress(OSError, Error):
            stored.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(destination, stored)


def _explained(failures: list[tuple[str, AttemptError]], destination: Path) -> Error:
    """One error for all that was tried: that of the last wrong file or failure, every reason."""
    tried = [failure for _, failure in failures if failure.code != "offline"]
    if not tried:
        return Error(
            "offline",
            f"{destination.name} is not here, and the network is switched off",
            hint="run this once with a network (without --offline), or give a local file",
            context=[mask_url(url) for url, _ in failures],
        )
    last = next((f for f in reversed(tried) if f.code.endswith("-mismatch")), tried[-1])
    where = "" if len(failures) == 1 else f" from any of {len(failures)} places"
    return Error(
        last.code,
        f"could not get {destination.name}{where}: {last.reason}",
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


def _copy_local(source: Path, destination: Path, wanted: Wanted) -> None:
    if not source.is_file():
        raise AttemptError(
            "file-not-found", "there is no such file", hint="check the path of the local file"
        )
    if destination.exists() and source.samefile(destination):
        _check(destination, wanted)
        return
    total = source.stat().st_size
    require_space(destination, total)
    part = _part_of(destination)
    forget(part)
    with open(source, "rb") as stream, open(part, "wb") as out:
        done = 0
        while chunk := stream.read(CHUNK):
            out.write(chunk)
            done += len(chunk)
            wanted.report(done, total)
        out.flush()
        os.fsync(out.fileno())
    _check_part(part, wanted)
    _finish(part, destination)


def _check_part(part: Path, wanted: Wanted) -> None:
    """Raise ``AttemptError``, and remove what came, unless it is what was wanted."""
    try:
        _check(part, wanted)
    except AttemptError:
        forget(part)
        raise


def _check(path: Path, wanted: Wanted) -> None:
    size = path.stat().st_size
    if wanted.size is not None and size != wanted.size:
        raise size_failure(wanted.size, size, "it has")
    checksum = wanted.checksum
    if checksum is None:
        return
    found = file_checksum(path, checksum.algorithm)
    if found != checksum.value:
        raise AttemptError(
            "checksum-mismatch",
            f"expected {checksum}, got {found} ({size_text(size)})",
            hint="the file was replaced or damaged: check the URL and the checksum",
        )
