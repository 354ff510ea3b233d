"""Detection tests: a script run against fake tools and recorded outputs, without its dependencies.

A ``detection_test.yaml`` next to a script holds a list of cases; ``docs/reference/testing.md`` says
what a case may hold. A case runs in a home of its own, with nothing on PATH but its fake tools
and, unless it says otherwise, the common programs of a Unix system.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

from cmbench.errors import Error, did_you_mean
from cmbench.format.meta import META_FILES, load_yaml, read_meta
from cmbench.format.model import PHASES
from cmbench.index.scripts import Repository
from cmbench.lib.text_files import read_or_empty
from cmbench.session.workspace import Workspace

FILE = "detection_test.yaml"
CASE_KEYS: Mapping[str, str] = {
    "name": "what the case shows, in words",
    "tools": "fake programs: `{name: {arguments: output}}`, see below",
    "files": "files to make: `{path: text}`, from `$HERE` on",
    "path": "folders of PATH, from `$HERE` on; `[bin]` if not given",
    "basics": "`no` leaves out the common programs (`bash`, `cat`, `sed` ...)",
    "given": "env keys that dependencies or a caller have set",
    "variations": "`_x,_y`: the variations asked for",
    "flags": "flags of the command line without their dashes: `{version: '3.11'}`",
    "expect": "`version` and `env` given back; values may hold `*`, an empty value means not set",
    "error": "the code of the failure that is expected instead",
    "says": "texts that the log, or the failure, holds",
}
"""What a case may hold, and what it means."""

_BASICS = (
    *("awk", "basename", "bash", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env"),
    *("expr", "false", "find", "grep", "head", "id", "ln", "ls", "mkdir", "mktemp", "mv"),
    *("printf", "readlink", "rm", "sed", "sh", "sleep", "sort", "tail", "tee", "test", "touch"),
    *("tr", "true", "uname", "uniq", "wc", "xargs"),
)


class FinishedRun(Protocol):
    """The values of a finished run that a case compares."""

    @property
    def env(self) -> Mapping[str, Any]:
        """The env keys that it gave back."""

    @property
    def version(self) -> str:
        """The version that it found."""

    @property
    def log(self) -> str:
        """The path of its log."""


Run = Callable[[Workspace, Mapping[str, Any]], FinishedRun]
"""Runs what flags, in the words of the command line, ask for; raises ``Error``."""


@dataclass(frozen=True, slots=True)
class DetectionResult:
    """How one case ended: no problems means that it passed."""

    name: str
    problems: tuple[str, ...]


def read_cases(directory: str) -> list[dict[str, Any]]:
    """The cases of a script directory; raises ``Error`` when the file is not as it should be."""
    path = os.path.join(directory, FILE)
    try:
        with open(path, encoding="utf-8") as stream:
            cases = load_yaml(stream.read(), path)
    except FileNotFoundError:
        return []
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        hint = "begin each case with `- ` at the start of its line"
        raise Error("bad-value", f"{path}: the file is not a list of cases", hint=hint)
    for case in cases:
        for key in case:
            if key not in CASE_KEYS:
                hint = did_you_mean(str(key), CASE_KEYS)
                raise Error("bad-value", f"{path}: a case has no key {key}", hint=hint)
    return cases


def run_case(directory: str, case: Mapping[str, Any], run: Run) -> DetectionResult:
    """Run one case of the script in ``directory``."""
    with tempfile.TemporaryDirectory(prefix="cmbench-test-") as scratch:
        root = os.path.realpath(scratch)
        machine = _FakeMachine(root, os.path.basename(directory), _with_root(case, root))
        machine.build(directory)
        with machine.environment():
            problems = machine.problems(run)
    return DetectionResult(
        str(case.get("name", "unnamed")), tuple(p.replace(root, "$HERE") for p in problems)
    )


def _with_root(value: Any, root: str) -> Any:
    """Return ``value`` with ``root`` for ``$HERE``, in texts at any depth."""
    if isinstance(value, str):
        return value.replace("$HERE", root)
    if isinstance(value, dict):
        return {_with_root(k, root): _with_root(v, root) for k, v in value.items()}
    return [_with_root(item, root) for item in value] if isinstance(value, list) else value


class _FakeMachine:
    """A directory that mimics a machine: PATH, files, a home, a repository of one script."""

    def __init__(self, root: str, alias: str, case: Mapping[str, Any]) -> None:
        self.root = root
        self.alias = alias
        self.case = case
        self.repository = os.path.join(root, ".repository")

    def build(self, directory: str) -> None:
        for name, answers in (self.case.get("tools") or {}).items():
            relative = name if "/" in name else f"bin/{name}"
            _write(os.path.join(self.root, relative), fake_tool(answers or {}), 0o755)
        for name, text in (self.case.get("files") or {}).items():
            _write(os.path.join(self.root, name), str(text), 0o644)
        basics = os.path.join(self.root, ".basics")
        os.makedirs(basics)
        for name in _BASICS:
            program = shutil.which(name)
            if program:
                os.symlink(program, os.path.join(basics, name))
        os.makedirs(os.path.join(self.root, "home"), exist_ok=True)
        _copy_alone(directory, os.path.join(self.repository, "script", self.alias))

    @contextmanager
    def environment(self) -> Iterator[None]:
        """The environment of the case instead of this process's own."""
        folders = [os.path.join(self.root, p) for p in self.case.get("path") or ["bin"]]
        if str(self.case.get("basics", "yes")).lower() not in ("no", "false"):
            folders.append(os.path.join(self.root, ".basics"))
        before, cwd = dict(os.environ), os.getcwd()
        os.environ.clear()
        os.environ.update(PATH=os.pathsep.join(folders), HOME=os.path.join(self.root, "home"))
        os.chdir(self.root)
        try:
            yield
        finally:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(before)

    def problems(self, run: Run) -> list[str]:
        code = str(self.case.get("error") or "")
        try:
            outcome = run(self._workspace(), self._call())
        except Error as error:
            text = error.render() + "\n" + read_or_empty(error.log)
            if error.code != code:
                return [f"it failed: {error.render()}"]
            return self._missing_texts(text)
        if code:
            return [f"it should have failed with {code}, but did not"]
        return self._differences(outcome) + self._missing_texts(read_or_empty(outcome.log))

    def _workspace(self) -> Workspace:
        return Workspace(os.path.join(self.root, ".home"), [Repository("test", self.repository)])

    def _call(self) -> dict[str, Any]:
        call = {"artifact": self.alias, "silent": True, "tags": self.case.get("variations") or ""}
        env = {key: str(value) for key, value in (self.case.get("given") or {}).items()}
        return {**call, "env": env, **(self.case.get("flags") or {})}

    def _differences(self, outcome: FinishedRun) -> list[str]:
        expect = self.case.get("expect") or {}
        differences = []
        if "version" in expect and not _matches(outcome.version, expect["version"]):
            differences.append(f"version is {outcome.version!r}, not {expect['version']!r}")
        for key, value in (expect.get("env") or {}).items():
            got = outcome.env.get(key)
            if not _matches(got, value):
                differences.append(f"{key} is {got!r}, not {value!r}")
        return differences

    def _missing_texts(self, text: str) -> list[str]:
        says = self.case.get("says") or []
        expected = [says] if isinstance(says, str) else says
        flat = " ".join(text.split())
        return [
            f"not in the output: {item}" for item in expected if " ".join(item.split()) not in flat
        ]


def _matches(value: Any, expected: Any) -> bool:
    if expected is None or expected == "":
        return value is None or value == ""
    if isinstance(value, list):
        return list(map(str, value)) == list(map(str, expected))
    return value is not None and fnmatchcase(str(value), str(expected))


def fake_tool(answers: Mapping[str, Any]) -> str:
    """Return a shell program that answers the recorded argument lists (``*`` fits any text).

    An answer is the text it prints, or ``{out, err, status, do}``: ``do`` are shell lines to run
    first. What was not recorded fails with status 97.
    """
    lines = ["#!/bin/sh", 'case "$*" in']
    for arguments, answer in answers.items():
        parts = answer if isinstance(answer, dict) else {"out": answer}
        pattern = "*".join(shlex.quote(part) if part else "" for part in str(arguments).split("*"))
        lines.append(f"{pattern or shlex.quote('')})")
        lines.append(str(parts.get("do") or ":"))
        for key, target in (("out", ""), ("err", " >&2")):
            if parts.get(key):
                lines.append(f"printf '%s\\n' {shlex.quote(str(parts[key]).rstrip())}{target}")
        lines.append(f"exit {int(parts.get('status') or 0)};;")
    lines += ["esac", 'echo "this fake has no answer to: $*" >&2', "exit 97"]
    return "\n".join(lines) + "\n"


def _copy_alone(directory: str, target: str) -> None:
    """Copy the script without its dependencies: a case states what they would have returned."""
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("__pycache__", *META_FILES))
    meta = read_meta(directory)
    blocks = [meta]
    for kind in ("variations", "versions"):
        blocks += [block for block in (meta.get(kind) or {}).values() if block]
    for block in blocks:
        for phase in PHASES:
            block.pop(phase, None)
    _write(os.path.join(target, "meta.json"), json.dumps(meta), 0o644)


def _write(path: str, text: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, mode)
