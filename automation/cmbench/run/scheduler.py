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
        node = plan.root if plan else None
        with self._together.crew.at_work() if self._together else nullcontext():
            return self._step(request, None, 0, node)

    def _begun(self, request: Request, parent: StepRun | None, node: PlannedStep | None) -> StepRun:
        """Return the step as it begins: resolved by the plan where ``node`` has it, or else now."""
        start = node.start if node is not None else None
        if start is None:
            return begin(self._resolver.resolve(request, parent), parent)
        frame = begin(self._resolver.resume(start), parent)
        self._course.follow(frame, node)
        return frame

    def _step(
        self,
        request: Request,
        parent: StepRun | None,
        depth: int,
        node: PlannedStep | None = None,
    ) -> tuple[StepRun, StepOutcome]:
        frame = self._begun(request, parent, node)
        first = 0
        if self._together is not None:
            first = self._together.begun(frame)
        self._reports.started(frame, depth)
        started = time.perf_counter()
        try:
            status, why, outcome = self._perform(frame, depth)
        except KeyboardInterrupt:
            error = Error(
                "interrupted",
                "stopped by the user; what was finished is kept",
                hint=_go_on(frame),
            )
            self._reports.failed(frame, depth, started, error)
            raise error.within(frame.step.label) from None
        except OSError as problem:
            error = disk_error(
                problem, str(problem.filename or self._context.directory), self._store.root
            )
            self._reports.failed(frame, depth, started, error)
            raise error.within(frame.step.label) from problem
        except Error as error:
            from cmbench.plan.typed_options import add_step

            self._reports.failed(frame, depth, started, error)
            add_step(error, frame)
            raise
        finally:
            self._course.leave(frame)
        end = StepEnd(status, time.perf_counter() - started, why, outcome)
        is_reported = False
        if self._together is not None and status == "cached":
            is_reported = self._together.ended(outcome.entry, status, first)
        self._reports.ended(frame, depth, end, is_reported)
        if self._together is not None and status == "done":
            self._together.ended(outcome.entry, status, first)
        return frame, outcome

    def _perform(self, frame: StepRun, depth: int) -> tuple[str, str, StepOutcome]:
        """Return status (``fact``, ``cached`` or ``done``), reason and outcome of a step."""
        if frame.script.host_facts:
            return "fact", "", self._context.plan.facts(frame.script.path)
        if not frame.step.cacheable:
            with self._scratch(frame) as scratch:
                place = StepFolders(working_directory(frame), scratch)
                return "done", "", self._work(frame, place, depth)[0]
        entry, why = self._answering(frame, depth)
        if entry is not None:
            return "cached", why, self._use(frame, entry, depth)
        if "only_execute_from_cache" in frame.request.modes:
            raise Error(
                "entry-not-found",
                f"no cache entry fits {frame.step.label}: {why}",
                hint="leave out --only_execute_from_cache to make one",
                exit_code=1,
            )
        with self._making(frame):
            entry, why = self._answering(frame, depth)
            if entry is not None:
                return "cached", why, self._use(frame, entry, depth)
            return "done", why, self._make(frame, depth)

    def _answering(self, frame: StepRun, depth: int) -> tuple[CacheEntry | None, str]:
        """Return the entry that answers; a script with a ``validate_cache.sh`` has a say in it."""
        entry, why = self._looked_up(frame)
        path = os.path.join(frame.script.path, "validate_cache.sh")
        if entry is None or not os.path.isfile(path):
            return entry, why
        self._phase(frame, "deps", depth, dynamic_only=True)
        # The plan foresees dependencies once: from here on they see what they have given back.
        self._course.leave(frame)
        trial = replace(frame, env=TracedEnv({**frame.env.plain(), **entry.new_env}))
        with self._scratch(frame) as scratch:
            place = StepFolders(scratch, scratch)
            try:
                self._runner.native(trial, place, path, self._runner.words(frame))
                result = self._runner.hook(trial, place, "detect_version")
                version = str(result.get("version") or "")
            except Error as error:
                return None, f"validate_cache.sh rejects it: {error.message}"
            finally:
                remove(("tmp-ver.out",), place)
        if version and entry.version and version != entry.version:
            return None, f"it has version {entry.version}, there is {version} now"
        return entry, why

    def _looked_up(self, frame: StepRun) -> tuple[CacheEntry | None, str]:
        node = self._course.node(frame)
        if self._course.has_worked or node is None or node.cached_entry is None:
            return self._context.plan.lookup.look_up(frame)
        self._context.plan.lookup.see_names(node.cached_entry)
        return node.cached_entry, node.why

    @contextmanager
    def _making(self, frame: StepRun) -> Iterator[None]:
        """Hold the lock of what ``frame`` is, so that no one else makes it too."""
        identity = frame.step.identity
        waiting = self._reports.waiting(f"works on {frame.step.label}")
        lock = self._store.locks.hold(identity, waiting, self._context.wait)
        if self._together is None:
            with lock:
                yield
            return
        with self._together.crew.making(identity), lock:
            self._together.crew.made(identity)
            yield

    def _use(self, frame: StepRun, entry: CacheEntry, depth: int) -> StepOutcome:
        frame.note(entry.reads)
        for phase in frame.step.deps:
            self._phase(frame, phase, depth, dynamic_only=True)
        self._store.touch(entry)
        return StepOutcome(entry.new_env, entry.new_state, entry.version, entry.key, cached=True)

    def _make(self, frame: StepRun, depth: int) -> StepOutcome:
        from cmbench.run.entry_making import EntryMaker

        run = os.path.basename(self._context.directory)
        maker = EntryMaker(self._store, self._runner.secrets, run)
        staging = self._store.staging.stage(frame.script.alias)
        started = time.time()
        user_files = files_of_user(frame)
        try:
            with self._scratch(frame) as scratch:
                outcome, report = self._work(frame, StepFolders(staging.path, scratch), depth)
            entry = maker.make_entry(frame, staging, outcome, report, started)
            entry = replace(entry, relies_on=(*user_files, *entry.relies_on))
            entry = without_known(entry, self._runner.secrets, frame.script)
            if self._together is not None:
                self._together.await_turn(frame)
            # --new of the first engines adds an entry, and their --renew replaces one.
            beside = frame.request.new and not frame.script.dialect.inputs_bind
            self._store.publish(entry, [] if beside else maker.replaced_by(entry))
        except BaseException:
            staging.discard()
            raise
        staging.keep()
        return StepOutcome(outcome.new_env, outcome.new_state, outcome.version, entry.key)

    def _work(
        self, frame: StepRun, place: StepFolders, depth: int
    ) -> tuple[StepOutcome, HookReport]:
        """Do the work of a step; another script may do it instead of its own."""
        outcome, report = self._steps.work(frame, place, depth)
        if report.instead:
            outcome = self._instead(frame, report.instead, outcome, depth)
        return outcome, report

    def _instead(
        self, frame: StepRun, entry: Mapping[str, Any], outcome: StepOutcome, depth: int
    ) -> StepOutcome:
        """Run the script that ``preprocess`` has named instead of its own; both results."""
        if self._together is not None:
            self._together.crew.alone("another script does the work of this one")
        from cmbench.plan.dependency_request import request_of

        request = request_of(frame, dependency(entry))
        assert isinstance(request, Request)
        child, other = self._step(request, frame, depth + 1)
        absorb(frame, child, other)
        return StepOutcome(
            {**outcome.new_env, **other.new_env},
            {**outcome.new_state, **other.new_state},
            other.version or outcome.version,
        )

    def _phase(self, frame: StepRun, phase: str, depth: int, dynamic_only: bool = False) -> None:
        if self._together is not None and not dynamic_only:
            self._phase_together(self._together, frame, phase, depth)
            return
        for number, entry in enumerate(self._resolver.dependencies(frame, phase)):
            if entry.dynamic or not dynamic_only:
                self._dependency(frame, entry, depth, self._course.below(frame, phase, number))

    def _dependency(
        self, frame: StepRun, entry: Dependency, depth: int, node: PlannedStep | None = None
    ) -> None:
        """Run a dependency if it is wanted; ``node`` is what the plan knows of it."""
        request = self._taken_request(frame, entry)
        if request is not None:
            step = partial(self._step, request, frame, depth + 1, node)
            self._take(frame, entry, str(request.tags), step, node)
        elif node is not None:
            self._course.leave(frame)

    def _taken_request(self, frame: StepRun, entry: Dependency) -> Request | None:
        if not decide(entry.conditions, frame.env)[0]:
            return None
        if entry.skip_if_fake_run and frame.step.is_fake:
            return None
        from cmbench.plan.dependency_request import request_of

        request = request_of(frame, entry)
        if isinstance(request, Pending):
            raise Error("internal", f"{request!r} is pending while {frame.step.label} runs")
        frame.requests.append(request)
        return None if "fake_deps" in frame.request.modes else request

    def _take(
        self,
        frame: StepRun,
        entry: Dependency,
        label: str,
        step: Callable[[], tuple[StepRun, StepOutcome]],
        node: PlannedStep | None = None,
    ) -> set[str]:
        """Run ``step`` of a dependency and absorb its results; return the changed env keys."""
        course = self._course.leave(frame)
        try:
            child, outcome = step()
        except Error as error:
            if not entry.continue_on_error or error.code in ("interrupted", "lock-broken"):
                raise
            self._reports.note(f"continuing without {label}: {error.message}")
            frame.trace.doubts[f"{label} had failed when it was made"] = None
            return set()
        before = {key: frame.env.peek(key) for key in outcome.new_env}
        absorb(frame, child, outcome)
        settled = settle(frame)
        if node and node.gives == outcome.new_env and not (settled or outcome.new_state):
            self._course.follow(frame, course)
        return {key for key, value in before.items() if frame.env.peek(key) != value}

    def _phase_together(
        self, together: ParallelSteps, frame: StepRun, phase: str, depth: int
    ) -> None:
        """Run a phase; run in parallel the siblings that are forecast to be independent."""
        group = together.group(frame, phase)
        live = self._resolver.dependencies(frame, phase)
        entries = frame.step.deps.get(phase, ())
        with group:
            for number, raw in enumerate(entries):
                node = self._course.below(frame, phase, number)
                # A forecast of a step that has no siblings costs, along a chain,
                # as many looks as there are pairs of steps.
                if len(entries) == 1 or (
                    group.is_idle and node is not None and self._is_known(node)
                ):
                    self._dependency(frame, next(live), depth, node)
                    continue
                beside = group.forecast(raw)
                if beside is None:
                    group.take_over()
                    beside = group.forecast(raw)
                entry = next(live)
                request = self._taken_request(frame, entry)
                if request is None:
                    continue
                label = str(request.tags)
                step = partial(self._step, request, frame, depth + 1)
                if beside is None:
                    self._take(frame, entry, label, step)
                else:
                    group.start(label, beside, step, partial(self._take, frame, entry, label))
            group.take_over()

    def _is_known(self, node: PlannedStep) -> bool:
        """Return whether the plan has all results of a step, which need only be absorbed."""
        is_hit = node.cached_entry is not None and not node.children and not self._course.has_worked
        return node.start is not None and (is_hit or node.cached == "fact")

    @contextmanager
    def _scratch(self, frame: StepRun) -> Iterator[str]:
        self._folders += 1
        path = os.path.join(self._context.directory, f"{self._folders:03d}-{frame.script.alias}")
        os.makedirs(path)
        try:
            yield path
        finally:
            with suppress(OSError):
                os.unlink(os.path.join(path, "progress.json"))
            with suppress(OSError):
                os.rmdir(path)


def _go_on(frame: StepRun) -> str:
    """Return what to type after an interruption; a step says what finds its work again."""
    more = str(frame.env.peek(f"{frame.script.dialect.prefix}TMP_GO_ON_WITH", "") or "")
    if not more:
        return "repeat the same command to go on from here"
    return f"repeat the same command and add this to go on from here:\n{more}"
