"""Cache entries as one archive, for machines without a network.

The archive is a tar file. Its first member, ``manifest.json``, has a checksum of itself, the
metadata of every entry, the checksum of every file, and checksums of the files outside the cache
that entries rely on; the payloads follow as ``payload/<folder>/...``. An import writes into private
directories at the final paths and publishes an entry when all of its files are there and as listed.

Paths: metadata is rewritten for the new place. Files are not, and an entry whose files hold a path
of the old place (a virtual environment does) is refused unless the place is the same.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import tarfile
import time
import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from cmbench.cache.cache_entry import Reliance, decode, reliance, sealed, unsealed
from cmbench.cache.field_types import (
    are_texts,
    is_integer,
    is_moment,
    is_name,
    is_object,
    is_size,
    is_text,
    maps_texts,
    misfits,
    require,
)
from cmbench.cache.inventory import outputs_of, plain_files, survey
from cmbench.cache.portability import PlatformRequirements, misfit, needs_of, this_host
from cmbench.cache.retention import with_dependencies
from cmbench.cache.store import CacheEntry, CacheStore, Staging, disk_error
from cmbench.errors import Error
from cmbench.lib.files import CHUNK, file_checksum, whole_file

FORMAT = 1
MANIFEST = "manifest.json"
_PAYLOAD = "payload"
_MANIFEST_LIMIT = 1 << 30
_SAFE_FOLDER = re.compile(r"\w[\w.+-]*_[0-9a-f]{8,64}")

_FILE = {"link": is_name, "size": is_size, "sha256": is_text}
_NEEDS = {"cpus": are_texts, "pythons": are_texts, "glibc": is_text, "place": is_text}


def _are_files(value: Any) -> bool:
    return is_object(value) and all(is_object(f) and not misfits(f, _FILE) for f in value.values())


def _are_needs(value: Any) -> bool:
    return is_object(value) and not misfits(value, _NEEDS)


_KINDS = {
    "format": is_integer,
    "made": is_moment,
    "roots": are_texts,
    "entries": lambda value: type(value) is list and all(map(is_object, value)),
    "files": lambda value: is_object(value) and all(map(_are_files, value.values())),
    "needs": lambda value: is_object(value) and all(map(_are_needs, value.values())),
    "relied": maps_texts,
}
"""What the parts of a manifest are: its checksum does not say that we have written it."""

Say = Callable[[str], None]
Strange = Callable[[CacheEntry], str]
"""What an entry gives back that its scripts, as they are here, never do; empty if nothing."""


@dataclass(slots=True)
class ImportResult:
    """What became of an archive's entries; ``refused`` maps the names of folders to reasons."""

    made: list[CacheEntry] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


# ---------------------------------------------------------------- out


def export(
    store: CacheStore, entries: Sequence[CacheEntry], target: str, present: Container[str] = ()
) -> list[CacheEntry]:
    """Write ``entries`` and all that they depend on to ``target`` (``.tar`` or ``.tar.gz``).

    Those with a key in ``present`` are left out: they are where the archive goes. Returns the
    entries written, what is needed first. An archive appears when it is complete. Raises
    ``cache-damaged`` where one of those is gone.
    """
    chosen = [e for e in with_dependencies(entries, store.entry) if e.key not in present]
    missing = [key for e in chosen for key in e.deps if store.entry(key) is None]
    if missing:
        raise Error(
            "cache-damaged",
            f"an entry that others were made from is gone: {missing[0]}",
            hint="run the script that needs it again, then export",
        )
    try:
        with whole_file(target) as draft:
            _write_archive(store, chosen, target, str(draft))
    except OSError as problem:
        raise disk_error(problem, target) from None
    return chosen


def _write_archive(
    store: CacheStore, entries: Sequence[CacheEntry], target: str, draft: str
) -> None:
    manifest = sealed(json.dumps(_manifest(store, entries), indent=1)).encode()
    with _archive_writer(target, draft) as tar:
        head = tarfile.TarInfo(MANIFEST)
        head.size = len(manifest)
        head.mtime = int(time.time())
        tar.addfile(head, io.BytesIO(manifest))
        for entry in entries:
            for name in [""] + [name for name, _ in plain_files(entry.path, folders=True)]:
                _add(tar, entry, name)


@contextmanager
def _archive_writer(target: str, draft: str) -> Iterator[tarfile.TarFile]:
    if target.endswith(".tar"):
        with tarfile.open(draft, "w", format=tarfile.PAX_FORMAT) as tar:
            yield tar
    else:
        # Data sets hardly get smaller with more effort.
        with tarfile.open(draft, "w:gz", format=tarfile.PAX_FORMAT, compresslevel=3) as tar:
            yield tar


def _add(tar: tarfile.TarFile, entry: CacheEntry, name: str) -> None:
    path = os.path.join(entry.path, name)
    member = "/".join((_PAYLOAD, os.path.basename(entry.path), name)).rstrip("/")
    info = tar.gettarinfo(path, member)
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if info.islnk():
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", os.lstat(path).st_size
    if info.isreg():
        with open(path, "rb") as stream:
            tar.addfile(info, stream)
    else:
        tar.addfile(info)


def _manifest(store: CacheStore, entries: Sequence[CacheEntry]) -> dict[str, Any]:
    relied = {item.path for entry in entries for item in entry.relies_on}
    checksums = {}
    for path in sorted(relied):
        with suppress(OSError):
            checksums[path] = file_checksum(Path(path), "sha256")
    return {
        "format": FORMAT,
        "made": time.time(),
        "roots": sorted({os.path.dirname(os.path.dirname(e.path)) for e in entries}),
        "entries": [asdict(entry) for entry in entries],
        "files": {entry.uid: _checksums(entry) for entry in entries},
        "needs": {e.uid: asdict(needs_of(e.path, store.root)) for e in entries},
        "relied": checksums,
    }


def _checksums(entry: CacheEntry) -> dict[str, Any]:
    checksums: dict[str, Any] = {}
    for name, info in plain_files(entry.path):
        path = os.path.join(entry.path, name)
        if stat.S_ISLNK(info.st_mode):
            checksums[name] = {"link": os.readlink(path)}
        else:
            checksums[name] = {"size": info.st_size, "sha256": file_checksum(Path(path), "sha256")}
    return checksums


# ---------------------------------------------------------------- in


def import_archive(store: CacheStore, archive: str, say: Say, strange: Strange) -> ImportResult:
    """Bring the entries of ``archive`` into ``store``; those that are there already stay.

    Raises ``archive-unsafe``, ``archive-corrupt`` ...; then nothing has been imported.
    """
    try:
        with (
            store.locks.hold("housekeeping", say),
            open(archive, "rb") as raw,
            tarfile.open(fileobj=raw, mode="r|*") as tar,
        ):
            return _Import(store, archive, tar, strange).go()
    except OSError as problem:
        if problem.errno is None:
            raise _corrupt(archive, str(problem)) from None
        raise disk_error(problem, archive) from None
    except (tarfile.TarError, EOFError, zlib.error, ValueError, KeyError, TypeError) as problem:
        raise _corrupt(archive, f"{type(problem).__name__}: {problem}") from None


def _corrupt(archive: str, why: str) -> Error:
    return Error(
        "archive-corrupt",
        f"{archive} is damaged or truncated, or was not made by cm export cache",
        hint="export it again, or copy it again",
        context=(why,),
    )


class _Import:
    """One archive on its way into one store."""

    def __init__(
        self, store: CacheStore, archive: str, tar: tarfile.TarFile, strange: Strange
    ) -> None:
        self._strange = strange
        self._store = store
        self._archive = archive
        self._tar = tar
        self._staged: dict[str, _Staged] = {}
        self._folders: set[str] = set()
        self._roots: tuple[str, ...] = ()
        self._relied: Mapping[str, str] = {}
        self._needs: Mapping[str, Any] = {}
        self._result = ImportResult()

    def go(self) -> ImportResult:
        """Read the whole archive, then publish; whatever fails before leaves nothing."""
        try:
            entries = self._announced()
            for member in self._tar:
                self._member(member)
            for staged in self._staged.values():
                staged.complete(self._roots, self._store)
            for entry in entries:
                self._settle(entry)
        finally:
            for staged in self._staged.values():
                staged.staging.discard()
        return self._result

    def _announced(self) -> list[CacheEntry]:
        """The entries of the manifest; room is made for those that are not here yet."""
        manifest = self._manifest()
        entries = [decode(data) for data in manifest["entries"]]
        self._roots = tuple(r for r in manifest["roots"] if os.path.isabs(r))
        self._relied = manifest["relied"]
        self._needs = manifest.get("needs", {})
        needles = _needles(self._roots, entries, self._store)
        for entry in entries:
            folder = os.path.basename(entry.path)
            if not _is_named_well(entry, folder):
                raise self._unsafe(folder, "it is not a valid entry name")
            self._folders.add(folder)
            if self._store.entry(entry.key) is not None:
                self._result.present.append(entry.key)
            else:
                files = manifest["files"][entry.uid]
                staging = self._store.staging.stage(entry.script, entry.uid)
                self._staged[folder] = _Staged(self._archive, staging, files, needles)
        return entries

    def _manifest(self) -> dict[str, Any]:
        member = self._tar.next()
        if member is None or member.name != MANIFEST or member.size > _MANIFEST_LIMIT:
            raise ValueError(f"it does not begin with {MANIFEST}")
        manifest = unsealed(_content(self._tar, member).read().decode())
        if manifest.get("format") != FORMAT:
            raise ValueError(f"its format is {manifest.get('format')}, known is {FORMAT}")
        require({key: part for key, part in manifest.items() if key in _KINDS}, _KINDS)
        return manifest

    def _unsafe(self, name: str, why: str) -> Error:
        return _unsafe(self._archive, name, why)

    def _member(self, member: tarfile.TarInfo) -> None:
        parts = member.name.split("/")
        if member.name == MANIFEST:
            return
        bad = any(part in ("", ".", "..") or "\0" in part for part in parts)
        if bad or len(parts) < 2 or parts[0] != _PAYLOAD or parts[1] not in self._folders:
            raise self._unsafe(member.name, "it belongs to no entry of the archive")
        staged = self._staged.get(parts[1])
        if staged is not None:
            staged.take(self._tar, member, "/".join(parts[2:]))

    def _settle(self, entry: CacheEntry) -> None:
        """Publish an entry, or say why not."""
        folder = os.path.basename(entry.path)
        staged = self._staged.get(folder)
        if staged is None:
            return
        entry = self._moved(entry, staged.staging.path)
        staged.refused = staged.refused or self._strange(entry) or self._lacks(entry)
        staged.refused = staged.refused or self._misfit(entry)
        if staged.refused:
            self._result.refused[folder] = staged.refused
            return
        size, files = survey(entry.path, entry.outputs)
        if files:
            self._store.keep_files(entry.uid, files)
        entry = replace(entry, size=size)
        self._store.publish(entry)
        self._result.made.append(entry)

    def _lacks(self, entry: CacheEntry) -> str:
        """What ``entry`` needs and was refused or is not in the archive."""
        gone = [key for key in entry.deps if self._store.entry(key) is None]
        if gone:
            return f"it needs {gone[0]}, which is not here"
        text = repr((entry.new_env, [item.path for item in entry.relies_on]))
        for folder, other in self._staged.items():
            if other.refused and other.staging.path in text:
                return f"it names files of {folder}, which was refused"
        return ""

    def _misfit(self, entry: CacheEntry) -> str:
        """Why files of ``entry`` are for another machine; archives of old do not say."""
        needs = self._needs.get(entry.uid)
        if needs is None:
            return ""
        lists = {name: tuple(needs[name]) for name in ("cpus", "pythons")}
        return misfit(PlatformRequirements(**{**needs, **lists}), this_host(), self._store.root)

    def _moved(self, entry: CacheEntry, path: str) -> CacheEntry:
        """``entry`` as it is in this store."""
        here = _rewriter(self._roots, self._store.root)
        new_env = here(dict(entry.new_env))
        return replace(
            entry,
            path=path,
            reads=here(dict(entry.reads)),
            new_env=new_env,
            new_state=here(dict(entry.new_state)),
            relies_on=tuple(self._relied_here(item, here) for item in entry.relies_on),
            outputs=outputs_of(path, new_env),
            imported=True,
        )

    def _relied_here(self, item: Reliance, here: Callable[[Any], Any]) -> Reliance:
        """A file outside, by its state here if it is the same file; else as it was: stale."""
        path = str(here(item.path))
        with suppress(OSError):
            if file_checksum(Path(path), "sha256") == self._relied.get(item.path):
                return reliance(path)
        return replace(item, path=path)


def _is_named_well(entry: CacheEntry, folder: str) -> bool:
    """Whether what becomes names of files is what this engine names them."""
    return (
        folder == f"{entry.script}_{entry.uid}"
        and _SAFE_FOLDER.fullmatch(folder) is not None
        and re.fullmatch("[0-9a-f]{8,64}", entry.uid) is not None
        and re.fullmatch("[0-9a-f]+", entry.identity) is not None
    )


class _Staged:
    """The payload of one entry that is being unpacked."""

    def __init__(
        self,
        archive: str,
        staging: Staging,
        listed: Mapping[str, Mapping[str, Any]],
        needles: Sequence[bytes],
    ) -> None:
        self.staging = staging
        self.refused = ""
        self._archive = archive
        self._listed = listed
        self._needles = needles
        self._links: dict[str, str] = {}
        self._seen: set[str] = set()
        self._modes: dict[str, int] = {}

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        """Unpack one member. Links come last, so that nothing is written through one."""
        path = os.path.join(self.staging.path, name) if name else self.staging.path
        if member.isdir():
            os.makedirs(path, exist_ok=True)
            self._modes[path] = (member.mode & 0o755) | 0o700
        elif not name or name in self._seen:
            raise _unsafe(self._archive, member.name, "there is another one of that name")
        elif member.issym():
            self._seen.add(name)
            self._links[name] = member.linkname
        elif member.isreg():
            self._seen.add(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._file(_content(tar, member), member, path, name)
        else:
            raise _unsafe(self._archive, member.name, "it is not a file, folder or link")

    def _file(self, source: IO[bytes], member: tarfile.TarInfo, path: str, name: str) -> None:
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        longest = max((len(needle) for needle in self._needles), default=1)
        tail = b""
        with open(os.open(path, flags, 0o600), "wb") as out:
            while chunk := source.read(CHUNK):
                out.write(chunk)
                digest.update(chunk)
                self._scan(tail + chunk, name)
                tail = chunk[-longest:]
            os.fchmod(out.fileno(), (member.mode & 0o755) | 0o600)
        if 0 <= member.mtime < 2**40:
            os.utime(path, (member.mtime, member.mtime))
        if self._listed.get(name, {}).get("sha256") != digest.hexdigest():
            raise _corrupt(self._archive, f"{member.name} is not as listed")

    def _scan(self, data: bytes, name: str) -> None:
        for needle in self._needles:
            if not self.refused and needle in data:
                place = needle.decode(errors="replace")
                self.refused = f"its file {name} contains the path where it was made: {place}"

    def complete(self, roots: Sequence[str], store: CacheStore) -> None:
        """Make the links and compare with the list of the manifest."""
        if self._seen != set(self._listed):
            missing = min(self._seen ^ set(self._listed))
            raise _corrupt(self._archive, f"{missing} is not as listed")
        here = _rewriter(roots, store.root)
        for name, target in self._links.items():
            if self._listed[name].get("link") != target:
                raise _corrupt(self._archive, f"{name} is not as listed")
            self._link(name, str(here(target)), store.place("store"))
        for name in self._links:
            self._check_end(name, store.place("store"))
        for path, mode in self._modes.items():
            os.chmod(path, mode)

    def _link(self, name: str, target: str, payloads: str) -> None:
        path = os.path.join(self.staging.path, name)
        end = os.path.normpath(os.path.join(os.path.dirname(path), target))
        inside = payloads if os.path.isabs(target) else self.staging.path
        if not end.startswith(inside + os.sep):
            if not os.path.isabs(target):
                raise _unsafe(self._archive, name, f'it is a link to "{target}", outside')
            # Such as the interpreter of a virtual environment.
            if not _is_program(end):
                self.refused = f"it is linked to {target}, which is not a program here"
                return
        if not _is_below(os.path.dirname(path), self.staging.path):
            raise _unsafe(self._archive, name, "its folder is a link")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)

    def _check_end(self, name: str, payloads: str) -> None:
        """Look at a link once more, now that all it may lead through is there."""
        path = os.path.join(self.staging.path, name)
        if os.path.islink(path) and not _is_below(path, payloads) and not _is_program(path):
            raise _unsafe(self._archive, name, "it is a link that points outside")


def _is_below(path: str, folder: str) -> bool:
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return real == top or real.startswith(top + os.sep)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(member)
    if stream is None:
        raise ValueError(f"{member.name} has no content")
    return stream


def _unsafe(archive: str, name: str, why: str) -> Error:
    return Error(
        "archive-unsafe",
        f'{os.path.basename(archive)}: member "{name}" was refused: {why}',
        hint="do not use this archive; nothing of it was imported",
        context=(f"archive: {archive}",),
    )


def _needles(roots: Sequence[str], entries: Sequence[CacheEntry], store: CacheStore) -> list[bytes]:
    """Return paths that must not occur in a file: of the old path, of scripts that are missing."""
    places = {os.path.dirname(root) for root in roots if root != store.root}
    places |= {path for e in entries for path in e.scripts if not os.path.isdir(path)}
    return [place.encode() for place in sorted(places) if len(place) > 1]


def _rewriter(roots: Sequence[str], here: str) -> Callable[[Any], Any]:
    """A function that replaces the old roots in texts, lists and dictionaries."""

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            for root in roots:
                value = value.replace(root + os.sep, here + os.sep)
            return value
        if isinstance(value, list):
            return [moved(item) for item in value]
        if isinstance(value, dict):
            return {key: moved(item) for key, item in value.items()}
        return value

    return moved
