"""``customize.py`` as a module: its imports, its questions, and the messages of its failures.

Each such module gets names of its own for ``input`` and ``__import__``, so that nothing is changed
for any other code of the process.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cmbench
from cmbench.errors import Error
from cmbench.format.dialect import CM
from cmbench.format.env import MISSING, Pending, as_text
from cmbench.format.model import Script
from cmbench.plan.planned_step import PlannedStep, in_every_arm, sure
from cmbench.plan.step_run import IMPORTED_FILE, LOADED_CODE, StepRun
from common.problems import Problem
from common.python_path import add_folder

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from cmbench.run.hook_observation import HookUses
    from cmbench.run.isolated_library import IsolatedLibrary

Ask = Callable[[str], str]


def load(path: str, step_run: StepRun, ask: Ask, offered: Mapping[str, ModuleType]) -> ModuleType:
    """The module at ``path``; it finds ``offered`` modules by name, and ``ask`` as ``input``.

    Raises ``Error`` (``customize-crashed``) when it cannot be loaded.
    """
    import importlib.util

    from cmbench.run.fresh_source import spec_of

    name = f"cm_customize_{step_run.script.uid or step_run.script.alias}".replace("-", "_")
    spec = spec_of(name, path)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    names: dict[str, Any] = {**vars(builtins), "input": ask}
    names["__import__"] = _Imports(
        step_run.script.path, name, offered, names, _other_libraries(step_run.script)
    )
    if offered:
        # Some of that dialect use importlib for helpers in their own folder.
        add_folder(step_run.script.path)
    vars(module)["__builtins__"] = names
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Error:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as problem:
        del sys.modules[name]
        raise crash(problem, step_run, "loading customize.py") from problem
    return module


def _other_libraries(script: Script) -> dict[str, IsolatedLibrary]:
    """Return the libraries of other repositories that ``script`` uses, by their packages.

    A name that is not there counts only where it is used: by an active variation.
    """
    used = [name for block in script.blocks for name in block.uses]
    if not used:
        return {}
    from cmbench.format.libraries import locate
    from cmbench.run.isolated_library import IsolatedLibrary

    others: dict[str, str] = {}
    for name in used:
        with suppress(Error):
            root, dotted = locate(script.path, name)
            if root != cmbench.LIBRARIES:
                others[dotted.partition(".")[0]] = root
    roots = dict.fromkeys(others.values())
    libraries = {root: IsolatedLibrary.load(root, script.path) for root in roots}
    return {top: libraries[root] for top, root in others.items()}


def refuse(step_run: StepRun) -> None:
    """Raise the ``Error`` that a run of ``step_run`` would end with at once.

    A ``customize.py`` may have a function ``refuse``, which looks at the env and changes nothing.
    """
    _call_if_defined(step_run, "refuse")


def foresee(step_run: StepRun) -> str:
    """Return in words what of this machine ``step_run`` will use and not fetch; mostly empty.

    A ``customize.py`` may have a function ``foresee``, which returns it as ``present``.
    """
    return str(_call_if_defined(step_run, "foresee").get("present") or "")


def _call_if_defined(step_run: StepRun, name: str) -> Mapping[str, Any]:
    """Call a function of a ``customize.py`` with the known env; ``{}`` where it has none."""
    path = os.path.join(step_run.script.path, "customize.py")
    if step_run.script.dialect is not CM or not _names(path, name):
        return {}
    env = {k: v for k, v in step_run.env.plain().items() if not isinstance(v, Pending)}
    function = getattr(load(path, step_run, _nobody, {}), name, None)
    try:
        answer = function({"env": env}) if function else {}
    except Error:
        raise
    except Exception as problem:
        raise crash(problem, step_run, f"customize.py {name}") from problem
    return answer if isinstance(answer, Mapping) else {}


def _names(path: str, name: str) -> bool:
    """Return whether a file defines, assigns or imports a name: others are not worth loading."""
    try:
        with open(path, encoding="utf-8") as file:
            return bool(re.search(rf"^[\w., ]*\b{name}\b", file.read(), re.MULTILINE))
    except OSError:
        return False


def refuse_each(root: PlannedStep) -> None:
    """Raise what the first step of a plan would end with that is sure to work and refuses to."""
    for planned_step in (*sure(root), *in_every_arm(root)):
        if planned_step.step_run is not None and planned_step.cached in ("no", "miss"):
            try:
                refuse(planned_step.step_run)
            except Error as error:
                if not error.chain:
                    from cmbench.plan.typed_options import add_steps

                    add_steps(error, planned_step.step_run)
                raise


def _nobody(_question: str) -> str:
    raise EOFError


class _Imports:
    """``__import__`` of one ``customize.py``, and of the helpers that lie in its ``folder``.

    It finds ``offered`` modules by name, and packages of ``libraries``. A helper is loaded for this
    script alone, under ``name``: that of another script may have the same file name. As at the end
    of a search path, helpers hide nothing that is installed.
    """

    def __init__(
        self,
        folder: str,
        name: str,
        offered: Mapping[str, ModuleType],
        names: dict[str, Any],
        libraries: Mapping[str, IsolatedLibrary],
    ) -> None:
        self._folder = folder
        self._name = name
        self._offered = offered
        self._names = names
        self._libraries = libraries
        self._helpers: dict[str, ModuleType | None] = {}
        self._loaded: dict[str, HookUses] = {}

    def __call__(
        self,
        name: str,
        scope: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        wanted: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """As ``builtins.__import__(name, globals, locals, fromlist, level)``."""
        top, _, rest = name.partition(".")
        if not level and name in self._offered:
            return self._offered[name] if wanted else self._offered[top]
        if not level and top in self._libraries:
            return self._libraries[top](name, scope, local, wanted, level)
        helper = None if level else self._helper(top)
        if helper is None:
            imported = builtins.__import__(name, scope, local, wanted or (), level)
            # A module that another script has imported is not opened again.
            sys.audit(IMPORTED_FILE, getattr(sys.modules.get(name), "__file__", None))
            if self._libraries and isinstance(imported, ModuleType):
                from cmbench.run.isolated_library import by_name

                return by_name(imported, self._private)
            return imported
        sys.audit(LOADED_CODE, self._loaded[top])
        if not rest:
            return helper
        from importlib import import_module

        inner = import_module(f"{helper.__name__}.{rest}")
        return inner if wanted else helper

    def _private(self, name: str) -> str:
        library = self._libraries.get(name.partition(".")[0])
        return library.private(name) if library else name

    def _helper(self, name: str) -> ModuleType | None:
        if name not in self._helpers:
            spec = self._spec(name)
            from cmbench.run.hook_observation import HookUses, process_watch

            with process_watch().noting(HookUses()) as self._loaded[name]:
                self._helpers[name] = self._load(name, spec) if spec else None
        return self._helpers[name]

    def _spec(self, name: str) -> ModuleSpec | None:
        from importlib.machinery import PathFinder

        if name in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(name, [self._folder])
        if spec is None or spec.origin is None:
            return None
        others = [p for p in sys.path if not os.path.isfile(os.path.join(p, "customize.py"))]
        others = [p for p in others if p != cmbench.LIBRARIES]
        if PathFinder.find_spec(name, others) is not None:
            return None
        from cmbench.run.fresh_source import spec_of

        locations = spec.submodule_search_locations
        return spec_of(f"{self._name}_{name}", spec.origin, locations)

    def _load(self, name: str, spec: ModuleSpec) -> ModuleType:
        from importlib.util import module_from_spec

        assert spec.loader is not None
        module = self._helpers[name] = module_from_spec(spec)
        vars(module)["__builtins__"] = self._names
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[spec.name], self._helpers[name]
            raise
        return module


@contextmanager
def programs(key: str, directory: str) -> Iterator[None]:
    """End the programs that ``customize.py`` has started when it is interrupted.

    They are recognised by the private directory of the step, which their env has under ``key``.
    """
    before, system = os.environ.get(key, ""), os.system
    os.environ[key] = directory
    vars(os)["system"] = _system
    try:
        yield
    except KeyboardInterrupt:
        from cmbench.lib import orphans

        orphans.stop(directory)
        raise
    finally:
        vars(os)["system"] = system
        # Never taken away: a thread that downloads may be going through the environment.
        os.environ[key] = before


def _system(command: str) -> int:
    """As ``os.system``, which is deaf to Ctrl-C and SIGTERM as long as the program runs.

    An interrupted program would look like one that failed, and many scripts do not look at all.
    """
    import subprocess

    status = subprocess.run(["/bin/sh", "-c", command], check=False).returncode
    return status << 8 if status >= 0 else -status


def file_failure(problem: OSError, step_run: StepRun, doing: str, folders: Sequence[str]) -> Error:
    """Return an ``OSError`` of a script's own code.

    That the disk is full, or that nothing may be written into the ``folders`` of the step, is the
    matter of the home. All else is the script's: a file or a program that it needs is not there.
    """
    import errno

    named = [n for n in (problem.filename2, problem.filename) if isinstance(n, str)]
    path = os.path.abspath(named[0]) if named else ""
    own = any(path.startswith(os.path.join(folder, "")) for folder in folders)
    full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or (own and problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM)):
        from cmbench.cache.disk import disk_error

        return disk_error(problem, path or folders[0])
    return crash(problem, step_run, doing)


def crash(problem: BaseException, step_run: StepRun, doing: str) -> Error:
    """Return a Python failure of a script's own code as an error with its own lines only."""
    import traceback

    if isinstance(problem, Problem):
        return Error.of(problem)
    own = [
        f"customize.py:{item.lineno} in {item.name}: {item.line}"
        for item in traceback.extract_tb(problem.__traceback__)
        if item.filename.startswith(step_run.script.path)
    ]
    if isinstance(problem, EOFError):
        return unanswered("", step_run, doing, own)
    if isinstance(problem, SyntaxError) and problem.filename:
        own.append(
            f"{os.path.basename(problem.filename)}:{problem.lineno}: {problem.text}".rstrip()
        )
    return Error(
        "customize-crashed",
        f"customize.py of {step_run.script.alias} failed: {type(problem).__name__}: {problem}",
        context=own,
        doing=doing,
        hint=_advice(problem),
    )


def _advice(problem: BaseException) -> str:
    if isinstance(problem, ModuleNotFoundError) and problem.name:
        package = problem.name.partition(".")[0]
        return (
            f"let the script depend on what it imports, or install {package} for the Python of"
            f" cm ({sys.executable})"
        )
    correct = "correct the script, or see the whole traceback with --debug"
    program = _missing_program(problem)
    return f"install {program}, which the script starts, or {correct}" if program else correct


def _missing_program(problem: BaseException) -> str:
    """Return the program that could not be started because there is none of that name."""
    import traceback

    name = problem.filename if isinstance(problem, FileNotFoundError) else None
    last = traceback.extract_tb(problem.__traceback__)[-1:]
    started = last and last[0].name in ("_execute_child", "_posix_spawn")
    return name if started and isinstance(name, str) and os.sep not in name else ""


def unanswered(prompt: str, step_run: StepRun, doing: str, context: Iterable[str] = ()) -> Error:
    """Return the error of a question that has no terminal, with how to answer it in advance."""
    question = f': "{" ".join(prompt.split())}"' if prompt.strip() else ""
    return Error(
        "needs-input",
        f"customize.py of {step_run.script.alias} asks a question, "
        f"but nobody can answer it{question}",
        context=tuple(context),
        doing=doing,
        hint=_answer_beforehand(step_run),
    )


def _answer_beforehand(step_run: StepRun) -> str:
    """Return the input, or else the env key, that the script looked for last and did not find."""
    prefix = step_run.script.dialect.prefix
    names = _inputs_by_key(step_run)
    missed = [
        key for key in reversed(step_run.env.reads) if _is_empty(step_run.env.peek(key, MISSING))
    ]
    named = [key for key in missed if key in names]
    if not named:
        keys = [key for key in missed if key.startswith(prefix) and "_TMP_" not in key]
        return (
            f"give the answer with the call: --env.{keys[0]}=VALUE"
            if keys
            else "repeat the command on a terminal, without --quiet"
        )
    name = names[named[0]]
    if step_run.parent is None:
        return f"give the answer with the call: --{name}=VALUE"
    tags = ",".join([*step_run.script.tags, *("_" + v for v in step_run.request.tags.variations)])
    return f"run this step first, with the answer: `cm run script --tags={tags} --{name}=VALUE`"


def _inputs_by_key(step_run: StepRun) -> dict[str, str]:
    """Return the name of the input that sets an env key."""
    dialect = step_run.script.dialect
    names = {dialect.prefix + name.upper(): name for name in dialect.inputs}
    for block in step_run.step.blocks:
        names.update({key: name for name, key in block.input_mapping.items()})
    return names


def _is_empty(value: Any) -> bool:
    return value is MISSING or as_text(value) == ""
