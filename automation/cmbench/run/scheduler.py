"""Drives a request's tree: dependencies in the order the format promises, cache, locks, records.

A run goes on from its plan. A step that the plan has resolved is run as it is, as long as all
before it has come as foreseen; any other one is resolved with real values right before it runs, so
a question that the plan left open is answered by then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from cmbench.cache.store import CacheEntry, disk_error
from cmbench.errors import Error
from cmbench.format.env import Pending, TracedEnv, decide
from cmbench.format.meta import dependency
from cmbench.format.model import Dependency, Request, StepOutcome
from cmbench.plan.step_run import StepRun, begin
from cmbench.run.cm_objects import StepFolders
from cmbench.run.entry_secrets import without_known
from cmbench.run.outcome import (
    HookReport,
    absorb,
    files_of_user,
    remove,
    settle,
    working_directory,
)
from cmbench.run.reporter import StepEnd
from cmbench.run.run_context import RunContext
from cmbench.run.step_work import StepWork
from cmbench.values import replace

if TYPE_CHECKING:
    from cmbench.plan.planned_step import Plan, PlannedStep
    from cmbench.run.parallel import ParallelSteps


class Scheduler:
    """Executes a request and its dependencies, independent siblings in parallel if allowed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._resolver = context.plan.resolver
        self._store = context.plan.lookup.store
        self._runner = context.runner
        self._reports = context.reports
        self._course = context.course
        self._together = context.together
        self._steps = StepWork(context, self._phase)
        self._folders = 0

    def run(self, request: Request, plan: Plan | None = None) -> tuple[StepRun, StepOutcome]:
        """Run ``request`` and all it needs; raises ``Error`` with the chain of steps."""
        planned_step = plan.root if plan else None
        with self._together.crew.at_work() if self._together else nullcontext():
            return self._step(request, None, 0, planned_step)

    def _begun(
        self, request: Request, parent: StepRun | None, planned_step: PlannedStep | None
    ) -> StepRun:
        """Return the step as it begins: as ``planned_step`` resolved it, or resolved now."""
        start = planned_step.start if planned_step is not None else None
        if start is None:
            return begin(self._resolver.resolve(request, parent), parent)
        step_run = begin(self._resolver.resume(start), parent)
        self._course.follow(step_run, planned_step)
        return step_run

    def _step(
        self,
        request: Request,
        parent: StepRun | None,
        depth: int,
        planned_step: PlannedStep | None = None,
    ) -> tuple[StepRun, StepOutcome]:
        step_run = self._begun(request, parent, planned_step)
        first = 0
        if self._together is not None:
            first = self._together.begun(step_run)
        self._reports.started(step_run, depth)
        started = time.perf_counter()
        try:
            status, why, outcome = self._perform(step_run, depth)
        except KeyboardInterrupt:
            error = Error(
                "interrupted",
                "stopped by the user; what was finished is kept",
                hint=_go_on(step_run),
            )
            self._reports.failed(step_run, depth, started, error)
            raise error.within(step_run.step.label) from None
        except OSError as problem:
            error = disk_error(
                problem, str(problem.filename or self._context.directory), self._store.root
            )
            self._reports.failed(step_run, depth, started, error)
            raise error.within(step_run.step.label) from problem
        except Error as error:
            from cmbench.plan.typed_options import add_step

            self._reports.failed(step_run, depth, started, error)
            add_step(error, step_run)
            raise
        finally:
            self._course.leave(step_run)
        end = StepEnd(status, time.perf_counter() - started, why, outcome)
        is_reported = False
        if self._together is not None and status == "cached":
            is_reported = self._together.ended(outcome.entry, status, first)
        self._reports.ended(step_run, depth, end, is_reported)
        if self._together is not None and status == "done":
            self._together.ended(outcome.entry, status, first)
        return step_run, outcome

    def _perform(self, step_run: StepRun, depth: int) -> tuple[str, str, StepOutcome]:
        """Return status (``fact``, ``cached`` or ``done``), reason and outcome of a step."""
        if step_run.parent is not None:
            from cmbench.plan.dependency_request import refuse_gaps

            refuse_gaps(step_run)
        if step_run.script.host_facts:
            return "fact", "", self._context.plan.facts(step_run.script.path)
        if not step_run.step.cacheable:
            with self._scratch(step_run) as scratch:
                place = StepFolders(working_directory(step_run), scratch)
                return "done", "", self._work(step_run, place, depth)[0]
        entry, why = self._answering(step_run, depth)
        if entry is not None:
            return "cached", why, self._use(step_run, entry, depth)
        if "only_execute_from_cache" in step_run.request.modes:
            raise Error(
                "entry-not-found",
                f"no cache entry fits {step_run.step.label}: {why}",
                hint="leave out --only_execute_from_cache to make one",
                exit_code=1,
            )
        with self._making(step_run):
            entry, why = self._answering(step_run, depth)
            if entry is not None:
                return "cached", why, self._use(step_run, entry, depth)
            return "done", why, self._make(step_run, depth)

    def _answering(self, step_run: StepRun, depth: int) -> tuple[CacheEntry | None, str]:
        """Return the entry that answers; a script with a ``validate_cache.sh`` has a say in it."""
        entry, why = self._looked_up(step_run)
        path = os.path.join(step_run.script.path, "validate_cache.sh")
        if entry is None or not os.path.isfile(path):
            return entry, why
        self._phase(step_run, "deps", depth, dynamic_only=True)
        # The plan foresees dependencies once: from here on they see what they have given back.
        self._course.leave(step_run)
        trial = replace(step_run, env=TracedEnv({**step_run.env.plain(), **entry.new_env}))
        with self._scratch(step_run) as scratch:
            place = StepFolders(scratch, scratch)
            try:
                self._runner.native(trial, place, path, self._runner.words(step_run))
                result = self._runner.hook(trial, place, "detect_version")
                version = str(result.get("version") or "")
            except Error as error:
                return None, f"validate_cache.sh rejects it: {error.message}"
            finally:
                remove(("tmp-ver.out",), place)
        if version and entry.version and version != entry.version:
            return None, f"it has version {entry.version}, there is {version} now"
        return entry, why

    def _looked_up(self, step_run: StepRun) -> tuple[CacheEntry | None, str]:
        planned_step = self._course.planned_step(step_run)
        if self._course.has_worked or planned_step is None or planned_step.cached_entry is None:
            return self._context.plan.lookup.look_up(step_run)
        self._context.plan.lookup.see_names(planned_step.cached_entry)
        return planned_step.cached_entry, planned_step.why

    @contextmanager
    def _making(self, step_run: StepRun) -> Iterator[None]:
        """Hold the lock of what ``step_run`` is, so that no one else makes it too."""
        identity = step_run.step.identity
        waiting = self._reports.waiting(f"works on {step_run.step.label}")
        lock = self._store.locks.hold(identity, waiting, self._context.wait)
        if self._together is None:
            with lock:
                yield
            return
        with self._together.crew.making(identity), lock:
            self._together.crew.made(identity)
            yield

    def _use(self, step_run: StepRun, entry: CacheEntry, depth: int) -> StepOutcome:
        step_run.note(entry.reads)
        for phase in step_run.step.deps:
            self._phase(step_run, phase, depth, dynamic_only=True)
        self._store.touch(entry)
        return StepOutcome(entry.new_env, entry.new_state, entry.version, entry.key, cached=True)

    def _make(self, step_run: StepRun, depth: int) -> StepOutcome:
        from cmbench.run.entry_making import EntryMaker

        run = os.path.basename(self._context.directory)
        maker = EntryMaker(self._store, self._runner.secrets, run)
        staging = self._store.staging.stage(step_run.script.alias)
        started = time.time()
        user_files = files_of_user(step_run)
        try:
            with self._scratch(step_run) as scratch:
                outcome, report = self._work(step_run, StepFolders(staging.path, scratch), depth)
            entry = maker.make_entry(step_run, staging, outcome, report, started)
            entry = replace(entry, relies_on=(*user_files, *entry.relies_on))
            entry = without_known(entry, self._runner.secrets, step_run.script)
            if self._together is not None:
                self._together.await_turn(step_run)
            # --new of the first engines adds an entry, and their --renew replaces one.
            beside = step_run.request.new and not step_run.script.dialect.inputs_bind
            self._store.publish(entry, [] if beside else maker.replaced_by(entry))
        except BaseException:
            staging.discard()
            raise
        staging.keep()
        return StepOutcome(outcome.new_env, outcome.new_state, outcome.version, entry.key)

    def _work(
        self, step_run: StepRun, place: StepFolders, depth: int
    ) -> tuple[StepOutcome, HookReport]:
        """Do the work of a step; another script may do it instead of its own."""
        outcome, report = self._steps.work(step_run, place, depth)
        if report.instead:
            outcome = self._instead(step_run, report.instead, outcome, depth)
        return outcome, report

    def _instead(
        self, step_run: StepRun, entry: Mapping[str, Any], outcome: StepOutcome, depth: int
    ) -> StepOutcome:
        """Run the script that ``preprocess`` has named instead of its own; both results."""
        if self._together is not None:
            self._together.crew.alone("another script does the work of this one")
        from cmbench.plan.dependency_request import request_of

        request = request_of(step_run, dependency(entry))
        assert isinstance(request, Request)
        child, other = self._step(request, step_run, depth + 1)
        absorb(step_run, child, other)
        return StepOutcome(
            {**outcome.new_env, **other.new_env},
            {**outcome.new_state, **other.new_state},
            other.version or outcome.version,
        )

    def _phase(self, step_run: StepRun, phase: str, depth: int, dynamic_only: bool = False) -> None:
        if self._together is not None and not dynamic_only:
            self._phase_together(self._together, step_run, phase, depth)
            return
        for number, entry in enumerate(self._resolver.dependencies(step_run, phase)):
            if entry.dynamic or not dynamic_only:
                self._dependency(
                    step_run, entry, depth, self._course.below(step_run, phase, number)
                )

    def _dependency(
        self,
        step_run: StepRun,
        entry: Dependency,
        depth: int,
        planned_step: PlannedStep | None = None,
    ) -> None:
        """Run a dependency if it is wanted; ``planned_step`` is what the plan knows of it."""
        request = self._dependency_request(step_run, entry)
        if request is not None:
            step = partial(self._step, request, step_run, depth + 1, planned_step)
            self._run_dependency(step_run, entry, str(request.tags), step, planned_step)
        elif planned_step is not None:
            self._course.leave(step_run)

    def _dependency_request(self, step_run: StepRun, entry: Dependency) -> Request | None:
        if not decide(entry.conditions, step_run.env)[0]:
            return None
        if entry.skip_if_fake_run and step_run.step.is_fake:
            return None
        from cmbench.plan.dependency_request import request_of

        request = request_of(step_run, entry)
        if isinstance(request, Pending):
            raise Error("internal", f"{request!r} is pending while {step_run.step.label} runs")
        step_run.requests.append(request)
        return None if "fake_deps" in step_run.request.modes else request

    def _run_dependency(
        self,
        step_run: StepRun,
        entry: Dependency,
        label: str,
        step: Callable[[], tuple[StepRun, StepOutcome]],
        planned_step: PlannedStep | None = None,
    ) -> set[str]:
        """Run ``step`` of a dependency and absorb its results; return the changed env keys."""
        course = self._course.leave(step_run)
        try:
            child, outcome = step()
        except Error as error:
            if not entry.continue_on_error or error.code in ("interrupted", "lock-broken"):
                raise
            self._reports.note(f"continuing without {label}: {error.message}")
            step_run.trace.doubts[f"{label} had failed when it was made"] = None
            return set()
        before = {key: step_run.env.peek(key) for key in outcome.new_env}
        absorb(step_run, child, outcome)
        settled = settle(step_run)
        if (
            planned_step
            and planned_step.gives == outcome.new_env
            and not (settled or outcome.new_state)
        ):
            self._course.follow(step_run, course)
        return {key for key, value in before.items() if step_run.env.peek(key) != value}

    def _phase_together(
        self, together: ParallelSteps, step_run: StepRun, phase: str, depth: int
    ) -> None:
        """Run a phase; run in parallel the siblings that are forecast to be independent."""
        group = together.group(step_run, phase)
        live = self._resolver.dependencies(step_run, phase)
        entries = step_run.step.deps.get(phase, ())
        with group:
            for number, raw in enumerate(entries):
                planned_step = self._course.below(step_run, phase, number)
                # A forecast of a step that has no siblings costs, along a chain,
                # as many looks as there are pairs of steps.
                if len(entries) == 1 or (
                    group.is_idle and planned_step is not None and self._is_known(planned_step)
                ):
                    self._dependency(step_run, next(live), depth, planned_step)
                    continue
                beside = group.forecast(raw)
                if beside is None:
                    group.take_over()
                    beside = group.forecast(raw)
                entry = next(live)
                request = self._dependency_request(step_run, entry)
                if request is None:
                    continue
                label = str(request.tags)
                step = partial(self._step, request, step_run, depth + 1)
                if beside is None:
                    self._run_dependency(step_run, entry, label, step)
                else:
                    group.start(
                        label, beside, step, partial(self._run_dependency, step_run, entry, label)
                    )
            group.take_over()

    def _is_known(self, planned_step: PlannedStep) -> bool:
        """Return whether the plan has all results of a step, which need only be absorbed."""
        is_hit = (
            planned_step.cached_entry is not None
            and not planned_step.children
            and not self._course.has_worked
        )
        return planned_step.start is not None and (is_hit or planned_step.cached == "fact")

    @contextmanager
    def _scratch(self, step_run: StepRun) -> Iterator[str]:
        self._folders += 1
        path = os.path.join(self._context.directory, f"{self._folders:03d}-{step_run.script.alias}")
        os.makedirs(path)
        try:
            yield path
        finally:
            with suppress(OSError):
                os.unlink(os.path.join(path, "progress.json"))
            with suppress(OSError):
                os.rmdir(path)


def _go_on(step_run: StepRun) -> str:
    """Return what to type after an interruption; a step says what finds its work again."""
    more = str(step_run.env.peek(f"{step_run.script.dialect.prefix}TMP_GO_ON_WITH", "") or "")
    if not more:
        return "repeat the same command to go on from here"
    return f"repeat the same command and add this to go on from here:\n{more}"
