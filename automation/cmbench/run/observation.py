"""The files and programs that a step used, and those that count for its cache entry.

``observer`` is the program that watches native scripts, ``hook_observation`` watches hooks. This
module starts the former, reads what both report and applies the rule of ``docs/how-to/cache.md``. A
step that cannot be observed counts as reading what its ``PATH`` offers, and says so.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import cmbench
from cmbench.format.environment_reads import (
    is_of_terminal,
    program_words,
    words_of_command,
    words_of_python,
)
from cmbench.format.outside import IN_PATH, PROGRAM_FOLDERS, UNOBSERVED, search_folders
from cmbench.format.program_variables import all_variables, variables_of
from cmbench.format.sources import own_files
from cmbench.lib.engine_code import import_paths
from cmbench.plan.step_run import StepRun
from cmbench.run import observer
from cmbench.run.cm_objects import StepFolders
from cmbench.run.executor import Job
from cmbench.run.hook_observation import HookUses, process_watch
from cmbench.run.native_reads import variable_reads
from cmbench.run.observer import STARTED
from cmbench.values import replace

Ended = TypeVar("Ended")
MEASURES = "machine"
"""The lock of steps that measure: nothing may slow them down."""
_REPORT = "observed.json"
_STATES = ("/proc/", "/sys/", "/dev/")
"""Where a file shows the state of the machine."""
_OF_SERVICES = ("/run/", "/var/run/", "/var/cache/", "/var/lib/")
_TEMPORARY = ("/tmp/", "/var/tmp/")
_SYSTEM = ("/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/libx32/", "/usr/")
_SETTINGS = "/etc/"
_SEARCHED = ("/usr/lib/gcc", "/usr/share/", "/usr/libexec/")
_OF_THE_MACHINE = "/usr/local/"
_OF_THE_C_LIBRARY = re.compile(
    r"/etc/(?:ld\.so\b|passwd$|group$|nsswitch|resolv|host|gai|localtime|timezone|locale|ssl/"
    r"|ca-certificates|mtab|machine-id|protocols|services|alternatives|inputrc)"
    r"|/usr/(?:lib|share)/locale/|.*/gconv/|.*/glibc-hwcaps/"
)
"""What nearly every program of the system looks at: it does not decide what is made."""
_OF_PACKAGES = re.compile(
    r".*/(?:site-packages|dist-packages|node_modules|__pycache__|lib/python\d[\d.]*)(?:/|$)"
    r"|.*/lib/python\d+\.zip$"
)
"""Trees that a package manager keeps below an interpreter, which itself counts."""
_OF_USER = re.compile(r"/\.(?:cache(?:/|$)|gitconfig$|config/git/|local/state/|\w+_history$)")
_SCRIPT_NAME = re.compile(
    r"\.(?:sh|bash|py|mk|mak|inc|am|cmake|awk|pl|pm|rb|tcl|[cm]?js|php|lua|jl|R"
    r"|env|conf|cfg|rc|profile)$|/\.?[^./]+$"
)
_LONGEST_PROGRAM = 1 << 20
"""Bytes of a script outside that are looked into."""
_MOST_NAMES = 300
"""More names than these looked at in one folder count as one look at all that it has."""


def run_observed(
    step_run: StepRun,
    job: Job,
    library_files: Mapping[str, frozenset[str]],
    run: Callable[[Job], Ended],
) -> Ended:
    """``run`` a native program of a step; record its reads outside. Return its result.

    The digest of ``library_files``, paths from the roots of shared code, counts already.
    """
    observation = StepObservation(step_run, job, library_files)
    ended = run(observation.job)
    if observation.was_refused():
        ended = run(job)
    step_run.note(observation.reads())
    step_run.note(variable_reads(step_run, observation.variables()))
    return ended


class StepObservation:
    """Observes one native program of a step: ``job`` is the one to run, ``reads`` its reads."""

    def __init__(
        self, step_run: StepRun, job: Job, library_files: Mapping[str, frozenset[str]]
    ) -> None:
        self._environment = job.environment
        self._script = step_run.script.path
        self._library_files = library_files
        others = [path for path in job.reads if path not in (self._script, *library_files)]
        self._own = _own_folders(job.scratch, others)
        self._hooks_began = step_run.hooks.began
        self._path = os.path.join(job.scratch, _REPORT)
        self._report: dict[str, Any] = {}
        self._obstacle = _obstacle(step_run)
        self.job = job
        if not self._obstacle:
            plan = json.dumps({"report": self._path, "ignored": _STATES})
            program = (sys.executable, "-I", "-S", observer.__file__, plan)
            self.job = replace(job, observed=(*program, *job.command))

    def was_refused(self) -> bool:
        """Read the report; return whether the program has to run again, unobserved.

        Where the observer is no administrator, programs such as ``sudo`` get no privileges.
        """
        with suppress(OSError, ValueError):
            with open(self._path, encoding="ascii") as stream:
                self._report = json.load(stream)
            os.unlink(self._path)
        if self._obstacle:
            return False
        refused = self._report.get("refused", "")
        if refused:
            self._obstacle = f"{os.path.basename(refused)} needs privileges"
        elif not self._report:
            self._obstacle = "the programs did not run on this machine"
        else:
            self._obstacle = self._report["trouble"]
        return bool(refused)

    def reads(self) -> set[str]:
        """Return what counts, by the recorded names."""
        if self._obstacle:
            return set(_all_of_path(self._environment, self._obstacle))
        sources = {self._script: _source_files(self._script), **self._library_files}
        began = min(self._report["began"], self._hooks_began or self._report["began"])
        rule = CountedPaths(self._own, sources, began)
        return {f"os:{IN_PATH}{name}" for name in rule.names(self._report)}

    def variables(self) -> list[str]:
        """Return the variables that the programs which were started look at.

        Of known programs those of a table, of scripts outside those that their sources name.
        """
        if self._obstacle:
            return sorted(name.decode() for name in all_variables())
        started, opened = self._report[observer.STARTED], self._report[observer.OPENED]
        programs = map(os.path.basename, started)
        modules = filter(None, map(_module, opened))
        names = variables_of(os.fsencode(name) for name in (*programs, *modules))
        own = _starts([*self._own, self._script, *self._library_files])
        paths = (*started, *filter(_SCRIPT_NAME.search, opened))
        outside = [path for path in paths if not path.startswith((*own, *_SYSTEM))]
        return sorted({name.decode() for name in names} | _named_outside(outside))


def _named_outside(paths: Iterable[str]) -> set[str]:
    """Return the variables that scripts and makefiles among ``paths`` name.

    What one reads in a way that cannot be followed is left out, as are the variables of terminals,
    and PATH, which many set: the programs that are found by it count by themselves.
    """
    words: set[str] = set()
    for path in paths:
        if os.path.isfile(path) and not _never_counts(path):
            with suppress(OSError), open(path, "rb") as stream:
                words.update(program_words(path, stream.read(_LONGEST_PROGRAM)))
    named = {word for word in words if re.fullmatch(r"\w+", word)}
    return {word for word in named if word != "PATH" and not is_of_terminal(word)}


def run_hook_observed(
    step_run: StepRun,
    place: StepFolders,
    library_files: Mapping[str, frozenset[str]],
    loaded: HookUses,
    call: Callable[[], Ended],
) -> Ended:
    """Call a hook; record its reads outside, with those of ``loaded`` code. Return its result.

    The digest of ``library_files``, paths from the roots of shared code, counts already.
    """
    hooks = step_run.hooks
    hooks.began = hooks.began or time.time_ns()
    with process_watch().noting(HookUses()) as uses:
        uses.include(loaded)
        ended = call()
    for child, outcome in uses.runs:
        step_run.note(name for name in child.outer_reads() if name.startswith("os:"))
        step_run.trace.depend_on(child.trace, outcome.entry)
    script = step_run.script.path
    # The engine itself imports the libraries of cmbench while a hook runs.
    own_root = os.path.realpath(cmbench.LIBRARIES)
    others = {r: names for r, names in library_files.items() if os.path.realpath(r) != own_root}
    own = _own_folders(place.scratch, library_files.keys() - others.keys())
    sources = {script: _source_files(script), **others}
    names = CountedPaths(own, sources, hooks.began).names(uses.paths)
    started = variables_of(os.fsencode(os.path.basename(path)) for path in uses.paths[STARTED])
    words = {word for line in uses.commands for word in words_of_command(line)}
    words |= {word for code in uses.python_code for word in words_of_python(code)}
    words |= {name.decode() for name in started} | {f"{IN_PATH}{name}" for name in names}
    step_run.note(f"os:{word}" for word in words)
    return ended


def _source_files(script: str) -> frozenset[str]:
    return frozenset(name for name, _, _ in own_files(script))


def _own_folders(scratch: str, others: Iterable[str]) -> list[str]:
    """Return folders whose content counts otherwise: caches with what is made in them, ``others``.

    A hook may have gone anywhere else (``os.chdir``): what is read there counts as any other.
    """
    folders = (_home(scratch), os.environ.get("CMBENCH_SHARED", ""), *others)
    return [folder for folder in folders if folder]


def _home(scratch: str) -> str:
    """Return the folder of the cache, which has that of all runs, with one for the present run."""
    runs = os.path.dirname(os.path.dirname(scratch))
    return os.path.dirname(runs)


def _module(path: str) -> str:
    """Return the package that ``python -m`` runs, where ``path`` is the start of one."""
    folder, name = os.path.split(path)
    return os.path.basename(folder) if name == "__main__.py" else ""


def _obstacle(step_run: StepRun) -> str:
    """Return why a step cannot be observed, as far as that is known before."""
    if MEASURES in step_run.texts("exclusive"):
        return "it measures"
    if not sys.platform.startswith("linux"):
        return "this is not Linux"
    if os.geteuid() and _asks_for_privileges(step_run.script.path):
        return "sudo needs privileges"
    return ""


def _asks_for_privileges(script: str) -> bool:
    """Return whether a program of the script may call ``sudo``, which cannot work observed."""
    for name, _, _ in own_files(script):
        if name.endswith((".sh", ".py")):
            with suppress(OSError), open(os.path.join(script, name), "rb") as stream:
                if b"sudo" in stream.read().lower():
                    return True
    return False


def _all_of_path(environment: Mapping[str, str], why: str) -> Iterator[str]:
    yield f"os:{UNOBSERVED}{why}"
    yield "os:PATH"
    for folder in search_folders(environment.get("PATH", "")):
        if f"{folder}/" not in PROGRAM_FOLDERS:
            yield f"os:{IN_PATH}{folder}/*"


class CountedPaths:
    """The rule of what counts of the observed paths, all taken as they are after the step.

    ``own`` are folders whose content counts otherwise, ``sources`` those of which only some files
    do, as paths from it. ``began`` is when the step began, in nanoseconds since 1970.
    """

    def __init__(
        self, own: Iterable[str], sources: Mapping[str, frozenset[str]], began: int
    ) -> None:
        folders = {*own, *map(str, import_paths())}
        self._own = _starts(folders)
        self._sources = {
            start: files for folder, files in sources.items() for start in _starts([folder])
        }
        self._began = began
        self._folders: dict[str, str] = {}
        # A shell looks whether these are folders.
        self._where_the_user_was = {os.environ.get("PWD"), os.environ.get("OLDPWD")}
        self._homes = {os.path.realpath(os.path.expanduser("~")), os.path.expanduser("~")}
        self._search = tuple(search_folders(os.environ.get("PATH", os.defpath)))
        temporary = os.environ.get("TMPDIR", "").rstrip("/")
        self._temporary = (*_TEMPORARY, *([f"{temporary}/"] if temporary else []))
        # Which names these have, everything that is installed or started changes.
        known = (*self._homes, *self._search)
        self._shared = {*self._temporary, *(f"{folder}/" for folder in known)}

    def names(self, report: Mapping[str, Any]) -> set[str]:
        """Return programs by name, files by path, and folders with a slash at the end."""
        by_folder: dict[str, set[str]] = {}
        for kind in (observer.STARTED, observer.OPENED, observer.LOOKED):
            for path in _with_interpreters(report[kind], kind):
                if name := self._name(_plain(path), kind):
                    by_folder.setdefault(os.path.dirname(name), set()).add(name)
        names: set[str] = set()
        for folder, inside in by_folder.items():
            names |= {f"{folder}/*"} if folder and len(inside) > _MOST_NAMES else inside
        # What exists shows that the folders above it do, and a file where links lead.
        files = [name for name in names if name[-1:] not in "/*" and os.path.lexists(name)]
        ways = (*files, *self._own, *self._sources)
        passed = [folder for name in ways for folder in _folders_above(name)]
        return names.difference(passed)

    def _name(self, path: str, kind: str) -> str:
        """Return what counts of ``path``, or an empty string."""
        real = self._real(path)
        if path == "/" or f"{path}/" in self._shared or self._is_own(real):
            return ""
        if self._is_own(path):
            # What was read is what a link in it leads to.
            path = real
        if kind == observer.LOOKED and path in self._where_the_user_was:
            return ""
        folder, name = os.path.split(path)
        is_program = kind != observer.OPENED and self._is_in_order(folder, name)
        if folder in self._search and (is_program or path.startswith(_SYSTEM)):
            return name
        if path.startswith(_SYSTEM) and not f"{real}/".startswith((*_SYSTEM, _SETTINGS)):
            # A link of the system leads out of it.
            path = real
        if _never_counts(path) or self._is_of_user(path):
            return ""
        return self._counted(path, kind)

    def _is_in_order(self, folder: str, name: str) -> bool:
        """Whether no folder of PATH before ``folder`` has ``name``.

        Who looks there all the same has another PATH: that one file counts.
        """
        before = self._search[: self._search.index(folder)] if folder in self._search else ()
        return not any(os.access(f"{each}/{name}", os.X_OK) for each in before)

    def _is_of_user(self, path: str) -> bool:
        return any(_OF_USER.match(path, len(h)) for h in self._homes if path.startswith(f"{h}/"))

    def _counted(self, path: str, kind: str) -> str:
        if f"{path}/".startswith(_SYSTEM) and not path.startswith(_OF_THE_MACHINE):
            return path if _counts_of_system(path, kind) else ""
        if f"{path}/".startswith(_SETTINGS) and (kind == observer.LOOKED or os.path.isdir(path)):
            # Who looks for its settings there looks at many names.
            return "" if os.path.lexists(path) else path
        return self._of_others(path, kind)

    def _real(self, path: str) -> str:
        """Return ``path`` without links; those of folders are followed once."""
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        short = f"{self._folders[folder]}/{name}"
        return os.path.realpath(short) if os.path.islink(short) else short

    def _is_own(self, path: str) -> bool:
        if f"{path}/".startswith(self._own):
            return True
        for start, files in self._sources.items():
            if f"{path}/".startswith(start):
                return path[len(start) :] in files or os.path.isdir(path)
        return False

    def _of_others(self, path: str, kind: str) -> str:
        is_temporary = path.startswith(self._temporary)
        try:
            info = os.stat(path)
        except (OSError, ValueError):
            return self._missing(path, is_temporary)
        if is_temporary and not self._is_older(path):
            return ""
        return f"{path}/" if stat.S_ISDIR(info.st_mode) and kind == observer.OPENED else path

    def _missing(self, path: str, is_temporary: bool) -> str:
        """Return the first folder on the way to ``path`` that does not exist, or ``path``.

        In a home it is ``path``: others make the first folders, such as ``.config``, there.
        """
        folder = os.path.dirname(path)
        if path.startswith(tuple(f"{home}/" for home in self._homes)):
            return path
        while not os.path.lexists(folder):
            path, folder = folder, os.path.dirname(folder)
        return path if not is_temporary or self._is_older(folder) else ""

    def _is_older(self, path: str) -> bool:
        """Whether it was there before the step began, and is unchanged."""
        with suppress(OSError, ValueError):
            return os.stat(path).st_ctime_ns < self._began
        return False


def _never_counts(path: str) -> bool:
    return (
        f"{path}/".startswith((*_STATES, *_OF_SERVICES))
        or _OF_THE_C_LIBRARY.match(path) is not None
        or _OF_PACKAGES.match(path) is not None
    )


def _counts_of_system(path: str, kind: str) -> bool:
    """Whether a path of the system counts: a program, and a file that was not there.

    Whoever opens a library looks for it in one folder after another, and compilers look so for
    parts of themselves.
    """
    if kind == observer.STARTED:
        return path.startswith(PROGRAM_FOLDERS)
    is_search = path.startswith(_SEARCHED) or (kind == observer.OPENED and ".so" in path)
    return not is_search and not os.path.lexists(path) and os.path.isdir(os.path.dirname(path))


def _starts(folders: Iterable[str]) -> tuple[str, ...]:
    """Return how paths in ``folders`` begin, with and without links."""
    return tuple({f"{path}/" for folder in folders for path in (folder, os.path.realpath(folder))})


def _folders_above(name: str) -> Iterator[str]:
    """Yield the folders above ``name``: whoever resolves a path looks at them."""
    folder = os.path.dirname(name.rstrip("/"))
    while len(folder) > 1:
        yield folder
        folder = os.path.dirname(folder)


def _with_interpreters(paths: Iterable[str], kind: str) -> Iterator[str]:
    """Yield ``paths``; after one that was started, the interpreter that its first line names."""
    for path in paths:
        yield path
        if kind == observer.STARTED:
            with suppress(OSError, ValueError), open(path, "rb") as stream:
                if match := re.match(rb"#![ \t]*(/\S+)", stream.read(200)):
                    yield os.fsdecode(match[1])


def _plain(path: str) -> str:
    """Return ``path`` without ``.`` and ``..``, where it means the same file then."""
    short = re.sub(r"^//+", "/", os.path.normpath(path))
    if ".." in path and os.path.realpath(short) != os.path.realpath(path):
        return path
    return short
