"""Drives a request's tree: dependencies in the order the format promises, cache, locks, records.

A run goes on from its plan. A step that the plan has resolved is run as it is, as long as all
before it has come as foreseen; any other one is resolved with real values right before it runs, so
a question that the plan left open is answered by then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from cmbench.cache.store import (
    CacheEntry,
    Staging,
    disk_error,
)
from cmbench.errors import Error
from cmbench.format.env import (
    MISSING,
    Pending,
    TracedEnv,
    decide,
    without_secrets,
)
from cmbench.format.meta import dependency
from cmbench.format.model import Dependency, Request, StepOutcome
from cmbench.lib import locks
from cmbench.plan.resolve import PlanContext
from cmbench.plan.step_run import StepRun, begin
from cmbench.run.cm_objects import StepFolders
from cmbench.run.course import PlanCourse
from cmbench.run.entry_secrets import without_known
from cmbench.run.outcome import (
    absorb,
    check_version,
    expires,
    exports,
    files_of_user,
    named_by_env,
    paths_given_back,
    reliances,
    rely,
    remove,
    state_exports,
    working_directory,
)
from cmbench.run.step import ALONE, Reporter, StepEnd, StepRunner
from cmbench.values import replace

if TYPE_CHECKING:
    from cmbench.plan.planned_step import Plan, PlannedStep
    from cmbench.run.parallel import ParallelSteps
    from cmbench.run.prefetch import Prefetcher


class Scheduler:
    """Runs requests one after another; reports every step to all reporters."""

    def __init__(
        self,
        context: PlanContext,
        runner: StepRunner,
        reporters: Sequence[Reporter],
        run_directory: str,
        together: ParallelSteps | None = None,
        prefetcher: Prefetcher | None = None,
    ) -> None:
        self._prefetcher = prefetcher
        self._together = together
        self._resolver = context.resolver
        self._lookup = context.lookup
        self._facts = context.facts
        self._store = context.lookup.store
        self._runner = runner
        self._reporters = reporters
        self._directory = run_directory
        self._steps = 0
        self._has_worked = False
        self._course = PlanCourse()
        self._wait = locks.lock if together is None else together.crew.lock_file
        self._whole: set[str] = set()

    def run(self, request: Request, plan: Plan | None = None) -> tuple[StepRun, StepOutcome]:
        """Run ``request`` and all it needs; raises ``Error`` with the chain of steps."""
        node = plan.root if plan else None
        if self._together is None:
            return self._step(request, None, 0, node)
        with self._together.crew.at_work():
            return self._step(request, None, 0, node)

    def _begun(self, request: Request, parent: StepRun | None, node: PlannedStep | None) -> StepRun:
        """Return the step as it begins: resolved by the plan where ``node`` has it, or else now."""
        start = node.start if node is not None else None
        if start is None:
            return begin(self._resolver.resolve(request, parent), parent)
        frame = begin(self._resolver.resume(start), parent)
        self._course.follow(frame, node)
        return frame

    def _acts(self, frame: StepRun) -> None:
        """Code of a script is going to run: what comes of it, no plan can foresee."""
        self._course.leave(frame)
        if not self._has_worked:
            self._has_worked = True
            self._lookup.forget()

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
        for reporter in self._reporters:
            reporter.started(frame, depth)
        started = time.perf_counter()
        try:
            status, why, outcome = self._perform(frame, depth)
        except KeyboardInterrupt:
            error = Error(
                "interrupted",
                "stopped by the user; what was finished is kept",
                hint=_go_on(frame),
            )
            self._tell_failure(frame, depth, started, error)
            raise error.within(frame.step.label) from None
        except OSError as problem:
            error = disk_error(problem, str(problem.filename or self._directory), self._store.root)
            self._tell_failure(frame, depth, started, error)
            raise error.within(frame.step.label) from problem
        except Error as error:
            from cmbench.plan.typed_options import add_step

            self._tell_failure(frame, depth, started, error)
            add_step(error, frame)
            raise
        end = StepEnd(status, time.perf_counter() - started, why, outcome)
        is_reported = False
        if self._together is not None and status == "cached":
            is_reported = self._together.ended(outcome.entry, status, first)
        self._tell_end(frame, depth, end, is_reported)
        if self._together is not None and status == "done":
            self._together.ended(outcome.entry, status, first)
        return frame, outcome

    def _tell_failure(self, frame: StepRun, depth: int, started: float, error: Error) -> None:
        seconds = time.perf_counter() - started
        self._tell_end(frame, depth, StepEnd("failed", seconds, error=error.message))

    def _tell_end(
        self, frame: StepRun, depth: int, end: StepEnd, is_reported: bool = False
    ) -> None:
        self._course.leave(frame)
        for reporter in self._reporters:
            reporter.left(frame)
        if is_reported:
            return
        task = self._together.crew.here if self._together is not None else None
        for reporter in self._reporters:
            if task is None:
                reporter.finished(frame, depth, end)
            else:
                task.events.append(partial(reporter.finished, frame, depth, end))

    def _perform(self, frame: StepRun, depth: int) -> tuple[str, str, StepOutcome]:
        if frame.script.host_facts:
            return "fact", "", self._facts(frame.script.path)
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
        if self._has_worked or node is None or node.cached_entry is None:
            return self._lookup.look_up(frame)
        self._lookup.see_names(node.cached_entry)
        return node.cached_entry, node.why

    @contextmanager
    def _making(self, frame: StepRun) -> Iterator[None]:
        """Hold the lock of what ``frame`` is, so that no one else makes it too."""
        identity = frame.step.identity
        waiting = partial(self._waiting, f"works on {frame.step.label}")
        lock = self._store.locks.hold(identity, waiting, self._wait)
        if self._together is None:
            with lock:
                yield
            return
        with self._together.crew.making(identity), lock:
            self._together.crew.made(identity)
            yield

    def _waiting(self, does: str, who: str) -> None:
        for reporter in self._reporters:
            reporter.waiting(f"waiting for {who}, which {does}")

    def _note(self, text: str) -> None:
        for reporter in self._reporters:
            reporter.note(text)

    def _use(self, frame: StepRun, entry: CacheEntry, depth: int) -> StepOutcome:
        frame.note(entry.reads)
        for phase in frame.step.deps:
            self._phase(frame, phase, depth, dynamic_only=True)
        self._store.touch(entry)
        return StepOutcome(entry.new_env, entry.new_state, entry.version, entry.key, cached=True)

    def _make(self, frame: StepRun, depth: int) -> StepOutcome:
        staging = self._store.staging.stage(frame.script.alias)
        started = time.time()
        user_files = files_of_user(frame)
        try:
            with self._scratch(frame) as scratch:
                outcome, report = self._work(frame, StepFolders(staging.path, scratch), depth)
            entry = self._entry(frame, staging, outcome, report, started)
            entry = replace(entry, relies_on=(*user_files, *entry.relies_on))
            entry = without_known(entry, self._runner.secrets, frame.script)
            if self._together is not None:
                self._together.await_turn(frame)
            # --new of the first engines adds an entry, and their --renew replaces one.
            beside = frame.request.new and not frame.script.dialect.inputs_bind
            self._store.publish(entry, [] if beside else self._superseded(entry))
        except BaseException:
            staging.discard()
            raise
        staging.keep()
        return StepOutcome(outcome.new_env, outcome.new_state, outcome.version, entry.key)

    def _superseded(self, entry: CacheEntry) -> list[CacheEntry]:
        same = self._store.candidates(entry.identity)
        return [old for old in same if old.reads == entry.reads]

    def _entry(
        self,
        frame: StepRun,
        staging: Staging,
        outcome: StepOutcome,
        report: Mapping[str, Any],
        started: float,
    ) -> CacheEntry:
        from cmbench.cache.inventory import outputs_of, survey, without_hidden

        frame.note(paths_given_back(outcome.new_env, os.path.dirname(self._store.root)))
        new_env, secrets = without_secrets(outcome.new_env, self._runner.secrets)
        new_state, more_secrets = without_secrets(outcome.new_state, self._runner.secrets)
        version = [f"version-{outcome.version}"] if outcome.version else []
        labels = [*frame.labels(), *version, *report["tags"]]
        outputs = outputs_of(staging.path, outcome.new_env)
        size, files = survey(staging.path, outputs)
        reads = self._hidden_reads(frame)
        frame.trace.add_facts(frame.env.fact_reads)
        outputs, files = without_hidden(staging.path, outputs, files, self._runner.secrets)
        if files:
            self._store.keep_files(staging.uid, files)
        return CacheEntry(
            uid=staging.uid,
            identity=frame.step.identity,
            script=frame.script.alias,
            script_uid=frame.script.uid,
            tags=tuple(dict.fromkeys(map(str, labels))),
            variations=frame.step.choice.variations,
            version=outcome.version,
            path=staging.path,
            reads=reads,
            facts=frame.trace.facts,
            scripts=dict(frame.trace.scripts),
            deps=tuple(frame.trace.entries),
            relies_on=reliances(frame, report["relies_on"]),
            new_env=new_env,
            new_state=new_state,
            secrets={k: self._store.keyed(v) for k, v in {**secrets, **more_secrets}.items()},
            name=frame.request.name,
            created=time.time(),
            seconds=time.time() - started,
            size=size,
            run=os.path.basename(self._directory),
            outputs=outputs,
            expires=time.time() if frame.ignored else expires(frame, time.time()),
            doubts=tuple(frame.trace.doubts),
            chosen=frame.trace.chosen,
            libraries=frame.trace.libraries,
        )

    def _hidden_reads(self, frame: StepRun) -> dict[str, str]:
        """Return what was read, as metadata that others can read may hold it."""
        reads, secrets = frame.reads(), self._runner.secrets
        shown = secrets.values(reads)
        for key, text in frame.updates_read().items():
            shown[key] = secrets.text(text) == text and shown[key]
        return {k: v if shown[k] == v else self._store.keyed(v) for k, v in reads.items()}

    def _work(
        self, frame: StepRun, place: StepFolders, depth: int
    ) -> tuple[StepOutcome, dict[str, Any]]:
        """Return the life of one step that really runs; also collects what its hooks report."""
        place = self._prepared(frame, place)
        report: dict[str, Any] = {"version": "", "tags": [], "relies_on": []}
        report |= {"skip": False, "instead": {}}
        if frame.script.predeps and frame.script.dialect.predeps:
            place = self._hook(frame, place, "predeps", report)
        self._phase(frame, "deps", depth)
        self._look_again(frame)
        with self._exclusive(frame):
            place = self._hook(frame, place, "preprocess", report)
        if not report["skip"]:
            self._phase(frame, "prehook_deps", depth)
            with self._exclusive(frame):
                self._native(frame, place)
            if not frame.step.is_fake:
                self._phase(frame, "posthook_deps", depth)
            with self._exclusive(frame):
                place = self._hook(frame, place, "postprocess", report)
            frame.ended = True
            if not frame.step.is_fake:
                self._phase(frame, "post_deps", depth)
        self._settle(frame)
        self._look_again(frame)
        self._leave(frame, place)
        report["relies_on"] += named_by_env(frame)
        rely(frame, report["relies_on"])
        check_version(frame, str(report["version"]))
        version = str(report["version"] or frame.step.version.exact)
        outcome = StepOutcome(exports(frame), state_exports(frame), version)
        if report["instead"]:
            outcome = self._instead(frame, report["instead"], outcome, depth)
        return outcome, report

    def _leave(self, frame: StepRun, place: StepFolders) -> None:
        """Finish in the folder of the step: save requested files, open a shell, clean up."""
        modes = frame.request.modes
        if "save_env" in modes:
            self._runner.save_env(frame, place)
        if "shell" in modes:
            self._runner.shell(frame, place)
        if "dirty" not in modes:
            remove(frame.script.clean_files, place)

    def _look_again(self, frame: StepRun) -> None:
        """Doubt a result of files that are not those that the run has looked at."""
        for what in self._resolver.index.edited(frame.script, frame.step.uses):
            frame.trace.doubts[f"{what} was edited during that run"] = None

    def _prepared(self, frame: StepRun, place: StepFolders) -> StepFolders:
        """Where the step works, ``outdirname`` counted in; says and removes what comes first."""
        dialect = frame.script.dialect
        key = dialect.prefix + "OUTDIRNAME"
        subfolder = str(frame.env.peek(key) or "")
        if subfolder:
            frame.note([key])
            start = frame.const.get(dialect.prefix + dialect.user_directory, place.cwd)
            place = StepFolders(os.path.join(str(start), subfolder), place.scratch)
            os.makedirs(place.cwd, exist_ok=True)
        frame.cwd = place.cwd
        remove(frame.script.clean_output_files, place)
        for mode in frame.request.modes & {"fake_run", "fake_deps"}:
            frame.env[f"{dialect.prefix}TMP_{mode.upper()}"] = "yes"
        for text in frame.texts("warnings"):
            self._note(f"{frame.script.alias}: {text}")
        return place

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

    def _hook(
        self, frame: StepRun, place: StepFolders, name: str, report: dict[str, Any]
    ) -> StepFolders:
        """Call a hook and collect its report; return the folders of the step after it."""
        if frame.step.is_fake:
            return place
        if self._runner.customized(frame):
            self._acts(frame)
        answer = self._runner.hook(frame, place, name)
        report["version"] = answer.get("version") or report["version"]
        report["tags"] += list(answer.get("add_extra_cache_tags") or ())
        report["relies_on"] += list(answer.get("relies_on") or ())
        rely(frame, report["relies_on"])
        report["skip"] = report["skip"] or bool(answer.get("skip"))
        if report["skip"]:
            report["instead"] = answer.get("script") or report["instead"]
        return StepFolders(frame.cwd, place.scratch)

    def _native(self, frame: StepRun, place: StepFolders) -> None:
        if self._settle(frame) or frame.script.env_key_mappings:
            self._course.leave(frame)
        for old, new in frame.script.env_key_mappings.items():
            for key in [k for k in dict.keys(frame.env) if k.startswith(old)]:
                frame.env[new + key[len(old) :]] = frame.env[key]
        path = "" if frame.step.is_fake else self._runner.native_script(frame)
        if path:
            self._acts(frame)
            if "debug_script" in frame.request.modes:
                self._runner.shell(frame, place)
            self._runner.native(frame, place, path, self._runner.words(frame))

    def _settle(self, frame: StepRun) -> bool:
        """Constants win over whatever a step or a dependency has set; whether any had to."""
        changed = {k: v for k, v in frame.const.items() if frame.env.peek(k, MISSING) != v}
        frame.env.update(changed)
        return bool(changed)

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
            self._note(f"continuing without {label}: {error.message}")
            frame.trace.doubts[f"{label} had failed when it was made"] = None
            return set()
        before = {key: frame.env.peek(key) for key in outcome.new_env}
        absorb(frame, child, outcome)
        settled = self._settle(frame)
        if node and node.gives == outcome.new_env and not (settled or outcome.new_state):
            self._course.follow(frame, course)
        return {key for key, value in before.items() if frame.env.peek(key) != value}

    def _phase_together(
        self, together: ParallelSteps, frame: StepRun, phase: str, depth: int
    ) -> None:
        """As ``_phase``, with siblings that do not meet side by side."""
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
        is_hit = node.cached_entry is not None and not node.children and not self._has_worked
        return node.start is not None and (is_hit or node.cached == "fact")

    @contextmanager
    def _exclusive(self, frame: StepRun) -> Iterator[None]:
        names = sorted(frame.texts("exclusive"))
        if ALONE in names:
            from cmbench.cache.inventory import require_whole

            require_whole(self._store, frame.trace.entries, self._whole)
        if self._together is not None and ALONE in names:
            self._together.crew.alone("it measures")
        with ExitStack() as stack:
            if self._prefetcher is not None and ALONE in names:
                stack.enter_context(self._prefetcher.paused())
            for name in names:
                waiting = partial(self._waiting, f'has "{name}" to itself')
                stack.enter_context(
                    self._store.locks.hold(f"exclusive {name}", waiting, self._wait)
                )
            yield

    @contextmanager
    def _scratch(self, frame: StepRun) -> Iterator[str]:
        self._steps += 1
        path = os.path.join(self._directory, f"{self._steps:03d}-{frame.script.alias}")
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
