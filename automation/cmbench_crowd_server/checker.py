"""What follows an upload: its logs are read, its class is judged anew, and it is published.

Published results are lines of a file per contributor, which the database of results takes in
as it does any other place; the pages, ``cm find results`` and ``cm reindex results`` know them.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cmbench.errors import Error, internal, visible
from cmbench.lib.files import file_error
from cmbench_crowd import manifest as m
from cmbench_crowd_server import claims, hardware, judge, standing, traces, work
from cmbench_crowd_server.files import Files
from cmbench_crowd_server.ledger import (
    CHECKING,
    COUNTED,
    HELD,
    HOUR_S,
    IDLE,
    PROVEN,
    PUBLISHED,
    QUARANTINE,
    QUEUED,
    REFUSED,
    REJECTED,
    Ledger,
    Row,
    check,
    manifest_of,
    work_of,
)
from cmbench_crowd_server.recompute import recomputed
from cmbench_crowd_server.roofline import plausible
from cmbench_results.readers.crowd import RESULTS
from cmbench_results.schema import crowd_run
from cmbench_results.values import (
    CHECKED,
    UPLOADED,
    BenchmarkResult,
    BenchmarkWorkload,
    SoftwareStack,
    SystemDescription,
    from_json,
    to_json,
)

CLAIM = 1e-4
"""How far a manifest's figure may be from the log's, relative to it: logs have six digits."""
_PAUSE_S = 2.0
_LENGTH = re.compile(r"(test|fast) run")
Checks = list[dict[str, Any]]


class Checker:
    """Checks uploads one after the other; ``trusting`` publishes what passes, unseen by people."""

    def __init__(self, ledger: Ledger, files: Files, folder: Path, trusting: bool = False) -> None:
        self.ledger = ledger
        self.files = files
        self.trusting = trusting
        self._folder = folder
        self._wake = threading.Event()
        self._end = threading.Event()
        self._publishing = threading.Lock()
        self._spent: dict[str, float] = {}
        self._swept = 0.0
        self._last_problem = ""

    def start(self) -> Callable[[], None]:
        """Check in a thread of its own from now on; returns what ends it."""
        self.ledger.requeue()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()

        def stop() -> None:
            self._end.set()
            self._wake.set()
            thread.join(timeout=5)

        return stop

    def wake(self) -> None:
        """Something was queued."""
        self._wake.set()

    def _run(self) -> None:
        with contextlib.suppress(Error):
            self._tidy()
        while not self._end.is_set():
            # A database that is away for a while comes back; the queue is in it.
            try:
                self._work()
                self._last_problem = ""
            except Error as problem:
                self._tell(problem)
            self._wake.wait(_PAUSE_S)
            self._wake.clear()

    def _work(self) -> None:
        self.ledger.requeue()
        while not self._end.is_set() and self.step():
            pass
        if time.monotonic() - self._swept > HOUR_S:
            self._sweep()

    def _tell(self, problem: Error) -> None:
        """Say once, to the owner of the server, why nothing is checked."""
        if problem.message != self._last_problem:
            print(visible(problem.render()), file=sys.stderr, flush=True)
            self._last_problem = problem.message

    def _tidy(self) -> None:
        """Do what a server that was killed has said in the database and not done on the disk."""
        self._sweep()
        rows = self.ledger.rows(crowd_run.c.state == PUBLISHED)
        written = self._folder.iterdir() if self._folder.is_dir() else ()
        self.publish({row["sender"] for row in rows} | {path.name for path in written})

    def _sweep(self) -> None:
        """Forget uploads that do not go on, and files that belong to nothing any more."""
        self.ledger.expire()
        # In this order: what begins in between is in the second list too.
        runs = set(self.files.runs())
        for run in runs - self.ledger.kept():
            self.files.remove(run)
        self._spent.clear()
        self._swept = time.monotonic()

    def step(self) -> bool:
        """Check one upload; whether there was one.

        Of those whose networks have cost least time so far it is the one that has waited longest:
        who sends many that take long waits for them alone. Raises ``no-database``, and
        ``no-space`` and the like where this machine has no means to check anything now.
        """
        rows = self.ledger.rows(crowd_run.c.state == QUEUED)
        rows.sort(key=lambda queued: self._spent.get(_origin(queued), 0.0))
        row = next((r for r in rows if self.ledger.move(r["id"], (QUEUED,), CHECKING)), None)
        if row is None:
            return False
        began = time.monotonic()
        try:
            self._check(row)
        except (Error, OSError) as problem:
            # It is checked again, after those of others: it may be at fault.
            self._spend(row, _PAUSE_S)
            if isinstance(problem, Error):
                raise
            raise file_error(problem, Path(tempfile.gettempdir())) from None
        except Exception as problem:
            # Else it would be the first again, for ever, and all others behind it.
            checks = [*row["checks"], check("logs", False, internal(problem).message)]
            self.ledger.move(row["id"], (CHECKING,), REFUSED, why=_why(checks), checks=checks)
        finally:
            self._spend(row, time.monotonic() - began)
        return True

    def _spend(self, row: Row, seconds: float) -> None:
        origin = _origin(row)
        self._spent[origin] = self._spent.get(origin, 0.0) + seconds

    def _check(self, row: Row) -> None:
        manifest = manifest_of(row)
        checks, logged, manifest = self._checked(row, manifest)
        row = {**row, "work": work_of(manifest)}
        verdict = self._verdict(row, manifest, checks, logged)
        self.ledger.move(row["id"], (CHECKING,), why=_why(verdict["checks"]), **verdict)
        self._after(row, manifest, verdict["state"])

    def _verdict(
        self, row: Row, manifest: m.Manifest, checks: Checks, logged: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the columns of a checked upload: without a proof, none of them holds a figure."""
        failed = any(item["passed"] is False for item in checks)
        if failed or not logged:
            state = REFUSED if failed else QUARANTINE
            without = to_json(_result(row, manifest, ""))
            return {"state": state, "tier": UPLOADED, "checks": checks, "result": without}
        value, result = logged["value"], _result(row, manifest, logged["result"])
        far = judge.outlier({**row, "value": value}, self._class(row))
        held = [*claims.unusual(manifest), *logged["held"]]
        held += claims.of_the_future([*logged["days"], manifest.created], row["at"])
        held += hardware.changed(manifest.system, self._systems_before(row))
        held += [*standing.beyond(self.ledger.store, result), *filter(None, (far,))]
        checks = [*checks, *(check(HELD, None, words) for words in held)]
        return {
            "state": PUBLISHED if self.trusting and not held else QUARANTINE,
            # No agreement counts it until a person has looked.
            "tier": UPLOADED if held else CHECKED,
            "work": row["work"],
            "checks": checks,
            "value": value,
            "seconds": result.duration_s or 0.0,
            "result": to_json(result),
        }

    def _after(self, row: Row, manifest: m.Manifest, state: str) -> None:
        if state == REFUSED:
            self.files.remove(row["id"])
        if state in COUNTED:
            self.judge_anew(row)
        if state == PUBLISHED:
            self._published(row, manifest)

    def _published(self, row: Row, manifest: m.Manifest) -> None:
        if self.ledger.row(row["id"])["tier"] in PROVEN:
            work.want(self.ledger, work.spec_of(manifest), of=(row["hardware"], row["work"]))
        self.publish([row["sender"]])

    def _checked(self, row: Row, manifest: m.Manifest) -> tuple[Checks, dict[str, Any], m.Manifest]:
        """Return the checks of an upload, what its logs hold, and its manifest as they say."""
        files = {file.role: file for file in manifest.files}
        checks = [*row["checks"]]
        if manifest.files:
            checks.append(check("files", True, "every file has the SHA-256 that was announced"))
        log = files.get("performance-detail")
        if log is None:
            words = "no log of a performance run was sent: its figures cannot be recomputed"
            return [*checks, check("logs", None, words)], {}, manifest
        paths = {role: self.files.path(row["id"], file) for role, file in files.items()}
        seed, fits = work.answered(self.ledger, row, manifest) if row["lease"] else ("", ())
        try:
            logged = recomputed(manifest, paths, seed)
        except Error as problem:
            return [*checks, check("logs", False, problem.message)], {}, manifest
        if logged["short"] and manifest.config.style in (work.FULL, ""):
            manifest = _of_style(manifest, work.SHORT)
            fits = work.answered(self.ledger, row, manifest)[1] if row["lease"] else ()
        checks += [*_of_logs(logged), *_of_figure(manifest, logged)]
        checks.append(self._copied(row, log.sha256, logged["measured"]))
        if row["lease"]:
            checks.append(check("work unit", *fits))
            if all(file["passed"] is not False for file in checks):
                work.finish(self.ledger, row["lease"])
        words = "accuracy as reported, not recomputed: the server has no data set"
        return [*checks, check("accuracy", None, words)], logged, manifest

    def _copied(self, row: Row, log: str, trace: str) -> dict[str, Any]:
        """Check whether any sender has sent this log before, in whatever form.

        Rows of the first servers have the digest of the file.
        """
        self.ledger.move(row["id"], (CHECKING,), CHECKING, why="its log", log_digest=trace)
        # A refused upload does not count: a liar must not be able to spoil an honest log.
        first = not any(
            earlier == log or traces.are_of_one_log(trace, earlier)
            for earlier in traces.sent_before(self.ledger, row)
        )
        words = "its log was not sent before" if first else "the same log was sent before"
        return check("copied", first, words)

    def _systems_before(self, row: Row) -> Iterator[m.ManifestSystem]:
        """Yield what the key of an upload has said of its machine before, the newest first."""
        others = (crowd_run.c.sender == row["sender"], crowd_run.c.id != row["id"])
        counted = crowd_run.c.state.in_(COUNTED)
        for earlier in reversed(self.ledger.rows(*others, counted)):
            yield manifest_of(earlier).system

    def _class(self, row: Row) -> list[Row]:
        same = (crowd_run.c.hardware == row["hardware"], crowd_run.c.work == row["work"])
        proven = (crowd_run.c.state.in_(COUNTED), crowd_run.c.tier.in_(PROVEN))
        return self.ledger.rows(*same, *proven)

    def judge_anew(self, row: Row) -> None:
        """Give all of a run's class the tiers that they have now, and publish what that changes."""
        rows = {item["id"]: item for item in self._class(row)}
        changed = {}
        for run, (tier, words) in judge.tiers(list(rows.values())).items():
            checks = [item for item in rows[run]["checks"] if item["check"] != "agreement"]
            checks.append(check("agreement", True if tier != CHECKED else None, words))
            if (tier, checks) != (rows[run]["tier"], rows[run]["checks"]):
                changed[run] = (tier, checks)
        if changed:
            self.ledger.set_tiers(changed)
            self.publish({rows[run]["sender"] for run in changed})

    def publish(self, senders: Iterable[str]) -> None:
        """Write what contributors have published, and let the database of results read it."""
        with self._publishing:
            for sender in sorted(senders):
                self._publish(sender)

    def _publish(self, sender: str) -> None:
        own = (crowd_run.c.sender == sender, crowd_run.c.state == PUBLISHED)
        rows = self.ledger.rows(*own)
        folder, store = self._folder / sender, self.ledger.store
        if not rows:
            source = store.places.find(str(folder))
            if source is not None:
                store.forget(source)
            # Last: as long as it is there, the next server does all of this again.
            shutil.rmtree(folder, ignore_errors=True)
            return
        results = map(_published, rows)
        _write(folder / RESULTS, "".join(f"{to_json(result)}\n" for result in results))
        source = store.places.add(folder)
        store.add(source, store.places.results(source))

    def accept(self, run: str, who: str) -> None:
        """Publish what lies in quarantine; raises ``wrong-state``, ``upload-not-found``."""
        row = self.ledger.row(run)
        tier = CHECKED if row["tier"] == UPLOADED and row["value"] is not None else row["tier"]
        if not self.ledger.move(run, (QUARANTINE,), PUBLISHED, who, tier=tier):
            raise _state(row, QUARANTINE)
        self.judge_anew(row)
        manifest, length = manifest_of(row), _LENGTH.search(from_json(row["result"]).workload.form)
        self._published(row, _of_style(manifest, length[1]) if length else manifest)

    def reject(self, run: str, who: str, why: str) -> None:
        """Take a result out of pages and comparisons; raise ``upload-not-found``."""
        row = self.ledger.row(run)
        if not self.ledger.move(run, COUNTED, REJECTED, who, why):
            raise _state(row, " or ".join(COUNTED))
        self.judge_anew(row)
        self.publish([row["sender"]])

    def remove(self, run: str, token: str) -> None:
        """Forget an upload with all of its files, or what an earlier attempt has left of it.

        Raises ``bad-token``, ``upload-not-found``.
        """
        row = self.ledger.trace(run)
        self.ledger.remove(run, token)
        self.files.remove(run)
        self.judge_anew(row)
        self.publish([row["sender"]])


def _of_style(manifest: m.Manifest, style: str) -> m.Manifest:
    """Return a manifest of another length of run: that its log has, whatever it says itself."""
    return replace(manifest, config=replace(manifest.config, style=style))


def _origin(row: Row) -> str:
    return str(row["network"] or row["sender"])


def _why(checks: Checks) -> str:
    return "; ".join(item["words"] for item in checks if item["passed"] is False)


def _state(row: Row, expected: str) -> Error:
    words = f"{row['id']} is {row['state']}, not {expected}"
    return Error("wrong-state", words, hint="see `cm review results`")


def _of_logs(logged: Mapping[str, Any]) -> Checks:
    """Return the findings of the submission checks; faults of a short run are notes."""
    if not logged["known"]:
        return [check("benchmark", False, "no rules are known for this benchmark in this round")]
    checks = []
    for rule, severity, words in logged["findings"]:
        passed = {"error": False, "warning": None, "nature": None, "note": None}[severity]
        checks.append(check(rule, passed, words))
    checks += [check("rule", True, title) for title in logged["kept"]]
    return [*checks, *(check(IDLE, None, title) for title in logged["idle"])]


def _of_figure(manifest: m.Manifest, logged: Mapping[str, Any]) -> Checks:
    """Return whether the figure is what the manifest says, and what its hardware can do."""
    checks = [_claim(manifest, logged)]
    if logged["value"] and logged["result"]:
        unit = from_json(logged["result"]).unit
        checks.append(check("roofline", *plausible(manifest, logged["value"], unit)))
    return checks


def _claim(manifest: m.Manifest, logged: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the manifest says of the result what its log does; only the log counts."""
    value = logged["value"]
    if not value:
        return check("figure", False, "its logs contain no result")
    said = next((metric for metric in manifest.metrics if metric.name == "result"), None)
    if said is None:
        return check("figure", None, f"{value:g} by its logs; its manifest names no result")
    unit = from_json(logged["result"]).unit if logged["result"] else said.unit
    close = abs(said.value - value) <= CLAIM * abs(value) and said.unit == unit
    words = f"{value:g} {unit} by its logs, {said.value:g} {said.unit} by its manifest"
    return check("figure", close, f"recomputed: {words}" if close else f"it does not fit: {words}")


def _result(row: Row, manifest: m.Manifest, computed: str) -> BenchmarkResult:
    """Return the result as it is published: names by the manifest, figures by the logs or none."""
    work_, config = manifest.workload, manifest.config
    workload, accuracy = _workload(manifest), claims.accuracy_of(manifest)
    shown = {k: v for k, v in asdict(manifest.system).items() if k != "architecture"}
    shown["accelerators"] = manifest.system.accelerators or 0
    name = manifest.system.accelerator or manifest.system.cpu or "unknown"
    system = SystemDescription(
        name=name, os=manifest.software.os if manifest.software else "", **shown
    )
    software = SoftwareStack(
        framework=config.backend,
        backend=config.backend,
        device=config.device,
        precision=work_.precision,
        versions=dict(manifest.software.versions) if manifest.software else {},
    )
    base = (
        from_json(computed)
        if computed
        else BenchmarkResult("", workload, system, metric="not checked")
    )
    return replace(
        base,
        key=f"crowd:{row['id']}",
        workload=workload,
        system=system,
        software=software,
        organization=f"contributor {row['sender']}",
        accuracy=accuracy[0] if accuracy else None,
        accuracy_unit=accuracy[1] if accuracy else "",
        accuracy_target=None,
        settings=dict(config.settings),
        command=claims.command_of(manifest),
        tier=CHECKED if computed else UPLOADED,
        measured_at=base.measured_at or manifest.created,
        notes=f"upload {row['id']}",
        folder="",
    )


def _workload(manifest: m.Manifest) -> BenchmarkWorkload:
    """Return what was measured; a stand-in is named as one, and is never of division closed."""
    work_, style, form = manifest.workload, manifest.config.style, claims.form_of(manifest)
    names = ("benchmark", "scenario", "model", "round", "division", "category", "dataset")
    values = {name: getattr(work_, name) for name in names}
    if claims.stands_in_closed(manifest):
        values["division"] = "open"
    length = "" if style in ("valid", "") else f"{style} run"
    return BenchmarkWorkload(form=", ".join(filter(None, (form, length))), **values)


def _published(row: Row) -> BenchmarkResult:
    """Return the result of a row as pages show it, whatever an earlier server has written."""
    result, manifest = from_json(row["result"]), manifest_of(row)
    length = _LENGTH.search(result.workload.form)
    manifest = _of_style(manifest, length[1] if length else "valid")
    shown = _workload(manifest)
    command = claims.command_of(manifest)
    return replace(result, tier=row["tier"], workload=shown, command=command)


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as problem:
        raise file_error(problem, path) from None
