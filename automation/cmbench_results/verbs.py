"""The verbs of ``cm … results``: parse, query the store, render."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cmbench.cli.reply import Command, Reply, refuse_bare, refuse_unknown
from cmbench.errors import Error
from cmbench_results.result_sources import ResultSource, SourceFiles
from common.problems import Hint

if TYPE_CHECKING:
    from cmbench_results.query import Filter, Page
    from cmbench_results.store import Store
    from cmbench_results.values import BenchmarkResult

NOT_FILTERS = (
    *("db", "json", "csv", "parquet", "bundle", "output", "sort", "limit", "offset", "facets"),
    *("frontier", "has", "cost", "force", "all", "round", "path", "help", "debug"),
    *("out", "quiet", "silent", "verbose", "tags"),
    *("price_per_hour", "purchase_price", "lifetime_years", "price_per_kwh"),
)
_VALUED = {
    "db": "postgresql://user@host/name",
    "output": "results.csv",
    "sort": "throughput",
    "limit": "50",
    "offset": "50",
    "frontier": "throughput,energy_per_sample",
    "has": "power",
    "round": "v5.1",
    "path": "DIR",
    "price_per_hour": "12.5",
    "purchase_price": "30000",
    "lifetime_years": "4",
    "price_per_kwh": "0.3",
}
"""Flags that say nothing without a value, with one that they may have."""
_OF_FILES = ("csv", "parquet", "bundle", "output", "force")
_NONE_YET = "no results yet; add some: cm add results DIR"
_PRICED = {"cost", "price_per_hour", "purchase_price", "price_per_kwh"}
FACETS = ("benchmark", "scenario", "round", "division", "organization", "accelerator", "tier")


def add_results(command: Command) -> Reply:
    """``cm add results DIR``: read a folder, a file or a tree, and store its results.

    Raises ``needs-input``, and as ``SourceFiles.add``.
    """
    from cmbench_results import render

    names = _paths(command)
    if not names:
        raise Error(
            "needs-input",
            "it is not clear what to add",
            hint="name a folder of results, a results.json or a tree: `cm add results DIR`",
        )
    with _store(command) as store:
        done = [_add(store, Path(name), str(command.flags.get("round") or "")) for name in names]
    data = [{"path": p.path, "kind": p.kind, "results": n, "unread": p.unread} for p, n in done]
    text = "\n".join(render.added(source, taken) for source, taken in done)
    return Reply({"list": data}, text, data)


def _add(store: Store, path: Path, benchmark_round: str) -> tuple[ResultSource, int]:
    source = store.places.add(path.expanduser(), benchmark_round)
    return source, store.take_in(source)


def find_results(command: Command) -> Reply:
    """``cm find results bert-99 Offline``: those that fit, as a table, counts or a frontier."""
    from cmbench_results import cost, query, render

    flags = command.flags
    refuse_unknown([name for name in flags if name in _OF_FILES], ())
    with _store(command) as store:
        filters = _filter(command)
        if flags.get("facets"):
            names = FACETS if flags["facets"] is True else str(flags["facets"]).split(",")
            counts = query.facets(store, filters, names)
            text = _NONE_YET if _is_empty(store) else render.facets(counts)
            return Reply({"facets": counts}, text, counts)
        if flags.get("frontier"):
            return _frontier(store, filters, str(flags["frontier"]))
        page = _page(store, filters, command, 20)
        own = query.own(store, page.rows)
        nothing = "" if page.total else _nothing_text(store, filters)
    costs = cost.of_flags(flags) if _PRICED & flags.keys() else None
    rows = [{**row, "settings": _settings(own.get(row["uid"]))} for row in page.rows]
    if costs:
        for row in rows:
            row["cost_per_million"] = costs.per_million(row)
    data = {"total": page.total, "list": rows}
    if nothing:
        return Reply(data, nothing, data)
    return Reply(data, lambda: render.table(page.rows, page.total, costs, own), data)


def _nothing_text(store: Store, filters: Filter) -> str:
    """Return what to do where no result matches."""
    from cmbench_results import suggest

    if _is_empty(store):
        return _NONE_YET
    return "\n".join(["no result matches", *suggest.suggestions(store, filters)])


def _settings(result: BenchmarkResult | None) -> dict[str, str]:
    return dict(result.settings) if result else {}


def _is_empty(store: Store) -> bool:
    """Return whether it holds no result at all."""
    from cmbench_results import query

    return query.find(store, query.Filter(), "", 1, 0).total == 0


def _frontier(store: Store, filters: Filter, axes: str) -> Reply:
    from cmbench_results import query, render

    x, comma, y = axes.partition(",")
    if not comma:
        raise Error(
            "bad-value",
            f"--frontier={axes} does not name two figures",
            hint="write --frontier=throughput,energy_per_sample",
        )
    points = query.points(store, filters, x, y)
    best = query.frontier(points, x, y)
    data = {"total": len(points), "list": best}
    if not points and _is_empty(store):
        return Reply(data, _NONE_YET, data)
    return Reply(data, lambda: render.frontier(best, x, y, len(points)), data)


def show_results(command: Command) -> Reply:
    """``cm show results ID``: all fields of one; without an id, the sources of results.

    With ``--history``, the runs of its configuration by the versions that they used.
    """
    from cmbench_results import compare, cost, render
    from cmbench_results.values import to_json

    names = command.names
    with _store(command) as store:
        if not names:
            return _places(store.readable())
        result = store.result(names[0])
        if command.flags.get("history"):
            return _history(store, result)
        spread = compare.spread(store, result)
    data = {"uid": result.uid, "series": result.series, **json.loads(to_json(result))}
    costs = cost.of_flags(command.flags)
    return Reply(data, lambda: render.result_text(result, spread, costs), data)


def _history(store: Store, result: BenchmarkResult) -> Reply:
    from cmbench_results import regression, render

    lines = regression.history(store, result)
    data = [
        {
            "versions": line.versions,
            "runs": [run.uid for run in line.runs],
            "values": line.values,
            "ratio": line.ratio,
            "probability": line.probability,
            "verdict": line.verdict,
        }
        for line in lines
    ]
    return Reply({"list": data}, lambda: render.history_text(result, lines), data)


def _places(sources: Sequence[ResultSource]) -> Reply:
    data = [{"id": p.id, "kind": p.kind, "path": p.path, "results": p.results} for p in sources]
    lines = [f"{p.results:>8,}  {p.kind:<12} {p.added[:10]}  {p.path}" for p in sources]
    lines = lines or [_NONE_YET]
    return Reply({"list": data}, "\n".join(lines), data)


def compare_results(command: Command) -> Reply:
    """``cm compare results A B …``: which is faster, all figures, and what differs."""
    from dataclasses import asdict

    from cmbench_results import compare, render

    with _store(command) as store:
        compared = compare.compare(store, command.names)
    data = asdict(compared)
    return Reply(data, lambda: render.comparison(compared), data)


def export_results(command: Command) -> Reply:
    """``cm export results --csv --output=FILE``: what ``find`` would find, all of it, as a file.

    Raises ``needs-input``, ``no-results``, ``bad-value`` for a file that exists already.
    """
    from cmbench_results import export, query, render

    filters = _filter(command)
    kinds = ("csv", "json", "parquet", "bundle")
    chosen = [kind for kind in kinds if command.flags.get(kind)]
    if len(chosen) != 1:
        raise Error(
            "needs-input",
            "one format is needed",
            hint="add one of --csv, --json, --parquet, --bundle",
        )
    kind = chosen[0]
    suffix = "zip" if kind == "bundle" else kind
    export.refuse_file_name(kind, command.flags[kind])
    path = Path(str(command.flags.get("output") or f"results.{suffix}")).expanduser().absolute()
    export.check_free(path, bool(command.flags.get("force")))
    with _store(command) as store:
        page = _page(store, filters, command, query.MOST)
        if not page.rows:
            raise Error(
                "no-results", "no result matches", hint="see what there is: `cm find results`"
            )
        if kind == "bundle":
            results = [store.result(row["uid"]) for row in page.rows]
            export.as_bundle(results, path)
        rows = list(query.with_settings(store, page.rows))
    writers: Mapping[str, Any] = {
        "csv": export.as_csv,
        "json": export.as_json,
        "parquet": export.as_parquet,
    }
    if kind in ("csv", "parquet"):
        settings = list(dict.fromkeys(name for row in rows for name in row["settings"]))
        rows = list(export.flat(rows, settings))
    if kind in writers:
        writers[kind](rows, path)
    data = {"path": str(path), "results": len(page.rows)}
    return Reply(data, f"{render.count(len(page.rows), 'result')} in {path}")


def remove_results(command: Command) -> Reply:
    """``cm rm results ID|DIR …``: remove results, or a source with all of its; files stay.

    Raises ``needs-input``, ``result-not-found``.
    """
    from cmbench_results import render

    names = _paths(command)
    if not names:
        raise Error(
            "needs-input",
            "it is not clear which results to remove",
            hint="name ids or places: `cm rm results ID`, `cm rm results DIR` (`cm show results`)",
        )
    with _store(command) as store:
        gone = sum(_remove(store, name) for name in names)
    message = f"{render.count(gone, 'result')} removed; files on the disk are kept"
    return Reply({"removed": gone}, message)


def _remove(store: Store, name: str) -> int:
    whole = store.places.find(name)
    return store.forget(whole) if whole else _remove_one(store, store.result(name).uid)


def _remove_one(store: Store, uid: str) -> int:
    for source in store.readable():
        if store.some(source, {uid}):
            left = store.places.without(source, [uid])
            if left is None:
                store.remove(source, [uid])
            else:
                store.take_in(left)
    return 1


def reindex_results(command: Command) -> Reply:
    """``cm reindex results``: make the database anew from the files that can be read.

    A damaged file of the home's own database is moved aside.
    """
    from cmbench.cli.results import warn
    from cmbench_results import render
    from cmbench_results.store import set_aside

    damaged = None if command.flags.get("db") else set_aside(SourceFiles(command.workspace.root))
    if damaged is not None:
        warn(command, [f"the damaged database is now {damaged}"])
    with _store(command) as store:
        many = store.rebuild()
        left = [item.summary() for item in store.unread.values()]
        store.unread.clear()
    lines = [f"{render.count(many, 'result')} in the database"]
    lines += [f"left out: {item}" for item in left]
    return Reply({"results": many, "left_out": left}, "\n".join(lines))


def _paths(command: Command) -> list[str]:
    path = command.flags.get("path")
    return [*command.names, *([str(path)] if path else [])]


@contextmanager
def _store(command: Command) -> Iterator[Store]:
    """The database with what was added since; warns of files that could not be read."""
    from cmbench.cli.results import warn
    from cmbench_results.store import Store

    refuse_bare(command.flags, _VALUED)
    url = str(command.flags.get("db") or "")
    files = SourceFiles(command.workspace.root)
    with Store(files, url, lambda line: warn(command, [line])) as store:
        store.refresh()
        yield store
        unread = store.unread.values()
    warn(command, (Hint(f"warning: {error.summary().marked}") for error in unread))


def _filter(command: Command) -> Filter:
    from dataclasses import replace

    from cmbench_results import query

    flags = {k: v for k, v in command.flags.items() if k not in NOT_FILTERS or k == "round"}
    has = tuple(filter(None, str(command.flags.get("has") or "").split(",")))
    return replace(query.of_flags(flags, command.names), has=has)


def _page(store: Store, filters: Filter, command: Command, most: int) -> Page:
    from cmbench_results import query

    limit = _integer(command.flags, "limit", most)
    offset = _integer(command.flags, "offset", 0)
    sort = query.best_first(str(command.flags.get("sort") or ""))
    return query.find(store, filters, sort, limit, offset)


def _integer(flags: Mapping[str, Any], name: str, otherwise: int) -> int:
    value = str(flags.get(name, otherwise))
    if not (value.isascii() and value.isdigit()):
        raise Error("bad-value", f"--{name}={value} is not a number", hint=f"write --{name}=50")
    # A database counts no further.
    return int(value) if len(value) < 19 else 10**18
