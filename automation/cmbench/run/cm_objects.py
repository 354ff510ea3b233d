"""What existing ``customize.py`` files call: the ``automation`` object and ``os_info`` of CM.

Method names, argument names and return codes are those of the CM format; everything typed stays
on the other side of this border.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from cmbench.errors import Error
from cmbench.exit_codes import EXIT_NOT_FOUND
from cmbench.format.env import TracedEnv
from cmbench.plan.step_run import StepRun
from cmbench.values import immutable, replace

if TYPE_CHECKING:
    from cmbench.run.mlc_modules import Actions, Logger

VERSION_FILE = "tmp-ver.out"
_LEVELS = 4
"""So deep is searched below a folder."""
_NUMBERED = r"(?:[.-]?\d+(?:\.\d+)*)?"


@immutable(frozen=True, slots=True, eq=False, repr=False)
class StepFolders:
    """Where a step works: its current directory and a private scratch directory."""

    cwd: str
    scratch: str


# The folder that holds the automations: two above this package.
_AUTOMATIONS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Runner(Protocol):
    """What the shim needs of the step runner."""

    cmind: Any

    @property
    def actions(self) -> Actions:
        """What ``customize.py`` may ask of the tool itself."""

    def native_script(self, step_run: StepRun, base: str = "") -> str:
        """Return the path of the native script for this platform; empty where there is none."""

    def native(
        self, step_run: StepRun, place: StepFolders, path: str, words: tuple[str, ...]
    ) -> None:
        """Run a native script; raises ``script-failed``."""

    def words(self, step_run: StepRun) -> tuple[str, ...]:
        """Return the env words that native programs of the step may read."""

    def hook_input(self, step_run: StepRun, place: StepFolders) -> dict[str, Any]:
        """Return the dictionary that a hook of ``customize.py`` takes."""


class UnobservedTool:
    """cmind as hooks have it: what it reads for a hook, the hook has not read."""

    def __init__(self, cmind: Any) -> None:
        self._cmind = cmind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cmind, name)

    def access(self, i: Any) -> Any:
        """Do what ``i`` says; see cmind."""
        from cmbench.run.hook_observation import process_watch

        with process_watch().pause():
            return self._cmind.access(i)


class FailedAnswer(dict[str, Any]):
    """A failure as hooks see one, with ``return`` and ``error``; returned by a hook, ``cause``."""

    def __init__(self, cause: Error) -> None:
        hint = str(cause.hint)
        super().__init__({"return": cause.exit_code, "error": cause.message, "hint": hint})
        self.cause = cause


_OF_THE_RUN = ("interrupted", "lock-broken", "internal")
"""Failures that are none of the script's: no hook goes on after them."""


class Automation:
    """``i['automation']`` of one hook call."""

    def __init__(self, runner: Runner, step_run: StepRun, scratch: str) -> None:
        self._runner = runner
        self._step_run = step_run
        self._scratch = scratch
        self.cmind = runner.cmind
        self.path = _AUTOMATIONS

    @property
    def action_object(self) -> Actions:
        """Requests to the tool itself, as MLC names it."""
        return self._runner.actions

    cache_action = action_object

    @property
    def logger(self) -> Logger:
        """Where scripts of MLC write their messages."""
        return self.action_object.logger

    @property
    def _place(self) -> StepFolders:
        """The current folders of the hook: it may have changed the directory."""
        return StepFolders(os.getcwd(), self._scratch)

    def run_native_script(self, i: dict[str, Any]) -> dict[str, Any]:
        """Run the native script ``script_name`` of this step now, with ``env`` if there is one.

        Keys that it sets are in that env, and a copy in ``env_tmp``. A failure of the script is
        returned as ``return`` and ``error``: the hook decides.
        """
        step_run, env = self._step_run, i.get("env")
        script = self._runner.native_script(step_run, str(i.get("script_name", "")))
        if not script:
            name = i.get("script_name") or "run"
            return {"return": EXIT_NOT_FOUND, "error": f"native script {name} not found"}
        words = self._runner.words(step_run)
        if isinstance(env, dict) and env is not step_run.env:
            step_run = replace(step_run, env=TracedEnv(env))
        from cmbench.run.hook_observation import process_watch

        try:
            with process_watch().pause():
                self._runner.native(step_run, self._place, script, words)
        except Error as error:
            if error.code in _OF_THE_RUN:
                raise
            return FailedAnswer(error)
        if isinstance(env, dict) and env is not step_run.env:
            env.update(step_run.env.plain())
        return {"return": 0, "env_tmp": step_run.env.plain()}

    def detect_version_using_script(self, i: dict[str, Any]) -> dict[str, Any]:
        """Run the native script, then ``detect_version`` of this step, and check the range."""
        _remove(os.path.join(self._place.cwd, VERSION_FILE))
        answer = self.run_native_script(i)
        if answer["return"]:
            return {"return": EXIT_NOT_FOUND, "error": answer["error"]}
        return self._detect_version(i)

    def _detect_version(self, i: dict[str, Any]) -> dict[str, Any]:
        detect = getattr(i["run_script_input"].get("customize_code"), "detect_version", None)
        if detect is None:
            return {"return": 0}
        answer: dict[str, Any] = detect(self._runner.hook_input(self._step_run, self._place))
        if answer.get("return"):
            return answer
        from cmbench.lib import versions

        version = str(answer.get("version", ""))
        bounds = self._step_run.step.version
        if not version:
            return {"return": EXIT_NOT_FOUND, "error": "version was not detected"}
        if not versions.satisfies(version, bounds.minimum, bounds.maximum, bounds.exact):
            return {"return": EXIT_NOT_FOUND, "error": f"version {version} does not fit"}
        return {"return": 0, "version": version, "detected_version": version}

    def parse_version(self, i: dict[str, Any]) -> dict[str, Any]:
        """Return the version that ``match_text`` finds in ``tmp-ver.out``; sets ``env_key``."""
        path = os.path.join(self._place.cwd, str(i.get("file_name", VERSION_FILE)))
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            return {"return": EXIT_NOT_FOUND, "error": f"{path} was not written"}
        match = re.search(str(i["match_text"]), text)
        if not match:
            return {"return": EXIT_NOT_FOUND, "error": f"version not found in: {text.strip()}"}
        version = str(match.group(int(i.get("group_number", 1)))).strip()
        env = i.get("which_env", self._step_run.env)
        if i.get("env_key"):
            env[str(i["env_key"])] = version
        env[self._step_run.script.dialect.prefix + "DETECTED_VERSION"] = version
        return {"return": 0, "version": version, "string": text}

    def get_default_path_list(self, i: dict[str, Any]) -> list[str]:
        """The directories of the search path ``default_path_env_key`` (``PATH`` by default)."""
        key = str(i.get("default_path_env_key") or "PATH")
        self._step_run.trace.os_reads.add(key)
        extra = self._step_run.env.get("+" + key) or []
        return [*extra, *filter(None, os.environ.get(key, "").split(os.pathsep))]

    def find_artifact(self, i: dict[str, Any]) -> dict[str, Any]:
        """Find a file by name along ``--path``, ``CM_INPUT`` or a search path.

        Accepts names with version suffixes (``gcc-12``, ``python3.11``); with ``detect_version``
        keeps only those whose version fits. Returns code 16 when none is found.
        """
        env = self._step_run.env
        prefix = self._step_run.script.dialect.prefix
        file_path = str(env.get(prefix + "INPUT") or "").strip()
        search_path = str(env.get(prefix + "TMP_PATH") or "").strip()
        if file_path:
            paths = [file_path] if os.path.isfile(file_path) else []
        else:
            default = [*self._below_search_folder(), *self.get_default_path_list(i)]
            directories = search_path.split(os.pathsep) if search_path else default
            paths = list(_matching(directories, str(i["file_name"])))
        if not paths:
            where = file_path or search_path or str(i.get("default_path_env_key") or "PATH")
            return {"return": EXIT_NOT_FOUND, "error": f"{i['file_name']} not found in {where}"}
        return self._first_fitting(i, paths)

    def _below_search_folder(self) -> list[str]:
        """The folder that ``--search_folder_path`` of MLC names, and those up to 4 levels below."""
        dialect = self._step_run.script.dialect
        if "search_folder_path" not in dialect.inputs:
            return []
        top = str(self._step_run.env.get(dialect.prefix + "SEARCH_FOLDER_PATH") or "").strip()
        folders = []
        for folder, below, _ in os.walk(top) if top else ():
            folders.append(folder)
            if os.path.relpath(folder, top).count(os.sep) >= _LEVELS - 1 and folder != top:
                below.clear()
            below.sort()
        return folders

    def _first_fitting(self, i: dict[str, Any], paths: list[str]) -> dict[str, Any]:
        env = self._step_run.env
        key = str(i.get("env_path_key") or "")
        refused = []
        for path in paths:
            if key:
                env[key] = path
            if not i.get("detect_version"):
                return self._chosen(i, path)
            answer = self.detect_version_using_script(i)
            if not answer["return"]:
                return self._chosen(i, path)
            refused.append(f"{path}: {answer['error']}")
        if key:
            env.pop(key, None)
        return {"return": EXIT_NOT_FOUND, "error": "; ".join(refused)}

    def _chosen(self, i: dict[str, Any], path: str) -> dict[str, Any]:
        directory = os.path.dirname(path)
        if directory not in self.get_default_path_list(i):
            self._step_run.env["+PATH"] = [directory]
        return {"return": 0, "found_path": directory, "found_files": [path]}

    def find_file_deep(self, i: dict[str, Any]) -> dict[str, Any]:
        """``found_paths``: directories below ``paths`` that hold ``file_name``.

        With ``restrict_paths`` only those whose path contains one of these texts.
        """
        restrictions = [str(text) for text in i.get("restrict_paths") or ()]
        folders = [
            folder
            for start in i["paths"]
            for folder, _, names in os.walk(start)
            if i["file_name"] in names
            and (not restrictions or any(text in folder for text in restrictions))
        ]
        return {"return": 0, "found_paths": folders}

    def find_file_back(self, i: dict[str, Any]) -> dict[str, Any]:
        """``found_path``: the nearest directory upwards from ``path`` that holds ``file_name``."""
        path = str(i["path"])
        while path and not os.path.isfile(os.path.join(path, str(i["file_name"]))):
            above = os.path.dirname(path)
            path = "" if above == path else above
        return {"return": 0, "found_path": path}

    def _available_variations(self, i: dict[str, Any]) -> dict[str, Any]:
        """Return a refusal that names the variations there are; scripts call it by this name."""
        meta = i["meta"]
        names = " ".join(sorted(f"_{name}" for name in meta.get("variations") or {}))
        return {
            "return": 1,
            "error": f"{meta.get('alias', '')} needs a variation",
            "hint": f"add one of these to the tags: {names}",
        }

    def update_deps(self, i: dict[str, Any]) -> dict[str, Any]:
        """Change dependencies of this step that are still to run, by name (``update_deps``)."""
        from cmbench.format.meta import updates

        self._step_run.hooks.late_updates.update(updates(i.get("update_deps")))
        return {"return": 0}

    def clean_some_tmp_files(self, i: dict[str, Any]) -> dict[str, Any]:
        """Remove the files that native scripts leave for the engine."""
        for name in (VERSION_FILE, "tmp-run-env.out", "tmp-run-state.json"):
            _remove(os.path.join(self._place.cwd, name))
        return {"return": 0}


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _matching(directories: Iterable[str], name: str) -> Iterable[str]:
    pattern = re.compile(re.escape(name) + _NUMBERED + "$")
    seen: set[str] = set()
    for directory in directories:
        try:
            names = sorted(os.listdir(directory), key=lambda n: (n != name, n))
        except OSError:
            continue
        for item in names:
            path = os.path.join(directory, item)
            real = os.path.realpath(path)
            if pattern.match(item) and real not in seen and os.path.isfile(path):
                seen.add(real)
                yield path
