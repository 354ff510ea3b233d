"""The names that users give: those under which entries are registered, and those of dependencies.

A misspelt name would do nothing, or make something new, without any notice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cmbench.cache.store import CacheEntry, CacheStore
from cmbench.errors import Error, did_you_mean, nearest
from cmbench.format.env import MISSING, fingerprint
from cmbench.format.merge import USER
from cmbench.format.meta import read_meta
from cmbench.format.model import Dependency, Request, VersionRange
from cmbench.index.scripts import Index
from cmbench.lib.text_files import read_or_empty
from cmbench.plan.step_run import HANDED_ON, StepRun

_VERSIONS = {"CM_VERSION", "CM_VERSION_MIN", "CM_VERSION_MAX", "CM_VERSION_MAX_USABLE"}
_LISTED = 20
"""So many names a message lists at most."""


def registered(
    step_run: StepRun, store: CacheStore, unsound: Callable[[CacheEntry], str]
) -> CacheEntry | None:
    """Return the entry that is registered under the name that ``step_run`` requests.

    Raises ``Error`` (``not-registered``) where the user chose the name for a dependency, and it is
    nearly that of another entry.
    """
    name = step_run.request.name
    labels = {*step_run.labels()} - {f"name-{name}"}
    entries = store.entries(lambda entry: entry.script_uid == step_run.script.uid)
    fitting = [
        entry
        for entry in entries
        if (name == entry.name or name.lower() in _tagged_names(entry))
        and labels <= {*entry.tags, *("_" + v for v in entry.variations)}
        and not unsound(entry)
        and _is_within(entry, step_run.step.version)
        and _is_of_named_path(entry, step_run, store)
    ]
    if fitting:
        return max(fitting, key=lambda entry: entry.created)
    if _chosen_by_user(step_run):
        _refuse_misspelt(step_run, {n for e in entries for n in (e.name, *_tagged_names(e))})
    return None


def selected(
    step_run: StepRun,
    store: CacheStore,
    mismatch: Callable[[CacheEntry, StepRun, set[str]], str],
) -> CacheEntry | None:
    """The entry that ``--extra_cache_tags`` of the user's call names, as with the first engines.

    What that call itself sets must be as the entry has seen it (``mismatch``); the tags stand for
    all the rest.
    """
    tags = set(step_run.request.extra_cache_tags)
    if not tags or step_run.script.dialect.inputs_bind or not _tagged_by_user(step_run):
        return None
    tags |= {"_" + name for name in step_run.request.tags.variations}
    fitting = [
        entry
        for entry in store.entries(lambda entry: entry.script_uid == step_run.script.uid)
        if tags <= {*entry.tags, *("_" + v for v in entry.variations)}
        and not {*step_run.request.tags.unwanted} & {*entry.tags}
        and _is_within(entry, step_run.step.version)
        and not mismatch(entry, step_run, _set_by_call(step_run))
    ]
    return max(fitting, key=lambda entry: entry.created, default=None)


def handed_in(
    step_run: StepRun,
    store: CacheStore,
    mismatch: Callable[[CacheEntry, StepRun, set[str]], str],
) -> CacheEntry | None:
    """Return the newest entry made of files that a user supplied, for a call that supplies none.

    The script names the keys of such inputs: ``registered_by``, as for NVIDIA's archive. All else
    that the entry has read must be as it was, and what the call sets must be among it; versions
    only have to fit.
    """
    keys = {str(key) for key in step_run.script.meta.get("registered_by") or ()}
    if not keys or step_run.request.name or any(step_run.env.peek(key) for key in keys):
        return None
    fitting = [
        entry
        for entry in store.entries(lambda entry: entry.script_uid == step_run.script.uid)
        if any(entry.reads.get(key, MISSING) not in (MISSING, "") for key in keys)
        and _is_labelled(entry, step_run)
        and _set_by_call(step_run) <= {*entry.reads} | _VERSIONS
        and not mismatch(entry, step_run, _reads_beside(entry, step_run, keys))
    ]
    return max(fitting, key=lambda entry: entry.created, default=None)


def _is_labelled(entry: CacheEntry, step_run: StepRun) -> bool:
    """Return whether an entry has the variations, the tags and a version of a call."""
    return (
        {*entry.variations} == {*step_run.step.choice.variations}
        and {*step_run.labels()} <= {*entry.tags, *("_" + v for v in entry.variations)}
        and not {*step_run.request.tags.unwanted} & {*entry.tags}
        and _is_within(entry, step_run.step.version)
    )


def _reads_beside(entry: CacheEntry, step_run: StepRun, keys: set[str]) -> set[str]:
    """Return the reads of an entry other than versions and ``keys``, which name supplied files."""
    free = keys | _VERSIONS | {f"const:{key}" for key in keys}
    for read, then in entry.reads.items():
        kind, _, pattern = read.partition(":")
        # Those of the keys that the script gives back were set, and are not in this call.
        if kind == "laid" and {*then.split()} - keys == {*step_run.laid(pattern).split()}:
            free.add(read)
    return {*entry.reads} - free


def _set_by_call(step_run: StepRun) -> set[str]:
    """Return the env keys that the call itself sets, by its inputs too."""
    request = step_run.request
    pairs = (pair for block in step_run.step.blocks for pair in block.input_mapping.items())
    mapped = (key for name, key in pairs if name in request.inputs)
    return {*request.env, *request.const, *mapped}


def _tagged_by_user(step_run: StepRun) -> bool:
    """Return whether the tags are of the user's own call, or of ``--adr.NAME`` or ``--ad.NAME``."""
    if step_run.parent is None:
        return True
    tags = set(step_run.request.extra_cache_tags)
    return any(tags & {*update.extra_cache_tags.split(",")} for update in _updates(step_run.parent))


def _is_of_named_path(entry: CacheEntry, step_run: StepRun, store: CacheStore) -> bool:
    """Return whether an entry was made of the path that a call names next to the name, if any."""
    request, inputs = step_run.request, step_run.script.inputs.items()
    keys = [step_run.script.dialect.prefix + "TMP_PATH"] if request.path else []
    keys += [spec.env for name, spec in inputs if spec.type == "path" and name in request.inputs]
    pairs = (
        (entry.reads.get(key), fingerprint(key, step_run.env.peek(key, MISSING))) for key in keys
    )
    return all(then is None or store.is_same(then, now) for then, now in pairs)


def _is_within(entry: CacheEntry, bounds: VersionRange) -> bool:
    from cmbench.lib.versions import satisfies

    return satisfies(entry.version or "0", bounds.minimum, bounds.maximum, bounds.exact)


def _tagged_names(entry: CacheEntry) -> set[str]:
    """The names that a script has given an entry by its tags, as the first engines have them."""
    return {tag.removeprefix("name-") for tag in entry.tags if tag.startswith("name-")}


def _chosen_by_user(step_run: StepRun) -> bool:
    """Return whether ``--adr.NAME.name`` or ``--ad.NAME.name`` gave the name, and no script."""
    parent = step_run.parent
    updates = _updates(parent) if parent else ()
    return any(update.inputs.get("name") == step_run.request.name for update in updates)


def _updates(parent: StepRun) -> Iterator[Dependency]:
    """Yield what the user said of dependencies of a step, by their names."""
    yield from (v for k, v in parent.adr.plain().items() if k.startswith(USER))
    if parent.parent is None:
        yield from parent.request.ad.values()


def _refuse_misspelt(step_run: StepRun, names: set[str]) -> None:
    name, tags = step_run.request.name, step_run.request.tags
    close = [] if name in names else nearest(name, names - {""})
    if close:
        choice = ",".join((*tags.wanted, *("_" + v for v in tags.variations)))
        names_text = ", ".join(sorted(names - {""}))
        raise Error(
            "not-registered",
            f'no {step_run.script.alias} is registered under the name "{name}"',
            context=[f"registered: {names_text}"],
            hint=f'did you mean "{close[0]}"? For a new name, register it first:\n'
            f"`cm run script --tags={choice} --name={name}`",
        )


def refuse_unknown(request: Request, index: Index) -> None:
    """Raise ``Error`` for ``--adr.NAME`` or ``--ad.NAME`` where no meta of any script has NAME."""
    for flag, name in _flags_and_names(request):
        word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
        rows = index.rows().values()
        if not any(word.search(read_or_empty(f"{row.path}/{row.meta_name}")) for row in rows):
            dependency_names = set(_names_of_dependencies(index))
            raise Error(
                "unknown-flag",
                f'--{flag}.{name}: no dependency of any script is named "{name}"',
                hint=did_you_mean(name, dependency_names) or _there_are(dependency_names),
            )


def unused(request: Request, reached: set[str]) -> list[str]:
    """Return warnings about updates by name that reached none of the dependencies of a run.

    There are none for updates that a hook has read: it may have passed them to other scripts.
    """
    return [
        f"warning: --{flag}.{name} reached no dependency; "
        + (did_you_mean(name, reached) or _there_are(reached))
        for flag, name in _flags_and_names(request)
        if name not in reached and HANDED_ON[flag] not in reached
    ]


def _there_are(reached: set[str]) -> str:
    names = reached.difference(HANDED_ON.values())
    shown = ", ".join(sorted(names)[:_LISTED]) + (" ..." if len(names) > _LISTED else "")
    return f"there are: {shown}" if names else "no dependency has a name"


def _flags_and_names(request: Request) -> Iterator[tuple[str, str]]:
    for name in request.ad:
        yield "ad", name
    for name in request.adr:
        yield "adr", name.removeprefix(USER)


def _names_of_dependencies(index: Index) -> Iterator[str]:
    for path, row in index.rows().items():
        if os.path.isdir(path) and not row.faults:
            yield from _names_in(read_meta(path))


def _names_in(value: Any) -> Iterator[str]:
    """Yield the names in all dependency entries of a meta, however deep."""
    if isinstance(value, dict):
        names = value.get("names")
        yield from (str(name) for name in names) if isinstance(names, list) else ()
    for item in _items(value):
        yield from _names_in(item)


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
