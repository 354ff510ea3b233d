"""The commands about cache entries."""

from __future__ import annotations

from typing import Any

from cmbench.cli.verb import JSON, OF_ENTRIES, Flags, Verb

_ENTRIES = {"tags=TAGS": "entries with these tags; or an id, or a script's name"}
_NAMED = {**_ENTRIES, "all": "all entries", **JSON}
_ARCHIVE = {
    **_ENTRIES,
    "all": "all entries",
    "output=FILE": "the archive: .tar.gz, or .tar, which is faster",
    **JSON,
}


def _cache(word: str, does: str, usage: Flags, flags: Flags, *takes: str, **more: Any) -> Verb:
    """A verb about cache entries."""
    return Verb("cache", word, does, usage, flags, (*OF_ENTRIES, *takes), **more)


VERBS: tuple[Verb, ...] = (
    Verb("cache", "help", "help:show_usage"),
    _cache(
        "show",
        "cache:show_cache",
        {"cm show cache [--tags=get,python3]": "what is kept, its size and last use"},
        {
            **_ENTRIES,
            "env": "what each gives to its users",
            "p": "only their folders",
            "path-only": "the same",
            **JSON,
        },
        cmind=("show", "search"),
    ),
    _cache(
        "rm",
        "cache:remove_cache",
        {"cm rm cache --tags=get,python3 [-f]": "remove entries; -f does not ask"},
        {**_ENTRIES, "all": "all entries", "force": "do not ask (-f)", **JSON},
        cmind=("delete",),
    ),
    Verb(
        "cache",
        "why",
        "cache:why_cache",
        {"cm why cache --tags=get,python3": "what made it, what it read, is it valid"},
        {
            **_ENTRIES,
            "all": "all entries",
            "INPUT=VALUE": "an input of the script: for a call that was not made yet",
            **JSON,
        },
    ),
    _cache(
        "verify",
        "upkeep:verify_cache",
        {"cm verify cache [--tags=...]": "are its files as published?"},
        {**_ENTRIES, **JSON},
    ),
    _cache(
        "prune",
        "upkeep:prune_cache",
        {"cm prune cache [--tags=...]": "remove what has expired"},
        {**_ENTRIES, **JSON},
    ),
    _cache(
        "mark-tmp",
        "upkeep:mark_tmp_cache",
        {"cm mark-tmp cache --tags=...": "stop using these entries"},
        _NAMED,
        cmind=("mark_tmp",),
    ),
    _cache("pin", "cache:pin_cache", {"cm pin cache <id>": "never remove an entry"}, _NAMED),
    _cache(
        "unpin",
        "cache:unpin_cache",
        {"cm unpin cache <id>": "let gc and rm remove it again"},
        _NAMED,
    ),
    _cache("du", "upkeep:du_cache", {"cm du cache": "what uses the disk, by script"}, JSON),
    _cache(
        "gc",
        "upkeep:gc_cache",
        {
            "cm gc cache --max-size=20GB [--yes]": "make room; without --yes only shows",
            "cm gc cache --older-than=30d [--yes]": "what was not used for this long",
        },
        {
            "max-size=20GB": "remove the least recently used until this much is left",
            "older-than=30d": "remove what was not used for this long",
            "keep-runs=7d": "keep what runs within this time used; 7d by default",
            "dry-run": "only show what would be removed, as without --yes",
            "yes": "remove it",
            **JSON,
        },
        "y",
    ),
    _cache(
        "export",
        "bundle:export_cache",
        {"cm export cache --tags=... --output=F": "entries and their needs, in a file"},
        _ARCHIVE,
    ),
    _cache("bundle", "bundle:export_cache", {"cm bundle cache ...": "the same"}, _ARCHIVE),
    _cache(
        "import",
        "bundle:import_cache",
        {"cm import cache --input=F": "verify them and add them to this cache"},
        {"input=FILE": "the archive", **JSON},
    ),
)
