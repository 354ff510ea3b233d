"""The results of a home from Python: as typed values, or as rows for a table of another library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cmbench.session.workspace import Workspace
from cmbench_results import export, query
from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store, results_by_id
from cmbench_results.values import BenchmarkResult


def results(
    *words: str, workspace: Workspace | None = None, **filters: str
) -> list[BenchmarkResult]:
    """Return all results with these words and column values, best first by benchmark and scenario.

    ``filters`` are those of ``cm find results``: ``scenario="Offline,Server"``. Without a
    ``workspace`` they are those of the home that ``cm`` uses. Raises
    ``unknown-flag`` for a column that there is not, ``bad-value`` and ``extra-missing``.
    """
    with _opened(workspace) as store:
        uids = [row["uid"] for row in query.iterate_results(store, query.of_flags(filters, words))]
        by_uid = results_by_id(store, uids)
    return [by_uid[uid] for uid in uids if uid in by_uid]


def rows(*words: str, workspace: Workspace | None = None, **filters: str) -> list[dict[str, Any]]:
    """Return the same with a value per column, as ``cm export results --csv`` writes them."""
    with _opened(workspace) as store:
        chosen = query.of_flags(filters, words)
        settings = query.names_of_settings(store, chosen)
        described = query.with_settings(store, query.iterate_results(store, chosen))
        return list(export.flat(described, settings))


@contextmanager
def _opened(workspace: Workspace | None) -> Iterator[Store]:
    with Store(SourceFiles((workspace or Workspace.open()).root)) as store:
        store.refresh()
        yield store
