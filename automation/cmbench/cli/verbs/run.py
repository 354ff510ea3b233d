"""``cm run script``: from the request to the record."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error, internal
from cmbench.format.model import Outcome, Request, RunOptions, Script
from cmbench.plan.names import unused
from cmbench.plan.resolve import Resolver
from cmbench.plan.resolved_step import Frame
from cmbench.record import new_run_directory
from cmbench.render.progress import choose_reporter
from cmbench.run.log import RunLog
from cmbench.run.recorder import Recorder
from cmbench.run.scheduler import FactTeller, Scheduler
from cmbench.run.step import StepRunner
from cmbench.session import request as requests_in
from cmbench.session.session import Answer, Session, output_fails

if TYPE_CHECKING:
    from cmbench.plan.node import Plan
    from cmbench.repeat.lockfile import Lock
    from cmbench.run.parallel import Together
    from cmbench.run.prefetch import Prefetcher, Wish
    from cmbench.run.workers import Crew

_OF_PLANS = ("explain", "why", "dot", "mermaid")


def run_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm run script``."""
    session = Session(cmind, i, write=True)
    request, script = session.script()
    if session.flags.get("help"):
        from cmbench.cli.verbs.find import show_help

        return show_help(script, i)
    _refuse_plan_flags(session.flags)
    lock = open_lock(session)
    return start_run(session, request, script, lock)


def start_run(
    session: Session, request: Request, script: Script, lock: Lock | None = None
) -> Answer:
    """Run ``request`` from its plan to its record, with the versions of ``lock``."""
    session.store.sweep()
    return _Run(session, request, script, lock).go()


def _refuse_plan_flags(flags: Mapping[str, Any]) -> None:
    for name in _OF_PLANS:
        if name in flags:
            raise Error(
                "unknown-flag",
                f"--{name} belongs to plans",
                hint='put "plan" in the place of "run": cm plan script ...',
            )


def open_lock(session: Session) -> Lock | None:
    """The lock that this run must obey; ``None`` where there is none, or none yet."""
    path = session.flags.get("lock")
    if not path:
        return None
    if path is True:
        raise Error("bad-value", "--lock needs a file", hint="write --lock=FILE")
    if not os.path.isdir(os.path.dirname(os.path.abspath(str(path)))):
        raise Error("bad-value", f"--lock={path}: there is no such folder", hint="make it first")
    if not os.path.exists(str(path)):
        return None
    from cmbench.repeat.lockfile import check_lock, read_lock

    lock = read_lock(str(path))
    check_lock(lock, session.index, session.repositories)
    return lock


def make_resolver(session: Session, facts: FactTeller, lock: Lock | None) -> Resolver:
    """A resolver for a plan, of the cache as it is now, that obeys ``lock``, where there is one."""
    store = session.store.as_it_is_now()
    if lock is None:
        return Resolver(session.index, store, facts)
    from cmbench.repeat.lockfile import LockedResolver

    return LockedResolver(session.index, store, facts, lock)


class _Run:
    """One run from plan to record."""

    def __init__(
        self, session: Session, request: Request, script: Script, lock: Lock | None
    ) -> None:
        self._session = session
        self._lock = lock
        self._request = request
        self._script = script
        self._options: RunOptions = session.options
        self._prefetcher: Prefetcher | None = None
        self._directory = new_run_directory(session.root)
        self._log = RunLog(os.path.join(self._directory, "log.txt"))
        self._recorder = Recorder(self._directory, self._log, _command(session), _asked(session))
        out = "json" if self._options.out == "json" else str(session.i.get("out") or "")
        options = self._options
        self._reporter = choose_reporter(out, options.quiet, options.silent, options.verbose)

    def go(self) -> Answer:
        error: Error | None = None
        try:
            with interruptible(), self._session.store.running(self._directory):
                return self._answer(*self._execute())
        except Error as problem:
            error = _with_known_cause(problem, self._log.path)
            self._log_cause(problem)
            raise
        except KeyboardInterrupt:
            error = Error("interrupted", "stopped by the user; what was finished is kept")
            raise error from None
        except BrokenPipeError:
            # All is done; only nobody reads what is printed any more.
            raise
        except Exception as problem:
            if self._options.debug or (isinstance(problem, OSError) and output_fails()):
                raise
            error = internal(problem)
            raise error from problem
        finally:
            if self._prefetcher is not None:
                self._prefetcher.stop()
            self._reporter.end()
            self._warn_of_faults()
            self._log.close()
            self._recorder.write(self._session.repositories, error)
            self._session.index.save()
            self._keep_lock(error)
            if error is not None:
                error.log = self._log.path
                error.record = self._recorder.path

    def _warn_of_unused_names(self, resolver: Resolver) -> None:
        if self._session.i.get("out") == "con":
            for text in unused(self._request, resolver.names):
                print(text, file=sys.stderr)

    def _warn_of_faults(self) -> None:
        """Tell once per script what is wrong with the metas of other people that were used."""
        talks = self._session.i.get("out") == "con"
        talks = talks and not (self._options.silent or self._options.quiet)
        used = {step["script_uid"] for step in self._recorder.steps}
        for row in self._session.index.rows().values():
            if row.faults and row.uid in used:
                text = f"warning: {row.path}: {'; '.join(row.faults)}"
                self._log.line(text)
                if talks:
                    print(text, file=sys.stderr)

    def _log_cause(self, error: Error) -> None:
        if error.__cause__ is not None:
            import traceback

            for line in traceback.format_exception(error.__cause__):
                self._log.line(line.rstrip())

    def _execute(self) -> tuple[Frame, Outcome]:
        session = self._session
        crew = None
        if self._options.jobs > 1:
            from cmbench.run.workers import Crew

            crew = Crew(self._options.jobs)
        runner = StepRunner(
            self._reporter,
            self._log,
            self._options.quiet,
            self._options.verbose,
            session.cmind,
            session.words,
            self._options.offline,
            crew,
        )
        facts = FactTeller(runner, self._directory)
        facts.resolver = resolver = make_resolver(session, facts, self._lock)
        plan = self._foresee(facts, resolver)
        self._reporter.begin(plan.steps if plan else 1)
        runner.downloads = session.store.place("ahead")
        runner.command = self._recorder.command
        resolver.begin(session.store)
        reporters = [self._reporter, self._recorder]
        together = self._together(crew, facts, resolver) if crew is not None else None
        scheduler = Scheduler(
            resolver, runner, facts, reporters, self._directory, together, self._prefetcher
        )
        result = scheduler.run(self._request, plan)
        self._warn_of_unused_names(resolver)
        if self._lock is not None:
            from cmbench.repeat.lockfile import check_result

            check_result(self._lock, self._recorder.steps)
        return result

    def _together(self, crew: Crew, facts: FactTeller, other: Resolver) -> Together:
        from cmbench.run.forecast import Forecaster
        from cmbench.run.parallel import Together

        resolver = make_resolver(self._session, facts, self._lock)
        resolver.share(other)
        resolver.begin(self._session.store)
        return Together(crew, Forecaster(resolver, facts), self._reporter)

    def _keep_lock(self, error: Error | None) -> None:
        """Write the lock that ``--lock`` asks for, once the run has succeeded."""
        path = self._session.flags.get("lock")
        obeyed = self._lock is not None and self._lock.strict
        if error is not None or not path or obeyed:
            return
        talks = self._session.i.get("out") == "con" and not self._options.silent
        from cmbench.record import load_record
        from cmbench.repeat.lockfile import lock_data, locked_files, write_lock

        record = load_record(self._recorder.path)
        data = lock_data(record, self._session.index, self._session.store)
        write_lock(str(path), {**data, "files": locked_files(data, self._session.index)})
        if talks:
            counts = [
                f"{len(data[name])} {word}{'' if len(data[name]) == 1 else 's'}"
                for name, word in (("scripts", "script"), ("versions", "version"))
            ]
            files = len(data["downloads"])
            counts += [f"{files} file{'' if files == 1 else 's'}"] if files else []
            print(f"locked: {path} ({', '.join(counts)})")

    def _foresee(self, facts: FactTeller, resolver: Resolver) -> Plan | None:
        """The plan, where there is more than one step; refuses what cannot be resolved."""
        script = self._script
        blocks = [script.settings, *(v.settings for v in script.variations.values())]
        if not any(block.deps for block in blocks):
            return None
        from cmbench.cli.verbs.plan import make_plan

        plan = make_plan(self._session, self._request, facts, resolver)
        if self._options.prefetch and not self._options.offline:
            from cmbench.run.prefetch import certain

            self._prefetch(certain(plan.root))
        return plan

    def _prefetch(self, wishes: list[Wish]) -> None:
        """Begin the downloads that are sure to be wanted, unless there is nothing to gain."""
        if not wishes:
            return
        from cmbench.run.prefetch import Prefetcher

        folder = self._session.store.place("ahead")
        self._prefetcher = Prefetcher(folder, wishes, lambda text: self._log.line(f"-- {text}"))
        self._prefetcher.start()

    def _answer(self, frame: Frame, outcome: Outcome) -> Answer:
        self._reporter.end()
        answer: Answer = {
            "return": 0,
            "env": dict(outcome.new_env),
            "new_env": dict(outcome.new_env),
            "state": dict(outcome.new_state),
            "new_state": dict(outcome.new_state),
            "deps": [step["step"] for step in self._recorder.steps[:-1]],
            "version": outcome.version,
            "entry": outcome.entry,
            "cached": outcome.cached,
            "record": self._recorder.path,
        }
        if self._session.i.get("out") == "con":
            self._print_end(frame, outcome, answer)
        return answer

    def _print_end(self, frame: Frame, outcome: Outcome, answer: Answer) -> None:
        from cmbench.render.listing import closing_text

        if self._session.flags.get("json"):
            print(json.dumps(answer, indent=2, default=str))
        if self._options.silent:
            return
        if self._script.host_facts:
            print("\n".join(f"{key}={value}" for key, value in outcome.new_env.items()))
            return
        if not self._options.quiet:
            for key, title in self._script.print_env_at_the_end.items():
                if key in outcome.new_env:
                    print(f"{title}: {outcome.new_env[key]}")
        if not self._options.quiet or len(self._recorder.steps) > 1:
            print(closing_text(self._recorder.steps, self._recorder.path))


def _command(session: Session) -> Sequence[str]:
    words = session.i.get("cmd")
    if words:
        # cmind takes the first two words away from the list that it hands over.
        return ["cm", "run", "script", *map(str, words)] if isinstance(words, list) else [words]
    return ["cm", "run", "script", *(f"--{k}={v}" for k, v in _plain(session.flags).items())]


def _plain(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags as they stand on a command line: ``env.KEY`` in the place of nested dictionaries."""
    found: dict[str, Any] = {}
    for key, value in flags.items():
        if isinstance(value, Mapping):
            found.update({f"{key}.{name}": v for name, v in _plain(value).items()})
        elif isinstance(value, str | int | float | bool) and key != "out":
            found[key] = value
    return found


def _asked(session: Session) -> dict[str, Any]:
    """The call as data, for the record: all that is needed to make it again."""
    tags, uid = requests_in.tags_of(session.i)
    asked = {key: value for key, value in session.flags.items() if key not in ("tags", "out")}
    return {"tags": str(tags), **({"artifact": uid} if uid else {}), **asked}


def _with_known_cause(error: Error, log: str) -> Error:
    """Put the remedy of a known cause in front of a hint that only says how to look further."""
    vague = not error.hint or error.hint.startswith(("repeat this step", "correct the script"))
    # A module that customize.py lacks is the script's fault, not that of the user's Python.
    own = "ModuleNotFoundError" in error.message
    codes = ("script-failed", "customize-failed", "customize-crashed")
    if vague and not own and error.code in codes:
        from cmbench.lib.causes import remedy, remedy_in_log

        found = remedy("\n".join((error.message, *error.context))) or remedy_in_log(log)
        error.hint = "\n".join(part for part in (found, error.hint) if part)
    return error


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a run the way Ctrl-C does."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {}
    with suppress(ValueError):
        before = {s: signal.signal(s, stop) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
