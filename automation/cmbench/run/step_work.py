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
        self, step_run: StepRun, place: StepFolders, depth: int
    ) -> tuple[StepOutcome, HookReport]:
        """Return the life of one step that really runs; also collects what its hooks report."""
        place = self._prepared(step_run, place)
        report = HookReport()
        if step_run.script.predeps and step_run.script.dialect.predeps:
            place = self._hook(step_run, place, "predeps", report)
        self._dependencies(step_run, "deps", depth)
        self._doubt_if_edited(step_run)
        with self._exclusive(step_run):
            place = self._hook(step_run, place, "preprocess", report)
        if not report.skip:
            self._dependencies(step_run, "prehook_deps", depth)
            with self._exclusive(step_run):
                self._native(step_run, place)
            if not step_run.step.is_fake:
                self._dependencies(step_run, "posthook_deps", depth)
            with self._exclusive(step_run):
                place = self._hook(step_run, place, "postprocess", report)
            step_run.ended = True
            if not step_run.step.is_fake:
                self._dependencies(step_run, "post_deps", depth)
        settle(step_run)
        self._doubt_if_edited(step_run)
        self._leave(step_run, place)
        report.relies_on += named_by_env(step_run)
        rely(step_run, report.relies_on)
        check_version(step_run, str(report.version))
        version = str(report.version or step_run.step.version.exact)
        return StepOutcome(exports(step_run), state_exports(step_run), version), report

    def _leave(self, step_run: StepRun, place: StepFolders) -> None:
        """Finish in the folder of the step: save requested files, open a shell, clean up."""
        modes = step_run.request.modes
        if "save_env" in modes:
            self._runner.save_env(step_run, place)
        if "shell" in modes:
            self._runner.shell(step_run, place)
        if "dirty" not in modes:
            remove(step_run.script.clean_files, place)

    def _doubt_if_edited(self, step_run: StepRun) -> None:
        """Doubt a result of files that are not those that the run has looked at."""
        for what in self._index.contents.edited(step_run.script, step_run.step.uses):
            step_run.trace.doubts[f"{what} was edited during that run"] = None

    def _prepared(self, step_run: StepRun, place: StepFolders) -> StepFolders:
        """Where the step works, ``outdirname`` counted in; says and removes what comes first."""
        dialect = step_run.script.dialect
        key = dialect.prefix + "OUTDIRNAME"
        subfolder = str(step_run.env.peek(key) or "")
        if subfolder:
            step_run.note([key])
            start = step_run.const.get(dialect.prefix + dialect.user_directory, place.cwd)
            place = StepFolders(os.path.join(str(start), subfolder), place.scratch)
            os.makedirs(place.cwd, exist_ok=True)
        step_run.cwd = place.cwd
        remove(step_run.script.clean_output_files, place)
        for mode in step_run.request.modes & {"fake_run", "fake_deps"}:
            step_run.env[f"{dialect.prefix}TMP_{mode.upper()}"] = "yes"
        for text in step_run.texts("warnings"):
            self._reports.note(f"{step_run.script.alias}: {text}")
        return place

    def _hook(
        self, step_run: StepRun, place: StepFolders, name: str, report: HookReport
    ) -> StepFolders:
        """Call a hook and collect its report; return the folders of the step after it."""
        if step_run.step.is_fake:
            return place
        if self._runner.customized(step_run):
            self._course.act(step_run)
        answer = self._runner.hook(step_run, place, name)
        report.version = answer.get("version") or report.version
        report.tags += list(answer.get("add_extra_cache_tags") or ())
        report.relies_on += map(os.fspath, answer.get("relies_on") or ())
        rely(step_run, report.relies_on)
        report.skip = report.skip or bool(answer.get("skip"))
        if report.skip:
            report.instead = answer.get("script") or report.instead
        return StepFolders(step_run.cwd, place.scratch)

    def _native(self, step_run: StepRun, place: StepFolders) -> None:
        if settle(step_run) or step_run.script.env_key_mappings:
            self._course.leave(step_run)
        for old, new in step_run.script.env_key_mappings.items():
            for key in [k for k in dict.keys(step_run.env) if k.startswith(old)]:
                step_run.env[new + key[len(old) :]] = step_run.env[key]
        path = "" if step_run.step.is_fake else self._runner.native_script(step_run)
        if path:
            self._course.act(step_run)
            if "debug_script" in step_run.request.modes:
                self._runner.shell(step_run, place)
            self._runner.native(step_run, place, path, self._runner.words(step_run))

    @contextmanager
    def _exclusive(self, step_run: StepRun) -> Iterator[None]:
        names = sorted(step_run.texts("exclusive"))
        if ALONE in names:
            from cmbench.cache.inventory import require_whole

            require_whole(self._store, step_run.trace.entries, self._whole)
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
