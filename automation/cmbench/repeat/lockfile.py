"""Lock files: repositories, scripts, versions and files of a run, pinned for the next ones.

A lock is made from the record of a run. A run that obeys one refuses to start when a script or
repository differs, and stops when a script is edited meanwhile; it requests of every step the
version that the lock has, and checks every download against the content that it had.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cmbench.cache.store import CacheEntry, CacheStore
from cmbench.errors import Error
from cmbench.format.env import MISSING, fingerprint
from cmbench.format.model import Request
from cmbench.format.sources import file_digests, own_files, read_content
from cmbench.index.scripts import Index, Repository
from cmbench.lib.files import file_checksum
from cmbench.lib.text_files import listed
from cmbench.plan.cache_lookup import CacheLookup
from cmbench.plan.resolve import Resolver, ResolverMemory
from cmbench.plan.resolved_step import ResolvedStep
from cmbench.plan.step_run import StepRun, look_at
from cmbench.record import load_record, revision

FORMAT = 1
_URL, _FILE, _CHECKSUM = "DOWNLOAD_URL", "DOWNLOAD_DOWNLOADED_PATH", "DOWNLOAD_CHECKSUM"
_PREFIXES = ("CM_", "MLC_")
_WANTED = re.compile(r"(CM|MLC)_(TMP_PIP_)?VERSION(_|$)")

Kind = tuple[str, tuple[str, ...]]
"""Uid (alias where there is none) of a script and its active variations, sorted."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Everything that a lock pins.

    ``by_chain`` and ``by_kind`` hold the versions that are requested of steps, ``met`` all of them.
    One that is not ``strict`` requests versions and accepts others.
    """

    path: str
    strict: bool = True
    repositories: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    libraries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    by_chain: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    by_kind: Mapping[Kind, frozenset[str]] = field(default_factory=dict)
    met: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    downloads: Mapping[str, str] = field(default_factory=dict)

    def version(self, step_run: StepRun) -> str:
        """The version that the lock has for this step; empty where it has none, or several."""
        kind = _kind(step_run.script.uid or step_run.script.alias, step_run.step.choice.variations)
        for versions in (self.by_chain.get(step_run.chain()), self.by_kind.get(kind)):
            if versions and len(versions) == 1:
                return next(iter(versions))
        return ""

    def checksum(self, step_run: StepRun) -> str:
        """SHA-256 of what this step downloads; empty where the lock does not know it."""
        key = step_run.script.dialect.prefix + _URL
        return self.downloads.get(fingerprint(key, step_run.env.peek(key, MISSING)), "")


def _kind(uid: str, variations: Iterable[str]) -> Kind:
    return uid, tuple(sorted(variations))


class LockedResolver(Resolver):
    """A resolver that requests of steps the versions of the lock."""

    def __init__(
        self,
        index: Index,
        lookup: CacheLookup,
        lock: Lock,
        memory: ResolverMemory | None = None,
    ) -> None:
        super().__init__(index, memory)
        self._lookup = lookup
        self._lock = lock
        self._unedited: dict[str, list[tuple[str, int, int]]] = {}

    def resolve(self, request: Request, parent: StepRun | None) -> ResolvedStep:
        """Return the step as the lock pins it; raises ``lock-broken`` for an edited script."""
        step = super().resolve(request, parent)
        if self._lock.strict:
            self._refuse_edited(step)
        pinned = self._pinned(look_at(step, parent))
        return super().resolve(pinned, parent) if pinned else step

    def resume(self, step: ResolvedStep) -> ResolvedStep:
        """Return the step; raises ``lock-broken`` for an edited script."""
        if self._lock.strict:
            self._refuse_edited(step)
        return step

    def _refuse_edited(self, step: ResolvedStep) -> None:
        """Raise ``lock-broken`` when a script was edited after the run had begun."""
        script = step.script
        for name in self.index.contents.libraries.edited(script.path, step.uses):
            raise _broken(self._lock, [f"the library {name} was edited"])
        files = own_files(script.path)
        if self._unedited.get(script.path) == files:
            return
        edited = _edited(self._lock, script.alias, script.path)
        if edited:
            raise _broken(self._lock, [edited])
        # Not before: some callers try a step, drop its error, and come again.
        self._unedited[script.path] = files

    def _pinned(self, step_run: StepRun) -> Request | None:
        """Return the request with what the lock adds; ``None`` where it adds nothing."""
        if step_run.script.host_facts:
            return None
        version = "" if step_run.step.version.exact else self._lock.version(step_run)
        key = step_run.script.dialect.prefix + _CHECKSUM
        checksum = "" if step_run.env.peek(key) else self._lock.checksum(step_run)
        if not (version or checksum):
            return None
        if step_run.step.cacheable:
            # What was made before the lock was has no pinned version in its identity.
            entry, _ = self._lookup.look_up(step_run)
            if entry is not None and entry.version == (version or entry.version):
                return None
        request = step_run.request
        if version:
            request = replace(request, version=replace(request.version, exact=version))
        if checksum:
            request = replace(request, env={**request.env, key: checksum})
        return request


# ---------------------------------------------------------------- writing


def lock_data(record: Mapping[str, Any], index: Index, store: CacheStore) -> dict[str, Any]:
    """Return the content of the lock file for the run that ``record`` is of."""
    entries = list(_closure(store, [step["entry"] for step in record["steps"]]))
    steps = [step for step in record["steps"] if step["status"] in ("done", "cached")]
    scripts, repositories = _scripts(record, entries, index)
    revisions = {r["alias"]: r["revision"] for r in record["repositories"]}
    return {
        "format": FORMAT,
        "run": record["run"],
        "request": record.get("flags", {}),
        "repositories": {alias: revisions.get(alias, "") for alias in sorted(repositories)},
        "scripts": dict(sorted(scripts.items())),
        "libraries": _libraries(record, entries),
        "versions": _versions(steps, entries, store),
        "downloads": dict(sorted(_downloads(steps, entries, store).items())),
    }


def _closure(store: CacheStore, keys: Iterable[str]) -> Iterator[CacheEntry]:
    """Return the entries ``keys`` and all that they were made with, without duplicates."""
    seen: set[str] = set()
    open_keys = [key for key in keys if key]
    while open_keys:
        key = open_keys.pop(0)
        if key not in seen:
            seen.add(key)
            entry = store.entry(key)
            if entry is not None:
                yield entry
                open_keys += entry.deps


def _scripts(
    record: Mapping[str, Any], entries: Iterable[CacheEntry], index: Index
) -> tuple[dict[str, str], set[str]]:
    """Content of every script by alias, and the repositories that they are from."""
    rows = index.rows()
    uids = {step["script_uid"] for step in record["steps"]}
    paths = {path for path, row in rows.items() if row.uid in uids}
    paths.update(path for entry in entries for path in entry.scripts if path in rows)
    contents = {step["script"]: step["content"] for step in record["steps"] if step["content"]}
    for path in paths:
        contents.setdefault(rows[path].alias, index.contents.get(path).digest)
    return contents, {rows[path].repo for path in paths}


def _libraries(
    record: Mapping[str, Any], entries: Iterable[CacheEntry]
) -> dict[str, dict[str, str]]:
    """Return the digests of the shared code that scripts use, by alias and name."""
    digests: dict[str, dict[str, str]] = {}
    for entry in entries:
        for path, used in entry.libraries.items():
            digests.setdefault(os.path.basename(path), {}).update(used)
    for step in record["steps"]:
        if used := step.get("libraries"):
            digests.setdefault(step["script"], {}).update(used)
    return {alias: dict(sorted(used.items())) for alias, used in sorted(digests.items())}


def _versions(
    steps: Sequence[Mapping[str, Any]], entries: Sequence[CacheEntry], store: CacheStore
) -> list[dict[str, Any]]:
    """Return every version that was used; ``pin`` says whether it is requested of the step.

    It is where the script reads the requested version, and it is not where a dependency has that
    version: it is the dependency's, and pinned there.
    """
    items = [_version_of(step, steps, store) for step in steps]
    met = [{k: v for k, v in item.items() if k != "chain"} for item in items]
    for entry in entries:
        item = _version_item(entry.script, entry.script_uid, entry.variations, entry.version)
        pin = _looks_at_version(entry.reads) and entry.version not in _versions_below(entry, store)
        if {**item, "pin": pin} not in met:
            items.append({**item, "pin": pin, "chain": []})
    unique = {json.dumps(item): item for item in items if item["version"]}
    return list(unique.values())


def _version_of(
    step: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], store: CacheStore
) -> dict[str, Any]:
    """Return the version that a step of the run has met, and whether to pin it."""
    below = {s["version"] for s in steps if s["chain"][:-1] == step["chain"]}
    entry = store.entry(step["entry"]) if step["entry"] else None
    below |= _versions_below(entry, store) if entry else set()
    item = _version_item(step["script"], step["script_uid"], step["variations"], step["version"])
    pin = _looks_at_version(step.get("reads", {})) and step["version"] not in below
    return {**item, "pin": pin, "chain": step["chain"]}


def _version_item(script: str, uid: str, variations: Iterable[str], version: str) -> dict[str, Any]:
    return {"script": script, "uid": uid, "variations": list(variations), "version": version}


def _looks_at_version(reads: Iterable[str]) -> bool:
    return any(_WANTED.match(key) for key in reads)


def _versions_below(entry: CacheEntry, store: CacheStore) -> set[str]:
    return {below.version for key in entry.deps if (below := store.entry(key))}


def _downloads(
    steps: Sequence[Mapping[str, Any]], entries: Sequence[CacheEntry], store: CacheStore
) -> dict[str, str]:
    """SHA-256 by URL (as a fingerprint) of what these steps, or those before them, fetched."""
    checksums: dict[str, str] = {}
    for step in [*steps, *_earlier_steps(entries, store)]:
        for prefix in _PREFIXES:
            url = step.get("reads", {}).get(prefix + _URL, MISSING)
            if url != MISSING and url not in checksums:
                checksum = _sha256_of(step, prefix)
                if checksum:
                    checksums[url] = checksum
    return checksums


def _earlier_steps(entries: Sequence[CacheEntry], store: CacheStore) -> Iterator[Mapping[str, Any]]:
    """Yield steps of the runs that made ``entries``, as far as their records are still there."""
    for run in dict.fromkeys(entry.run for entry in entries if entry.run):
        path = store.place("..", "runs", run, "record.json")
        if os.path.isfile(path):
            yield from load_record(path)["steps"]


def _sha256_of(step: Mapping[str, Any], prefix: str) -> str:
    declared = str(step["reads"].get(prefix + _CHECKSUM, ""))
    if len(declared) == 64:
        return declared
    path = Path(str(step["new_env"].get(prefix + _FILE, "")))
    return file_checksum(path, "sha256") if path.is_file() else ""


def locked_files(data: Mapping[str, Any], index: Index) -> dict[str, dict[str, str]]:
    """Return digests of the files of the scripts of ``data`` (of ``lock_data``), by alias.

    A script that was edited during the run is left out: which version ran is unknown.
    """
    digests = {}
    for path, row in index.rows().items():
        if row.alias in data["scripts"]:
            files = file_digests(path)
            if read_content(path, sorted(files)).digest == data["scripts"][row.alias]:
                digests[row.alias] = files
    return dict(sorted(digests.items()))


def write_lock(path: str, data: Mapping[str, Any]) -> None:
    """Write the lock file in one step."""
    from cmbench.lib.files import whole_file

    with whole_file(path) as draft:
        draft.write_text(f"{json.dumps(data, indent=1)}\n", encoding="utf-8")


# ---------------------------------------------------------------- reading and checking


_ANOTHER = "name another file, or remove it: the next run writes a new one"


def read_lock(path: str) -> Lock:
    """Return the lock at ``path``; raises ``bad-value`` if it is not one."""
    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
    except ValueError as problem:
        raise Error(
            "bad-value", f"{path} is not a lock file: {problem}", hint=_ANOTHER
        ) from problem
    try:
        if data["format"] == FORMAT:
            return lock_from(data, path)
    except (KeyError, TypeError, AttributeError):
        pass
    raise Error(
        "bad-value",
        f"{path} is not a lock file of this version of cmbench",
        hint=_ANOTHER,
    )


def lock_from(data: Mapping[str, Any], path: str, strict: bool = True) -> Lock:
    """Return the lock that ``data`` (of ``lock_data``) describes."""
    by_chain: dict[tuple[str, ...], set[str]] = {}
    by_kind: dict[Kind, set[str]] = {}
    met: dict[tuple[str, ...], set[str]] = {}
    for item in data["versions"]:
        chain = tuple(item["chain"])
        met.setdefault(chain, set()).add(item["version"])
        if item["pin"]:
            kind = _kind(item["uid"] or item["script"], item["variations"])
            by_kind.setdefault(kind, set()).add(item["version"])
            by_chain.setdefault(chain, set()).add(item["version"])
    return Lock(
        path=path,
        strict=strict,
        repositories=data["repositories"],
        scripts=data["scripts"],
        libraries=data.get("libraries", {}),
        files=data.get("files", {}),
        by_chain={key: frozenset(versions) for key, versions in by_chain.items()},
        by_kind={key: frozenset(versions) for key, versions in by_kind.items()},
        met={key: frozenset(versions) for key, versions in met.items() if key},
        downloads=data["downloads"],
    )


def mismatches(lock: Lock, index: Index, repositories: Sequence[Repository]) -> list[str]:
    """Return what of the repositories and scripts here is not as the lock has it."""
    lines = list(_other_revisions(lock, repositories))
    paths = {row.alias: path for path, row in index.rows().items()}
    for alias in lock.scripts:
        if alias not in paths:
            lines.append(f"the script {alias} does not exist here")
        elif edited := _edited(lock, alias, paths[alias]):
            lines.append(edited)
    used = {(a, name): then for a, u in lock.libraries.items() for name, then in u.items()}
    edited_libraries = {
        name
        for (alias, name), then in used.items()
        if alias in paths and index.contents.libraries.digest(paths[alias], name) != then
    }
    return lines + [f"the library {name} was edited" for name in sorted(edited_libraries)]


def _other_revisions(lock: Lock, repositories: Sequence[Repository]) -> Iterator[str]:
    registered = {repository.alias: repository for repository in repositories}
    for alias, locked in lock.repositories.items():
        now = revision(registered[alias].path) if alias in registered else locked
        if alias not in registered:
            yield f"the repository {alias} is not registered here"
        elif now != locked:
            yield f"{alias} is at {now[:12] or 'no commit'}, locked is {locked[:12]}"


def check_lock(lock: Lock, index: Index, repositories: Sequence[Repository]) -> None:
    """Raise ``lock-broken`` when a repository or a script is not as the lock has it."""
    differences = mismatches(lock, index, repositories)
    if differences:
        raise _broken(lock, differences)


def _edited(lock: Lock, alias: str, path: str) -> str:
    """Return how the files of a script differ from what the lock has; empty where they do not."""
    if alias not in lock.scripts:
        return ""
    now, then = file_digests(path), lock.files.get(alias)
    if then is None:
        same = read_content(path, sorted(now)).digest == lock.scripts[alias]
        return "" if same else f"the script {alias} was edited"
    changed = [name for name in then if name in now and now[name] != then[name]]
    changed += [f"{name} (gone)" for name in then if name not in now]
    changed += [f"{name} (new)" for name in now if name not in then]
    return f"the script {alias} was edited: {listed(changed)}" if changed else ""


def _broken(lock: Lock, differences: Sequence[str]) -> Error:
    return Error(
        "lock-broken",
        f"this differs from what {lock.path} has locked",
        context=tuple(differences),
        hint="restore what the lock has (`git diff`, `git checkout`),\n"
        f"or renew the lock: remove {lock.path} and run again",
    )


def check_result(lock: Lock, steps: Iterable[Mapping[str, Any]]) -> None:
    """Raise ``lock-broken`` when a step ended with another version than the lock has."""
    differences = []
    for step in steps:
        versions = lock.met.get(tuple(step["chain"]))
        if lock.strict and versions and step["version"] and step["version"] not in versions:
            differences.append(
                f"{step['step']} is {step['version']}, locked is {', '.join(versions)}"
            )
    if differences:
        raise Error(
            "lock-broken", f"the run gave something other than {lock.path} has", context=differences
        )
