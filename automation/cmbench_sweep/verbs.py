"""The verbs of ``cm … experiment``: parse, query, render."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cmbench.cli.reply import Command, Reply, refuse_unknown
from cmbench.errors import Error
from cmbench.lib.text_files import counted, listed
from cmbench_results.export import as_csv, as_parquet, check_free, refuse_file_name
from cmbench_sweep import driver, render
from cmbench_sweep.driver import OpenSweep
from cmbench_sweep.execution_flags import ELSEWHERE
from cmbench_sweep.opening import open_at, sayer_of, screen_of
from cmbench_sweep.reading import read_sweep
from cmbench_sweep.references import ReferenceCheck, data_of
from cmbench_sweep.report import Report, best, effects, frontier, report
from cmbench_sweep.store import PointStore, decode, for_its_group
from cmbench_sweep.values import (
    FAILED,
    MEASURED,
    OPEN,
    PointOutcome,
    Sweep,
    SweepPoint,
)
from common.problems import Problem

_COMMON = ("sweep", "name", "out", "json", "quiet", "silent", "verbose", "debug", "help")
_OF_SITES = ("on", "executor", "labels", "site", *ELSEWHERE)
_OF_RUNS = (
    *("retry_failed", "new", "complete", "reference", "write_reference", "tolerance"),
    *_OF_SITES,
)
_OF_EXPLORATION = ("tags", "explore", "dir")


def run_experiment(command: Command) -> Reply:
    """``cm run experiment``: measure a sweep file, or go through a command line as CM does.

    Raises ``bad-sweep``, ``points-failed`` and others.
    """
    if not command.flags.get("sweep"):
        from cmbench_sweep.explore import explore

        if not command.rest:
            own = {name for name in command.flags if name.split(".")[0] in _OF_EXPLORATION}
            refuse_unknown(command.flags, (*_COMMON, *_OF_RUNS, *own))
        _refuse_with_line(command.flags)
        return explore(command)
    refuse_unknown(command.flags, (*_COMMON, *_OF_RUNS, "docker"))
    site, opened = _opened(command)
    references = ReferenceCheck.of(command.flags, opened.sweep, measures=True)
    redone = [
        name
        for name, flag in ((FAILED, "retry_failed"), (MEASURED, "new"))
        if command.flags.get(flag)
    ]
    lacking = bool(command.flags.get("complete"))
    say = sayer_of(command)
    if redone or lacking:
        opened = driver.again(opened, redone, lacking)
        others = driver.shared_with(opened)
        if others:
            say(f"some points are of other sweeps too, which get the new results: {listed(others)}")
    opened = driver.run_sweep(opened, site, say, screen_of(command))
    outcomes = opened.outcomes()
    references.write(opened.points, outcomes, say)
    store = PointStore(opened.workspace.root)
    reply = _reply(store, opened.sweep, opened.points, outcomes, references)
    error = _failure(opened, outcomes) or reply.error
    return Reply(reply.answer, reply.text, reply.data, error)


def _refuse_with_line(flags: Mapping[str, Any]) -> None:
    """Raise ``bad-value`` for a flag that has no effect where a command line is gone through."""
    name = next((name for name in _OF_RUNS if name in flags), "")
    if name:
        hint = "write a sweep: --sweep=FILE; or, for one run, `cm run script ... --site=NAME`"
        text = f"--{name.replace('_', '-')} is for a sweep; a command line after -- runs here"
        raise Error("bad-value", text, hint=hint)


def replay_experiment(command: Command) -> Reply:
    """``cm replay experiment NAME``: run a recorded command line again, as CM does.

    Raises ``sweep-not-found``, ``points-failed`` and others.
    """
    from cmbench_sweep.explore import replay

    refuse_unknown(command.flags, (*_COMMON, "tags", "dir", "uid"))
    return replay(command)


def plan_experiment(command: Command) -> Reply:
    """``cm plan experiment --sweep=FILE``: its points, their state, the steps to prepare.

    With the flags of a cluster, also what would be submitted. Raises ``needs-input``,
    ``bad-sweep``, ``unknown-flag`` and others.
    """
    refuse_unknown(command.flags, (*_COMMON, *_OF_SITES))
    if not command.flags.get("sweep"):
        raise Error("needs-input", "no sweep is named", hint="write --sweep=FILE")
    site, opened = _opened(command)
    seen = driver.foresee(opened)
    jobs = site.preview(opened)
    data = {
        "name": opened.sweep.name,
        "points": [render.data_of(point, seen.known[point.key]) for point in opened.points],
        "measured": seen.count(MEASURED),
        "failed": seen.count(FAILED),
        "prepare": [asdict(step) for step in seen.preparation.steps],
        "point_seconds": seen.point_seconds,
        "jobs": [{"submit": words, "script": text} for words, text in jobs],
    }
    return Reply({"plan": data}, lambda: render.foreseen(seen) + render.submitted(jobs), data)


def show_experiment(command: Command) -> Reply:
    """``cm show experiment NAME``: its points, frontier, effects; without a name, all sweeps.

    Raises ``sweep-not-found``, ``no-results``, ``bad-value``.
    """
    store = PointStore(command.workspace.root)
    names = command.names
    if not names:
        return _names(store)
    sweep, points = sweep_from(store.stored_sweep(names[0]))
    outcomes = store.outcomes(points)
    sweep_report = report(sweep, points, outcomes)
    flags = command.flags
    if flags.get("effects"):
        figure = sweep_report.figure("" if flags["effects"] is True else str(flags["effects"]))
        rows = effects(sweep_report, figure)
        return Reply({}, lambda: render.effects(rows, figure), [asdict(e) for e in rows])
    if flags.get("frontier"):
        return _frontier(command, sweep, points)
    if flags.get("best"):
        return _best(command, sweep, points)
    references = ReferenceCheck.of(command.flags, sweep)
    references.write(points, outcomes, sayer_of(command))
    return _reply(store, sweep, points, outcomes, references)


def export_experiment(command: Command) -> Reply:
    """``cm export experiment NAME``: its points as a table in a file, CSV by default.

    Raises ``needs-input``, ``sweep-not-found``, ``no-results``, ``bad-value`` for a file that
    exists already.
    """
    if not command.names:
        hint = "name one: `cm export experiment NAME --csv` (`cm show experiment` lists them)"
        raise Error("needs-input", "no sweep is named", hint=hint)
    if command.flags.get("csv") and command.flags.get("parquet"):
        hint = "leave out --csv or --parquet"
        raise Error("bad-value", "--csv and --parquet are two formats", hint=hint)
    kind = "parquet" if command.flags.get("parquet") else "csv"
    refuse_file_name(kind, command.flags.get(kind, True))
    store = PointStore(command.workspace.root)
    sweep, points = sweep_from(store.stored_sweep(command.names[0]))
    outcomes = store.outcomes(points)
    report(sweep, points, outcomes).figure()  # raises where there is nothing to export
    chosen = command.flags.get("output") or f"{sweep.name}.{kind}"
    path = Path(str(chosen)).expanduser().absolute()
    check_free(path, bool(command.flags.get("force")))
    writer = as_parquet if kind == "parquet" else as_csv
    writer(render.rows_of([(point, outcomes[point.key]) for point in points]), path)
    data = {"path": str(path), "points": len(points)}
    return Reply(data, f"{counted(len(points), 'point')} in {path}", data)


def _frontier(command: Command, sweep: Sweep, points: tuple[SweepPoint, ...]) -> Reply:
    x, comma, y = str(command.flags["frontier"]).partition(",")
    if not comma:
        raise Error(
            "bad-value",
            "--frontier names no two figures",
            hint="write --frontier=throughput,latency_p99",
        )
    outcomes = PointStore(command.workspace.root).outcomes(points)
    sweep_report = report(sweep, points, outcomes)
    entries = frontier(sweep_report, x, y)
    data = [render.data_of(entry.point, entry.outcome) for entry in entries]
    return Reply({"list": data}, lambda: "\n".join(render.table(sweep_report, entries)), data)


def _best(command: Command, sweep: Sweep, points: tuple[SweepPoint, ...]) -> Reply:
    sweep_report = report(sweep, points, PointStore(command.workspace.root).outcomes(points))
    figure = command.flags["best"]
    top = best(sweep_report, "" if figure is True else str(figure))
    if top is None:
        raise Error("no-results", "no point satisfies the constraints", hint="relax them")
    data = render.data_of(top.point, top.outcome)
    return Reply({"best": data}, data["command"], data)


def _names(store: PointStore) -> Reply:
    rows = []
    for name in store.names():
        points = sweep_from(store.stored_sweep(name))[1]
        outcomes = store.outcomes(points).values()
        rows.append(
            {"name": name, "points": len(points)}
            | {status: sum(o.status == status for o in outcomes) for status in (MEASURED, FAILED)}
        )
    lines = [f"{r['measured']:>7} of {r['points']:<7} {r['name']}" for r in rows]
    text = "\n".join(lines) or "no sweeps yet; measure one: cm run experiment --sweep=FILE"
    return Reply({"list": rows}, text, rows)


def sweep_from(stored: Mapping[str, Any]) -> tuple[Sweep, tuple[SweepPoint, ...]]:
    """Return a sweep and its points as they were kept; raise ``sweep-not-found``."""
    try:
        points = tuple(decode(SweepPoint, point) for point in stored["points"])
        return decode(Sweep, stored["sweep"]), points
    except (KeyError, TypeError, ValueError) as problem:
        raise Error(
            "sweep-not-found",
            f"the stored data of a sweep cannot be read: {problem}",
            hint="to store it again: `cm run experiment --sweep=FILE`",
        ) from None


def _opened(command: Command) -> tuple[driver.ExecutionSite, OpenSweep]:
    """Return where a command measures, and its sweep, which a site has for itself."""
    path = command.flags["sweep"]
    if path is True:
        raise Error("bad-value", "--sweep needs a file", hint="write --sweep=FILE")
    name = command.flags.get("name")
    sweep = read_sweep(str(path), str(name) if name and name is not True else "")
    return open_at(command.workspace, sweep, command.flags)


def _reply(
    store: PointStore,
    sweep: Sweep,
    points: tuple[SweepPoint, ...],
    outcomes: Mapping[str, Any],
    references: ReferenceCheck,
) -> Reply:
    sweep_report = report(sweep, points, outcomes)
    compared = references.compare(points, outcomes)
    data: dict[str, Any] = {
        "name": sweep.name,
        "points": [render.data_of(point, outcomes[point.key]) for point in points],
    }
    if references.path:
        data["reference"] = references.path
        for point, row in zip(points, data["points"], strict=True):
            row["reference"] = [data_of(c) for c in compared.get(point.key, ())]

    def text() -> str:
        shown = render.shown(sweep_report, points, outcomes, compared, references.path)
        page = _written(store, sweep_report)
        return f"{shown}\n\npicture: {_near(page)}" if page else shown

    return Reply(data, text, data, references.failure(compared))


def _written(store: PointStore, sweep_report: Report) -> Path | None:
    """Write the report of a sweep; return ``None`` where that is not possible."""
    from cmbench_sweep.report_files import write_report

    try:
        with for_its_group(store.root):
            return write_report(sweep_report, store.root / "reports" / sweep_report.sweep.name)
    except (OSError, Problem):
        # A reader of another user's sweep has the table.
        return None


def _near(path: Path) -> str:
    """Return the shorter of a path and the way to it from the current folder."""
    return min(os.path.relpath(path), str(path), key=len)


def _failure(opened: OpenSweep, outcomes: Mapping[str, PointOutcome]) -> Error | None:
    failed = [key for key, outcome in outcomes.items() if outcome.status == FAILED]
    left = [key for key, outcome in outcomes.items() if outcome.status == OPEN]
    # Points that are left to measure again have their old results for all other callers.
    before = PointStore(opened.workspace.root)
    if failed:
        again = any(before.outcome(key).status == MEASURED for key in failed)
        hint = f"their reasons are kept: `cm show experiment {opened.sweep.name}`"
        hint += "\nagain: add --retry-failed"
        return Error(
            "points-failed",
            f"{len(failed)} of {len(opened.points)} points have failed",
            hint="the results that they had before stay" if again else hint,
        )
    if left:
        again = any(before.outcome(key).done for key in left)
        stays = "the results that they had before stay; " if again else ""
        return Error(
            "sweep-unfinished",
            f"{len(left)} of {len(opened.points)} points are still to do",
            hint=f"{stays}{opened.advice or 'repeat the command to continue'}",
        )
    return None
