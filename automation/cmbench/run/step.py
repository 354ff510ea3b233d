"""One step's own work: its ``customize.py`` through the CM dictionary, and its native script.

Only this module builds the dictionary that ``customize.py`` sees from typed values, and reads it
back.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cmbench.cache.store import disk_error
from cmbench.errors import Error, visible
from cmbench.format.env import expanded_env, process_env
from cmbench.lib.secrecy import Secrets
from cmbench.plan.step_run import StepRun
from cmbench.run.cm_objects import Automation, FailedAnswer, StepFolders, UnobservedTool
from cmbench.run.customize import crash, file_failure, load, programs, unanswered
from cmbench.run.reporter import Reporter, StepOutput
from cmbench.values import immutable
from common.problems import MARKED, Hint, shell_word

if TYPE_CHECKING:
    from cmbench.run.executor import Executor, Job
    from cmbench.run.hook_observation import HookUses
    from cmbench.run.mlc_modules import Actions
    from cmbench.run.workers import Crew

TAIL_LINES = 15
SEARCHED_LINES = 4_000
NEXT = "next: "
"""A line of a failing program that begins so is its advice, not its output."""
ALONE = "machine"
"""The lock of steps that measure: nothing else of ours runs beside them."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class RunnerSettings:
    """How the code of the steps of a run runs.

    ``words`` gives what native programs may read of a script and the shared code that it uses,
    ``library_files`` the files of that code whose digest counts, as paths from their roots;
    ``quiet`` is a run without questions. ``command`` is the command line of the whole run,
    ``downloads`` the folder of files that are fetched ahead, ``wheels`` that of wheels for pip.
    """

    cmind: Any
    words: Callable[[str, tuple[str, ...]], tuple[str, ...]]
    library_files: Callable[[str, tuple[str, ...]], Mapping[str, frozenset[str]]]
    secrets: Secrets
    quiet: bool = True
    offline: bool = False
    command: str = ""
    downloads: str = ""
    wheels: str = ""
    executor: Executor | None = None
    crew: Crew | None = None


class StepRunner:
    """Runs the hooks and native scripts of steps; keeps loaded modules for the process."""

    def __init__(self, settings: RunnerSettings, output: StepOutput) -> None:
        self.cmind = UnobservedTool(settings.cmind)
        self.secrets = settings.secrets
        self.progress = ProgressFiles(output.reporter)
        self._settings = settings
        self._output = output
        self._words = cache(settings.words)
        self._executor = settings.executor
        self._modules: dict[str, ModuleType | None] = {}
        self._loaded: dict[str, HookUses] = {}
        self._offered: Mapping[str, ModuleType] | None = None
        self._actions: Actions | None = None
        self._asking: list[tuple[StepRun, str]] = []

    def customized(self, step_run: StepRun) -> bool:
        """Return whether the step has a ``customize.py``."""
        return self._module(step_run) is not None

    def hook(self, step_run: StepRun, place: StepFolders, name: str) -> dict[str, Any]:
        """Call ``preprocess`` or ``postprocess``; raises ``Error`` for any kind of failure."""
        module = self._module(step_run)
        function = getattr(module, name, None) if module else None
        if function is None:
            return {}
        answer = self._call(step_run, place, f"customize.py {name}", function)
        if not isinstance(answer, dict):
            raise Error(
                "bad-customize",
                f"{name} in customize.py of {step_run.script.alias} returned no dictionary",
                hint="let it return {'return': 0}",
                doing=f"customize.py {name}",
            )
        if isinstance(answer, FailedAnswer):
            raise answer.cause
        if answer.get("return", 0):
            raise Error(
                "customize-failed",
                str(answer.get("error", "customize.py reported a failure without a message")),
                hint=Hint.plain(str(answer.get("hint", ""))),
                doing=f"customize.py {name}",
                exit_code=int(answer["return"]),
            )
        return answer

    def _call(
        self,
        step_run: StepRun,
        place: StepFolders,
        doing: str,
        function: Callable[[dict[str, Any]], Any],
    ) -> Any:
        here = os.getcwd()
        self.set_place(step_run, place)
        step_run.note(word for word in self.words(step_run) if word.startswith("os:"))
        self._asking.append((step_run, doing))
        try:
            os.chdir(place.cwd)
            with ExitStack() as stack:
                if self._settings.crew is not None:
                    stack.enter_context(self._settings.crew.hook(place.scratch))
                stack.enter_context(self._output.captured(step_run, self.secrets))
                key = step_run.script.dialect.prefix + "TMP_RUN_DIR"
                stack.enter_context(programs(key, place.scratch))
                i = self.hook_input(step_run, place)
                call = partial(_answer, function, i, step_run, place, doing)
                answer = self._observed(step_run, place, call) if step_run.is_kept else call()
                # Where a hook goes, the rest of its step follows.
                step_run.cwd = os.getcwd()
                return answer
        except Error as error:
            error.doing = error.doing or doing
            raise
        except OSError as problem:
            raise disk_error(problem, str(problem.filename or place.cwd)) from problem
        finally:
            self._learn(step_run)
            self._asking.pop()
            os.chdir(here)

    def _observed(self, step_run: StepRun, place: StepFolders, call: Callable[[], Any]) -> Any:
        from cmbench.run.observation import run_hook_observed

        path = os.path.join(step_run.script.path, "customize.py")
        return run_hook_observed(
            step_run, place, self._library_files(step_run), self._loaded[path], call
        )

    def _library_files(self, step_run: StepRun) -> Mapping[str, frozenset[str]]:
        return self._settings.library_files(step_run.script.path, step_run.step.uses)

    def _learn(self, step_run: StepRun) -> None:
        """See which values and inputs of a step are secret."""
        for block in step_run.step.blocks:
            self.secrets.learn_flags(block.input_mapping)
        self.secrets.learn(step_run.env.plain())
        self.secrets.learn(step_run.state.plain())

    def set_place(self, step_run: StepRun, place: StepFolders) -> None:
        """Set the folders of a step in its env, without counting that as a read."""
        prefix = step_run.script.dialect.prefix
        values = {
            "TMP_CURRENT_SCRIPT_PATH": step_run.script.path,
            "TMP_CURRENT_PATH": place.cwd,
            "TMP_RUN_DIR": place.scratch,
            "PROGRESS_FILE": os.path.join(place.scratch, "progress.json"),
        }
        if self._settings.quiet:
            values["QUIET"] = "yes"
        if self._settings.offline:
            values["TMP_OFFLINE"] = "yes"
        if self._settings.wheels:
            values["TMP_PACKAGE_FILES"] = self._settings.wheels
        if self._settings.downloads:
            values["TMP_DOWNLOADS"] = self._settings.downloads
        step_run.env.update({prefix + key: value for key, value in values.items()})
        self._learn(step_run)
        self.progress.watch(values["PROGRESS_FILE"])

    def hook_input(self, step_run: StepRun, place: StepFolders) -> dict[str, Any]:
        """Return the dictionary ``i`` of the CM format."""
        from cmbench.run.hook_input import hook_input

        automation = Automation(self, step_run, place.scratch)
        return hook_input(
            step_run,
            self._module(step_run),
            automation,
            self._settings.command,
            self._output.verbose,
        )

    def _module(self, step_run: StepRun) -> ModuleType | None:
        path = os.path.join(step_run.script.path, "customize.py")
        is_noted = path in self._loaded or not step_run.is_kept
        if path not in self._modules or (self._modules[path] is not None and not is_noted):
            self._modules[path] = self._load(path, step_run) if os.path.isfile(path) else None
        return self._modules[path]

    def _load(self, path: str, step_run: StepRun) -> ModuleType:
        offered: Mapping[str, ModuleType] = {}
        if step_run.script.dialect.modules:
            if self._offered is None:
                from cmbench.run.mlc_modules import modules

                self._offered = modules(self.actions)
            offered = self._offered
        if not step_run.is_kept:
            return load(path, step_run, self._answer_prompt, offered)
        from cmbench.run.hook_observation import HookUses, process_watch

        with process_watch().noting(HookUses()) as self._loaded[path]:
            return load(path, step_run, self._answer_prompt, offered)

    @property
    def actions(self) -> Actions:
        """What ``customize.py`` may ask of the tool itself."""
        from cmbench.run.mlc_modules import Actions, Logger

        if self._actions is None:
            self._actions = Actions(self.cmind, Logger())
        return self._actions

    def _answer_prompt(self, prompt: str = "") -> str:
        """Return an answer from the terminal, as ``input`` of ``customize.py``."""
        step_run, doing = self._asking[-1]
        stdin = sys.__stdin__
        if self._settings.quiet or stdin is None or not stdin.isatty():
            raise unanswered(prompt, step_run, doing)
        self._output.reporter.end()
        print(
            visible(f"{step_run.step.label} asks: {prompt}"),
            end="",
            file=sys.__stderr__,
            flush=True,
        )
        answer = stdin.readline()
        self._output.reporter.begin(0)
        if not answer:
            raise unanswered(prompt, step_run, doing)
        return answer.rstrip("\n")

    def words(self, step_run: StepRun) -> tuple[str, ...]:
        """Return what native programs of this step may read."""
        return self._words(step_run.script.path, step_run.step.uses)

    def native_script(self, step_run: StepRun, base: str = "") -> str:
        """Return the path of the native script for this machine, or an empty string."""
        chosen = step_run.hooks.shared.get("script_name")
        base = base or str(chosen or "") or step_run.step.last("script_name") or "run"
        dialect, env = step_run.script.dialect, step_run.env
        for keys in (*dialect.suffixes, ()):
            suffix = [str(env.peek(dialect.prefix + key, "")) for key in keys]
            if all(suffix):
                path = os.path.join(step_run.script.path, "-".join((base, *suffix)) + ".sh")
                if os.path.isfile(path):
                    return path
        return ""

    def native(
        self, step_run: StepRun, place: StepFolders, path: str, words: tuple[str, ...]
    ) -> None:
        """Run a native script and take over its results; raises ``Error`` when it fails."""
        self.set_place(step_run, place)
        from cmbench.run.executor import Job
        from cmbench.run.native_files import (
            changed_values,
            read_results,
            remove_leftovers,
            with_package_files,
            write_repeat_file,
        )
        from cmbench.run.native_reads import native_reads

        step_run.note(native_reads(step_run, words))
        prefix_lines = [str(line) for line in step_run.state.get("script_prefix") or []]
        env = step_run.env.plain()
        if step_run.script.dialect.values_expand:
            env = expanded_env(env, os.environ)
        environment = process_env(env, with_package_files(os.environ, self._settings.wheels))
        libraries: Sequence[str] = ()
        if names := step_run.step.uses:
            from cmbench.format.libraries import search_path
            from common.python_path import child_env

            libraries = search_path(step_run.script.path, names)
            environment = child_env(*libraries, base=environment)
        command = ["bash", path]
        if prefix_lines:
            command = ["bash", "-c", "\n".join([*prefix_lines, '. "$0"']), path]

        job = Job(
            command=tuple(command),
            cwd=place.cwd,
            environment={**environment, MARKED: "1"},
            scratch=place.scratch,
            reads=(
                step_run.script.path,
                *libraries,
                *filter(os.path.isabs, [self._settings.wheels]),
            ),
            entries=tuple(step_run.trace.entries),
        )
        remove_leftovers(place.cwd)
        show = self._output.say if step_run.speaks_natively else self._output.log
        if step_run.is_kept:
            from cmbench.run.observation import run_observed

            libraries_read = self._library_files(step_run)
            run = partial(self._process, show=show)
            status, output = run_observed(step_run, job, libraries_read, run)
        else:
            status, output = self._process(job, show)
        if status and "ignore_script_error" in step_run.request.modes:
            step_run.ignored = True
            name = os.path.basename(path)
            self._output.reporter.note(
                f"continuing: {name} of {step_run.script.alias} {_status_text(status)}"
            )
        elif status:
            repeat = write_repeat_file(
                step_run, place, command, self.secrets.data(changed_values(environment))
            )
            seen, advice = _explained(output)
            raise Error(
                "script-failed",
                f"{os.path.basename(path)} of {step_run.script.alias} {_status_text(status)}",
                context=(*seen, *_files_of_failure(step_run, place.cwd)),
                doing=os.path.basename(path),
                hint=Hint.joined(advice, f"repeat this step alone: `bash {shell_word(repeat)}`"),
            )
        read_results(step_run, place.cwd)
        self._learn(step_run)

    def shell(self, step_run: StepRun, place: StepFolders) -> None:
        """Open a shell on the terminal, with the env and in the folder of the step."""
        import subprocess

        self._output.reporter.end()
        environment = process_env(step_run.env.plain(), os.environ)
        subprocess.run(["bash"], cwd=place.cwd, env=environment, check=False)
        self._output.reporter.begin(0)

    def save_env(self, step_run: StepRun, place: StepFolders) -> None:
        """Write env and state where the step works, as the first engines do; secrets are hidden."""
        import shlex

        env, state = (self.secrets.data(v.plain()) for v in (step_run.env, step_run.state))
        lines = [f"export {k}={shlex.quote(v)}\n" for k, v in process_env(env, {}).items()]
        texts = {
            "tmp-env.sh": "".join(lines),
            "tmp-state.json": json.dumps(state, indent=2, default=str),
        }
        for name, text in texts.items():
            with open(os.path.join(place.cwd, name), "w", encoding="utf-8") as stream:
                stream.write(text)

    def _process(self, job: Job, show: Callable[[str], None]) -> tuple[int, tuple[str, ...]]:
        """Run the native program where the executor does; its exit status and its output.

        Of a long output those lines in which its cause is searched for.
        """
        from cmbench.run.executor import run_job

        if self._executor is None:
            from cmbench.run.process import LocalExecutor

            self._executor = LocalExecutor()
        output: deque[str] = deque(maxlen=SEARCHED_LINES)

        def line(text: str) -> None:
            output.append(text)
            show(text)

        if self._settings.crew is None or self._settings.crew.in_hook:
            state = run_job(self._executor, job, line)
        else:
            with self._settings.crew.idle():
                state = run_job(self._executor, job, line, self._settings.crew.check)
        if state.reason:
            line(f"{self._executor.name}: {state.reason}")
        return state.exit_code or int(state.status == "lost"), tuple(output)


def _answer(
    function: Callable[[dict[str, Any]], Any],
    i: dict[str, Any],
    step_run: StepRun,
    place: StepFolders,
    doing: str,
) -> Any:
    """Return the result of a hook; an exception of it becomes a failure of its script."""
    try:
        return function(i)
    except (Error, KeyboardInterrupt):
        raise
    except OSError as problem:
        raise file_failure(problem, step_run, doing, (place.cwd, place.scratch)) from problem
    except (Exception, SystemExit) as problem:
        raise crash(problem, step_run, doing) from problem


class ProgressFiles:
    """Reports what a step writes into its progress file, while a reporter shows progress.

    ``kept_by`` receives it too, and is no reason to read the file.
    """

    kept_by: Reporter | None = None

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._paths: dict[int, str] = {}
        self._seen: dict[str, int] = {}
        self._looking = False

    def watch(self, path: str) -> None:
        """Look at ``path`` about five times a second from now on."""
        if not self._reporter.watches:
            return
        import threading

        # A thread works on one step at a time.
        self._paths[threading.get_ident()] = path
        if not self._looking:
            self._looking = True
            threading.Thread(target=_watch, args=(weakref.ref(self),), daemon=True).start()

    def report(self) -> None:
        """Report new progress."""
        for path in tuple(self._paths.values()):
            with suppress(OSError, ValueError):
                stamp = os.stat(path).st_mtime_ns
                if stamp != self._seen.get(path):
                    self._seen[path] = stamp
                    with open(path, encoding="utf-8") as stream:
                        progress = json.load(stream)
                    self._reporter.progress(progress)
                    if self.kept_by is not None:
                        self.kept_by.progress(progress)


def _watch(watched: weakref.ref[ProgressFiles]) -> None:
    """Report progress while the run is there: a process may make many of them."""
    while True:
        time.sleep(0.2)
        progress = watched()
        if progress is None:
            return
        progress.report()
        del progress


def _status_text(status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    if status > 128:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(status - 128).name}"
    return f"exited with status {status}"


def _explained(output: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The cause and the last lines that a program printed, and what to do next.

    That is what its own ``next:`` line says, else the remedy of the cause, else of what follows it.
    """
    from cmbench.lib.causes import remedy
    from common.failure_output import explained, first_cause

    last = [line for line in output if line.strip()][-TAIL_LINES:]
    hints = [line.removeprefix(NEXT) for line in last if line.startswith(NEXT)]
    seen = [line for line in output if not line.startswith(NEXT)]
    cause = first_cause(seen)
    shown = explained([line for line in seen if line.strip()], TAIL_LINES)
    advice = "\n".join(hints) or remedy("\n".join(cause)) or remedy("\n".join(shown))
    return shown, advice


def _files_of_failure(step_run: StepRun, cwd: str) -> Iterator[str]:
    """Yield the last lines of the files that a script wants to be shown when it fails."""
    for name in step_run.script.files_of_failure:
        path = os.path.join(cwd, name)
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
            yield f"{name}:"
            yield from (line.rstrip() for line in deque(stream, maxlen=TAIL_LINES))
