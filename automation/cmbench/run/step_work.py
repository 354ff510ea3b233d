"""The work of one step that really runs: its dependencies, its hooks and its native script."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from cmbench.format.model import StepOutcome
from cmbench.plan.step_run import StepRun
from cmbench.run.cm_objects import StepFolders
from cmbench.run.outcome import (
    HookReport,
    check_version,
    exports,
    named_by_env,
    rely,
    remove,
    settle,
    state_exports,
)
from cmbench.run.run_context import RunContext
from cmbench.run.step import ALONE


class StepWork:
    """Works on steps; ``dependencies`` runs those of a step in one phase, at some depth."""

    def __init__(
        self, context: RunContext, dependencies: Callable[[StepRun, str, int], None]
    ) -> None:
        self._dependencies = dependencies
        self._index = context.plan.resolver.index
        self._store = context.plan.lookup.store
        self._runner = context.runner
        self._reports = context.reports
        self._course = context.course
        self._together = context.together
        self._prefetcher = context.prefetcher
        self._wait = context.wait
        self._whole: set[str] = set()

    def work(
        self, frame: StepRun, place: StepFolders, depth: int
    ) -> tuple[StepOutcome, HookReport]:
        """Return the life of one step that really runs; also collects what its hooks report."""
        place = self._prepared(frame, place)
        report = HookReport()
        if frame.script.predeps and frame.script.dialect.predeps:
            place = self._hook(frame, place, "predeps", report)
        self._dependencies(frame, "deps", depth)
        self._look_again(frame)
        with self._exclusive(frame):
            place = self._hook(frame, place, "preprocess", report)
        if not report.skip:
            self._dependencies(frame, "prehook_deps", depth)
            with self._exclusive(frame):
                self._native(frame, place)
            if not frame.step.is_fake:
                self._dependencies(frame, "posthook_deps", depth)
            with self._exclusive(frame):
                place = self._hook(frame, place, "postprocess", report)
            frame.ended = True
            if not frame.step.is_fake:
                self._dependencies(frame, "post_deps", depth)
        settle(frame)
        self._look_again(frame)
        self._leave(frame, place)
        report.relies_on += named_by_env(frame)
        rely(frame, report.relies_on)
        check_version(frame, str(report.version))
        version = str(report.version or frame.step.version.exact)
        return StepOutcome(exports(frame), state_exports(frame), version), report

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
        for what in self._index.contents.edited(frame.script, frame.step.uses):
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
            self._reports.note(f"{frame.script.alias}: {text}")
        return place

    def _hook(
        self, frame: StepRun, place: StepFolders, name: str, report: HookReport
    ) -> StepFolders:
        """Call a hook and collect its report; return the folders of the step after it."""
        if frame.step.is_fake:
            return place
        if self._runner.customized(frame):
            self._course.act(frame)
        answer = self._runner.hook(frame, place, name)
        report.version = answer.get("version") or report.version
        report.tags += list(answer.get("add_extra_cache_tags") or ())
        report.relies_on += list(answer.get("relies_on") or ())
        rely(frame, report.relies_on)
        report.skip = report.skip or bool(answer.get("skip"))
        if report.skip:
            report.instead = answer.get("script") or report.instead
        return StepFolders(frame.cwd, place.scratch)

    def _native(self, frame: StepRun, place: StepFolders) -> None:
        if settle(frame) or frame.script.env_key_mappings:
            self._course.leave(frame)
        for old, new in frame.script.env_key_mappings.items():
            for key in [k for k in dict.keys(frame.env) if k.startswith(old)]:
                frame.env[new + key[len(old) :]] = frame.env[key]
        path = "" if frame.step.is_fake else self._runner.native_script(frame)
        if path:
            self._course.act(frame)
            if "debug_script" in frame.request.modes:
                self._runner.shell(frame, place)
            self._runner.native(frame, place, path, self._runner.words(frame))

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
                waiting = self._reports.waiting(f'has "{name}" to itself')
                stack.enter_context(
                    self._store.locks.hold(f"exclusive {name}", waiting, self._wait)
                )
            yield
