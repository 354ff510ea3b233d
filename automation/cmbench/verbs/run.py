"""``cm run script``: from the request to the record."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cmbench.errors import Error
from cmbench.frame import Frame
from cmbench.model import Outcome, Request, RunOptions, Script
from cmbench.record import Recorder, new_run_directory
from cmbench.report import choose_reporter
from cmbench.resolve import Resolver
from cmbench.run import StepRunner
from cmbench.runlog import RunLog
from cmbench.schedule import FactTeller, Scheduler
from cmbench.session import Answer, Session


def run_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm run script``."""
    session = Session(cmind, i, write=True)
    request, script = session.script()
    if session.flags.get("help"):
        from cmbench.verbs.find import show_help

        return show_help(script, i)
    session.store.sweep()
    return _Run(session, request, script).go()


class _Run:
    """One run from plan to record."""

    def __init__(self, session: Session, request: Request, script: Script) -> None:
        self._session = session
        self._request = request
        self._script = script
        self._options: RunOptions = session.options
        self._directory = new_run_directory(session.root)
        self._log = RunLog(os.path.join(self._directory, "log.txt"))
        self._recorder = Recorder(self._directory, self._log, _command(session))
        out = "json" if self._options.out == "json" else str(session.i.get("out") or "")
        options = self._options
        self._reporter = choose_reporter(out, options.quiet, options.silent, options.verbose)

    def go(self) -> Answer:
        error: Error | None = None
        try:
            with _interruptible(), self._session.store.running(self._directory):
                return self._answer(*self._execute())
        except Error as problem:
            error = problem
            raise
        except KeyboardInterrupt:
            error = Error("interrupted", "stopped by the user; what was finished is kept")
            raise error from None
        except Exception as problem:
            if self._options.debug:
                raise
            error = _internal(problem)
            raise error from problem
        finally:
            self._reporter.end()
            self._log.close()
            self._recorder.write(self._session.repositories, error)
            if error is not None:
                error.log = self._log.path
                error.record = self._recorder.path

    def _execute(self) -> tuple[Frame, Outcome]:
        session = self._session
        runner = StepRunner(
            self._reporter,
            self._log,
            self._options.quiet,
            self._options.verbose,
            session.cmind,
            session.words,
            self._options.offline,
        )
        facts = FactTeller(runner, self._directory)
        self._reporter.begin(self._foresee(facts))
        facts.resolver = resolver = Resolver(session.index, session.store, facts)
        reporters = [self._reporter, self._recorder]
        return Scheduler(resolver, runner, facts, reporters, self._directory).run(self._request)

    def _foresee(self, facts: FactTeller) -> int:
        """The number of steps; refuses before anything runs what cannot be resolved."""
        script = self._script
        blocks = [script.settings, *(v.settings for v in script.variations.values())]
        if not any(block.deps for block in blocks):
            return 1
        from cmbench.verbs.plan import make_plan

        return make_plan(self._session, self._request, facts).steps

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
        from cmbench.text import closing_text

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
        return ["cm", *map(str, words)] if isinstance(words, list) else [str(words)]
    plain = {k: v for k, v in session.flags.items() if isinstance(v, str | int | float | bool)}
    return ["cm", "run", "script", *(f"--{k}={v}" for k, v in plain.items())]


def _internal(problem: Exception) -> Error:
    import traceback

    last = traceback.extract_tb(problem.__traceback__)[-1]
    return Error(
        "internal",
        f"{type(problem).__name__}: {problem}",
        context=(f"{os.path.basename(last.filename)}:{last.lineno} in {last.name}",),
        hint="this is a fault of cmbench: repeat with --debug and report what it prints",
    )


@contextmanager
def _interruptible() -> Iterator[None]:
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
