"""A run: from the checked request to the record."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cmbench.api.events import EventPublisher, OnEvent
from cmbench.api.resolving import check_sources, make_context, make_plan, open_lock, renewal_of
from cmbench.errors import Error, internal
from cmbench.format.model import StepOutcome
from cmbench.lib.secrecy import Secrets
from cmbench.plan.planned_step import sure, walk
from cmbench.plan.resolve import PlanContext
from cmbench.plan.step_run import NESTED_RUN
from cmbench.record import new_run_directory
from cmbench.run.customize import refuse_each
from cmbench.run.log import RunLog
from cmbench.run.outcome import FactReader
from cmbench.run.recorder import RunRecorder
from cmbench.run.reporter import StepOutput
from cmbench.run.run_context import PlanCourse, RunContext, StepReports
from cmbench.run.scheduler import Scheduler
from cmbench.run.step import RunnerSettings, StepRunner
from cmbench.session.call import RunRequest
from cmbench.session.request import check_places, check_typed_below
from cmbench.values import immutable
from common.problems import Hint

if TYPE_CHECKING:
    from cmbench.api.planning import PlannedRun
    from cmbench.plan.planned_step import Plan, PlannedStep
    from cmbench.plan.resolve import Resolver
    from cmbench.plan.step_run import StepRun
    from cmbench.repeat.lockfile import Lock
    from cmbench.run.executor import Executor
    from cmbench.run.parallel import ParallelSteps
    from cmbench.run.prefetch import Prefetcher, PrefetchFile
    from cmbench.run.workers import Crew


@immutable(frozen=True, slots=True, eq=False, repr=False)
class FinishedRun:
    """A finished run: what the script gives back, its steps as the record has them, its files.

    ``secrets`` hides what must not be shown. ``locked`` is what the lock file holds now, where the
    run has written one. ``dependency_tags`` has those of the dependencies that its script used.
    """

    request: RunRequest
    outcome: StepOutcome
    steps: Sequence[Mapping[str, Any]]
    record: str
    log: str
    secrets: Secrets
    locked: Mapping[str, Any] | None = None
    dependency_tags: tuple[str, ...] = ()

    @property
    def env(self) -> Mapping[str, Any]:
        """The env keys that the script gives back."""
        return self.outcome.new_env

    @property
    def version(self) -> str:
        """The version of what the script found or made."""
        return self.outcome.version


def run(
    request: RunRequest | PlannedRun,
    *,
    executor: Executor | None = None,
    on_event: OnEvent | None = None,
) -> FinishedRun:
    """Run ``request``, or that of a plan, and all it needs.

    ``executor`` runs the native programs of its steps, by default on this machine, and
    ``on_event`` receives the events. In the main thread SIGTERM and SIGHUP end a run the way
    Ctrl-C does. Raises ``Error``, with the chain of steps, the log and the record.
    """
    run_request = request if isinstance(request, RunRequest) else request.request
    return run_locked(run_request, open_lock(run_request), executor, on_event)


def run_locked(
    request: RunRequest, lock: Lock | None, executor: Executor | None, on_event: OnEvent | None
) -> FinishedRun:
    """As ``run``, with the versions of ``lock``."""
    request.workspace.store.staging.sweep()
    return _Run(request, lock, executor, on_event).go()


class _Run:
    """One run from plan to record."""

    def __init__(
        self,
        request: RunRequest,
        lock: Lock | None,
        executor: Executor | None,
        on_event: OnEvent | None,
    ) -> None:
        self._request = request
        self._workspace = request.workspace
        self._lock = lock
        self._renewal = renewal_of(request)
        self._executor = executor
        self._secrets = _secrets_of(request)
        self._teller = EventPublisher(on_event, self._secrets)
        self._prefetcher: Prefetcher | None = None
        self._dependency_tags: tuple[str, ...] = ()
        self._directory = new_run_directory(self._workspace.root)
        self._log = RunLog(os.path.join(self._directory, "log.txt"), self._secrets)
        self._recorder = RunRecorder(
            self._directory, self._log, request.command, request.call_data, self._secrets
        )

    def go(self) -> FinishedRun:
        error: Error | None = None
        locked = None
        try:
            with interruptible(), self._workspace.store.running(self._directory):
                outcome = self._execute()
        except BaseException as problem:
            error = self._failure(problem)
            if error is None or error is problem:
                raise
            raise error from (None if error.code == "interrupted" else problem)
        finally:
            self._end(error)
            locked = self._keep_lock(error)
            if error is not None:
                error.log = self._log.path
                error.record = self._recorder.path
        steps, secrets = self._recorder.steps, self._secrets
        files = self._recorder.path, self._log.path
        return FinishedRun(
            self._request, outcome, steps, *files, secrets, locked, self._dependency_tags
        )

    def _failure(self, problem: BaseException) -> Error | None:
        """What the record says and the caller gets; ``None`` for what does not concern the run."""
        error = self._reported_error(problem)
        if error is not None:
            error.rewrite(self._secrets.text).conceal = self._secrets.text
        return error

    def _reported_error(self, problem: BaseException) -> Error | None:
        if isinstance(problem, Error):
            error = _with_known_cause(problem, self._log.path)
            if problem.__cause__ is not None:
                import traceback

                for line in traceback.format_exception(problem.__cause__):
                    self._log.line(line.rstrip())
            return error
        if isinstance(problem, KeyboardInterrupt):
            return Error("interrupted", "stopped by the user; what was finished is kept")
        # All is done; only the receiver of the events has failed, such as a closed pipe.
        is_known = problem is self._teller.failed or isinstance(problem, BrokenPipeError)
        if is_known or not isinstance(problem, Exception):
            return None
        return internal(problem)

    def _end(self, error: Error | None) -> None:
        if self._prefetcher is not None:
            self._prefetcher.stop()
        # The terminal may be gone: the record is kept all the same.
        with suppress(OSError):
            self._teller.end()
        self._report_faults()
        if self._log.lost:
            lost = f"{self._log.path} is not whole: lines lost: {self._log.lost}, {self._log.why}"
            self._teller.tell("warning", f"warning: {lost}")
        self._log.close()
        self._recorder.write(self._workspace.repositories, error)
        self._workspace.index.contents.save()

    def _report_faults(self) -> None:
        """Report once per script the faults of the foreign metas that were used."""
        used = {step["script_uid"] for step in self._recorder.steps}
        for row in self._workspace.index.rows().values():
            if row.uid in used and row.faults:
                text = f"warning: {row.path}: {'; '.join(row.faults)}"
                self._log.line(text)
                self._teller.tell("faults", text)

    def _execute(self) -> StepOutcome:
        check_places(self._request.request, self._request.script)
        check_sources(self._request)
        runner, crew = self._runner()
        facts = FactReader(runner, self._directory)
        planned = self._context(facts)
        plan = self._foresee(planned)
        self._teller.begin(plan.steps if plan else 1)
        context = self._context(facts, planned)
        together = self._together(crew, self._context(facts, planned)) if crew is not None else None
        run_context = RunContext(
            context,
            runner,
            StepReports([self._teller, self._recorder], crew),
            PlanCourse(context.lookup),
            self._directory,
            together,
            self._prefetcher,
        )
        step_run, outcome = Scheduler(run_context).run(self._request.request, plan)
        sys.audit(NESTED_RUN, step_run, outcome)
        self._dependency_tags = _reported_dependencies(step_run, context.resolver)
        for text in (*_unused_names(step_run, context), *self._not_met()):
            self._teller.tell("warning", text)
        if self._lock is not None:
            from cmbench.repeat.lockfile import check_result

            check_result(self._lock, self._recorder.steps)
        return outcome

    def _runner(self) -> tuple[StepRunner, Crew | None]:
        options, workspace = self._request.options, self._workspace
        crew = None
        if options.jobs > 1:
            from cmbench.run.workers import Crew

            crew = Crew(options.jobs)
        settings = RunnerSettings(
            cmind=workspace.cmind,
            words=workspace.words,
            library_files=workspace.library_files,
            secrets=self._secrets,
            quiet=options.quiet,
            offline=options.offline,
            command=self._recorder.command,
            downloads=workspace.store.place("ahead"),
            wheels=options.package_files,
            executor=self._executor,
            crew=crew,
        )
        runner = StepRunner(settings, StepOutput(self._teller, self._log, options.verbose, crew))
        runner.progress.kept_by = self._recorder
        return runner, crew

    def _not_met(self) -> Iterator[str]:
        met = {step["script_uid"] for step in self._recorder.steps}
        for name in self._request.options.renew_from:
            if met.isdisjoint(row.uid for row in self._workspace.index.by_name(name)):
                yield f"warning: --renew_from={name}: no step of this run is that script"

    def _context(self, facts: FactReader, planned: PlanContext | None = None) -> PlanContext:
        return make_context(self._workspace, facts, self._lock, self._renewal, planned)

    def _together(self, crew: Crew, context: PlanContext) -> ParallelSteps:
        from cmbench.run.forecast import Forecaster
        from cmbench.run.parallel import ParallelSteps

        return ParallelSteps(crew, Forecaster(context), self._teller)

    def _foresee(self, context: PlanContext) -> Plan | None:
        """Return the plan, where there is more than one step; refuses what cannot be resolved."""
        script, options = self._request.script, self._request.options
        if not {"fake_run", "fake_deps"}.isdisjoint(self._request.request.modes):
            return None
        if not any(block.deps for block in script.blocks):
            return None
        plan = make_plan(self._workspace, self._request.request, context)
        check_typed_below(plan.root)
        refuse_each(plan.root)
        ahead = self._workspace.store.place("ahead")
        if options.prepared and any(map(_may_fetch, walk(plan.root))):
            from cmbench.lib.local_sources import adopt

            adopt(options.prepared, ahead)
        if any(map(_takes_room, sure(plan.root))):
            from cmbench.run.disk_space import require_room

            require_room(plan.root, self._request.request.env, self._workspace.root, ahead)
        if options.prefetch and not options.offline:
            from cmbench.run.prefetch import certain

            self._prefetch(certain(plan.root), ahead)
        return plan

    def _prefetch(self, wishes: list[PrefetchFile], folder: str) -> None:
        """Begin the downloads that are sure to be wanted, unless there is nothing to gain."""
        if not wishes:
            return
        from cmbench.run.prefetch import Prefetcher

        self._prefetcher = Prefetcher(folder, wishes, lambda text: self._log.line(f"-- {text}"))
        self._prefetcher.start()

    def _keep_lock(self, error: Error | None) -> Mapping[str, Any] | None:
        """Write the lock of ``--lock``, once the run has succeeded."""
        path = self._request.flags.get("lock")
        obeyed = self._lock is not None and self._lock.strict
        if error is not None or not path or obeyed:
            return None
        from cmbench.record import load_record
        from cmbench.repeat.lockfile import lock_data, locked_files, write_lock

        record = load_record(self._recorder.path)
        data = lock_data(record, self._workspace.index, self._workspace.store)
        write_lock(str(path), {**data, "files": locked_files(data, self._workspace.index)})
        return data


def _takes_room(planned_step: PlannedStep) -> bool:
    """Return whether a step fetches anything, or caches its results."""
    return bool(planned_step.fetches) or (
        planned_step.step_run is not None and planned_step.step_run.step.cacheable
    )


def _may_fetch(planned_step: PlannedStep) -> bool:
    """Return whether a step may fetch anything; one that only a run decides may."""
    is_open = planned_step.step_run is None or bool(planned_step.fetches)
    return is_open and planned_step.cached not in ("hit", "fact", "above")


def _reported_dependencies(step_run: StepRun, resolver: Resolver) -> tuple[str, ...]:
    """Return the dependencies that the result of the script reports."""
    if step_run.script.dialect.deps_told != "entries":
        return tuple(str(request.tags) for request in step_run.requests)
    from cmbench.plan.dependency_request import tags_of_deps

    return tags_of_deps(step_run, resolver.dependencies(step_run, "deps"))


def _unused_names(step_run: StepRun, context: PlanContext) -> list[str]:
    """Return warnings about the user's updates of dependencies by name."""
    request = step_run.request
    if not request.ad and not request.adr:
        return []
    from cmbench.plan.names import unused
    from cmbench.plan.step_run import HANDED_ON

    names = context.names
    if step_run.adr.whole:
        names.add(HANDED_ON["adr"])
    if not {"ad", "add_deps"}.isdisjoint(step_run.hooks.call.reads):
        names.add(HANDED_ON["ad"])
    return unused(request, names)


def _secrets_of(request: RunRequest) -> Secrets:
    """Return the secrets that are known before a step runs: of this process, and of the call."""
    secrets = Secrets(os.environ)
    for block in request.script.blocks:
        secrets.learn_flags(block.input_mapping)
    secrets.learn(request.flags)
    return secrets


def _with_known_cause(error: Error, log: str) -> Error:
    """Put the remedy of a known cause in front of a hint that only says how to look further."""
    vague = not error.hint or error.hint.startswith(("repeat this step", "correct the script"))
    # A module that customize.py lacks is the script's fault, not that of the user's Python.
    own = "ModuleNotFoundError" in error.message
    codes = ("script-failed", "customize-failed", "customize-crashed")
    if vague and not own and error.code in codes:
        from cmbench.lib.causes import remedy, remedy_in_log

        remedy_text = remedy("\n".join((error.message, *error.context))) or remedy_in_log(log)
        error.hint = Hint.joined(remedy_text, error.hint)
    return error


_ENDS_A_RUN = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a run the way Ctrl-C does, where they are not ignored (nohup)."""

    def stop(number: int, step_run: Any) -> None:
        raise KeyboardInterrupt

    before = {}
    with suppress(ValueError):
        heard = [s for s in _ENDS_A_RUN if signal.getsignal(s) != signal.SIG_IGN]
        before = {s: signal.signal(s, stop) for s in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
