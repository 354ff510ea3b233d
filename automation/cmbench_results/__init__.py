"""Results as a database: read from files, indexed in SQL, found, compared, exported.

Files stay the source of truth. Each place that was added has one file of results in the CM home
(``manifests``); the database is made from these, and can be made from them again.

It stands on the engine and never under it: the engine knows only the names of its verbs. What
needs a package that is not the engine's own comes with ``pip install cmbench[gui]``.
"""

__all__ = [
    "compare",
    "cost",
    "distinguish",
    "export",
    "query",
    "readers",
    "render",
    "result_sources",
    "schema",
    "shared",
    "sql",
    "store",
    "values",
]
