"""Which files and programs a hook of ``customize.py`` uses, observed where it runs: in the engine.

Python reports each file that is opened, folder that is listed and program that is started
(``sys.addaudithook``). It does not report looks at a file, so ``os.stat`` and its kind have
wrappers while a hook runs. Of a program that a hook starts, its command line is looked into: the
program, the paths and the variables that it names count. ``observation`` has the rule of what
counts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from threading import get_ident
from typing import TYPE_CHECKING, Any

from cmbench.format.outside import search_folders
from cmbench.plan.step_run import IMPORTED_FILE, LOADED_CODE, NESTED_RUN, StepRun

if TYPE_CHECKING:
    from cmbench.format.model import StepOutcome

STARTED, OPENED, LOOKED = "started", "opened", "looked"
"""Kinds of paths, as ``observer`` names them."""
_LOOKS = ("stat", "lstat", "access", "readlink")
_ABILITIES = (
    "supports_dir_fd",
    "supports_fd",
    "supports_follow_symlinks",
    "supports_effective_ids",
)
_COMPILED = re.compile(r"(.*/)__pycache__/([^/]+)\.[^./]+(?:\.opt-\d)?\.pyc$")
_IMPORT_SYSTEM = "<frozen importlib"
_WORDS = re.compile(r"[\s;&|<>()'\"`=,]+")
"""What stands between the words of a command line."""
_SHELLS = frozenset(("sh", "bash", "dash", "ksh", "zsh"))


class HookUses:
    """What one hook has used: paths by kind, command lines of programs, and runs it has started.

    ``python_code`` are arguments of programs named like Python that may be such code. While it is
    ``paused`` the engine works for the hook, and only runs are noted.
    """

    def __init__(self) -> None:
        self.paths: dict[str, dict[str, None]] = {STARTED: {}, OPENED: {}, LOOKED: {}}
        self.commands: list[str] = []
        self.python_code: list[str] = []
        self.runs: list[tuple[StepRun, StepOutcome]] = []
        self.paused = False
        self._others = frozenset(sys._current_frames()) - {get_ident()}

    def is_by(self, thread: int) -> bool:
        """Return whether the hook runs in ``thread``: its own, or one that began later."""
        return thread not in self._others

    def include(self, other: HookUses) -> None:
        """Count what ``other`` has used, too."""
        for kind, paths in other.paths.items():
            self.paths[kind].update(paths)
        self.commands += other.commands
        self.python_code += other.python_code
        self.runs += other.runs

    def add(self, kind: str, path: Any) -> None:
        """Note a path, in any form that Python takes for one; not an open file."""
        if isinstance(path, os.PathLike):
            path = os.fspath(path)
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and path and "\0" not in path:
            whole = path if path[0] == "/" else f"{os.getcwd()}/{path}"
            match = _COMPILED.match(whole)
            self.paths[kind][f"{match[1]}{match[2]}.py" if match else whole] = None

    def opened(self, path: Any, _mode: Any, flags: Any) -> None:
        """Note a file, unless it is only written."""
        if flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_TRUNC:
            self.add(OPENED, path)

    def listed(self, path: Any = None) -> None:
        """Note a folder, but not one in which an import searches."""
        if not sys._getframe(3).f_code.co_filename.startswith(_IMPORT_SYSTEM):
            self.add(OPENED, "." if path is None else path)

    def used(self, path: Any, *_: Any) -> None:
        """Note a file that is opened without an event of its own."""
        self.add(OPENED, path)

    def named_anew(self, path: Any, *_: Any) -> None:
        """Note a file that gets another name, under which it may be read."""
        self.add(LOOKED, path)

    def linked(self, target: Any, link: Any, *_: Any) -> None:
        """Note what a new link leads to, which a relative one has from its folder."""
        self.add(LOOKED, os.path.join(os.path.dirname(os.fsdecode(link)), os.fsdecode(target)))

    def ran(self, step_run: StepRun, outcome: StepOutcome) -> None:
        """Note a run that the hook has started, by its requested step."""
        self.runs.append((step_run, outcome))

    def starts(self, program: Any, words: Any, cwd: Any = None, env: Any = None) -> None:
        """Note a program and what its command line names, from the folder ``cwd`` on."""
        from cmbench.format.called_programs import called_by_shell, is_launcher

        words = [words] if isinstance(words, str | bytes | os.PathLike) else words
        line = [os.fsdecode(word) for word in words]
        name = os.fsdecode(program or line[0])
        short = os.path.basename(name)
        code, is_shell = self._command(short, line)
        path = str((os.environ if env is None else env).get("PATH", os.defpath))
        folder = os.path.abspath(os.fsdecode(cwd or "."))
        self._program(os.path.join(folder, name) if "/" in name else name, path)
        if is_shell or is_launcher(short):
            for word in called_by_shell(code.encode(errors="replace")):
                self._program(os.fsdecode(word), path)
        self._named(folder, line[1:])
        self._handed_on(env or {})

    def _named(self, folder: str, words: list[str]) -> None:
        """Note the paths in a command line; what is not absolute counts where it exists."""
        from cmbench.format.called_programs import named_paths

        text = " ".join(words)
        for place in (*filter(os.path.isabs, words), *named_paths(f" {text}")):
            self.add(LOOKED, os.path.expanduser(place))
        for word in {*words, *_WORDS.split(text)} - {"", ".", ".."}:
            if os.path.isfile(place := os.path.join(folder, word)):
                self.add(LOOKED, place)

    def _handed_on(self, env: Mapping[Any, Any]) -> None:
        """Note the files that a program gets in variables which only it has."""
        for name, value in env.items():
            text, here = os.fsdecode(value), os.environ.get(os.fsdecode(name))
            if text != here and os.path.isabs(text) and os.path.isfile(text):
                self.add(LOOKED, text)

    def _command(self, name: str, line: list[str]) -> tuple[str, bool]:
        """Note and return the command that ``name`` runs, and whether that is code of a shell."""
        is_shell = name in _SHELLS and "-c" in line[:-1]
        # An argument with blanks may be a program in another language.
        code = line[line.index("-c") + 1] if is_shell else " ".join(w for w in line if " " not in w)
        if name.startswith("python"):
            self.python_code += [word for word in line if " " in word]
        self.commands.append(code)
        return code, is_shell

    def starts_shell(self, command: Any) -> None:
        """Note the command line of a shell."""
        self.starts("/bin/sh", ["/bin/sh", "-c", command])

    def _program(self, name: str, path: str) -> None:
        """Note a program, or all that shows that there is none of that name."""
        if "/" in name:
            self.add(STARTED, name)
            return
        for folder in search_folders(path):
            place = f"{folder}/{name}"
            if os.path.isfile(place) and os.access(place, os.X_OK):
                self.add(STARTED, place)
                return
            self.add(LOOKED, place)


_EVENTS: Mapping[str, Callable[..., None]] = {
    "open": HookUses.opened,
    "os.link": HookUses.named_anew,
    "os.listdir": HookUses.listed,
    "os.rename": HookUses.named_anew,
    "os.scandir": HookUses.listed,
    "os.symlink": HookUses.linked,
    "os.system": HookUses.starts_shell,
    "os.posix_spawn": HookUses.starts,
    "subprocess.Popen": HookUses.starts,
    "sqlite3.connect": HookUses.used,
    "ctypes.dlopen": HookUses.used,
    IMPORTED_FILE: HookUses.used,
    LOADED_CODE: HookUses.include,
    NESTED_RUN: HookUses.ran,
}


class ProcessWatch:
    """Receives what Python reports in this process, for the hook that runs; only one does."""

    def __init__(self) -> None:
        self._uses: HookUses | None = None
        self._is_noting = False
        self._looks = {name: self._noted(getattr(os, name)) for name in _LOOKS}
        for group in _ABILITIES:
            able: set[Any] = getattr(os, group)
            able.update(look for name, look in self._looks.items() if getattr(os, name) in able)
        if sys.version_info < (3, 11):
            # Its pathlib has functions of os in an object of its own. Later ones need no import,
            # which takes 3 ms of each run.
            import pathlib

            accessor = vars(pathlib._normal_accessor)
            accessor.update(stat=self._looks["stat"], readlink=self._looks["readlink"])

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Take an event of Python; raises nothing."""
        if self._uses is not None and name in _EVENTS:
            self._note(name == NESTED_RUN, _EVENTS[name], arguments)

    def _note(self, is_run: bool, note: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        uses = self._uses
        if uses is None or self._is_noting or (uses.paused and not is_run):
            return
        if not uses.is_by(get_ident()):
            return
        self._is_noting = True
        try:
            note(uses, *arguments)
        except (AttributeError, LookupError, OSError, TypeError, ValueError):
            # The call that is reported tells by itself what is wrong with its arguments.
            pass
        finally:
            self._is_noting = False

    def _noted(self, look: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(look)
        def noted(path: Any, *rest: Any, **options: Any) -> Any:
            if self._uses is not None:
                self._note(False, HookUses.add, (LOOKED, path))
            return look(path, *rest, **options)

        return noted

    @contextmanager
    def noting(self, uses: HookUses) -> Iterator[HookUses]:
        """Note into ``uses`` what the thread that calls this does."""
        before, plain = self._uses, {name: getattr(os, name) for name in _LOOKS}
        self._uses = uses
        vars(os).update(self._looks)
        try:
            yield uses
        finally:
            vars(os).update(plain)
            self._uses = before

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out what the engine does for a hook."""
        uses = self._uses
        if uses is None or uses.paused:
            yield
            return
        uses.paused = True
        try:
            yield
        finally:
            uses.paused = False


@cache
def process_watch() -> ProcessWatch:
    """Return the watch of this process, which Python keeps until the process ends."""
    watch = ProcessWatch()
    sys.addaudithook(watch.event)
    return watch
