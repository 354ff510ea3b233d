"""One step of a script without the engine around it: its hooks called with a hand-made ``i``."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from cmbench.errors import Error
from common.problems import Problem
from common.python_path import child_env
from support import LIB, ROOT

SCRIPTS = ROOT / "script"


def load(alias: str) -> ModuleType:
    """The ``customize.py`` of a script, loaded anew."""
    path = SCRIPTS / alias / "customize.py"
    spec = importlib.util.spec_from_file_location(f"customize_of_{alias.replace('-', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return as_engine_calls(module)


def as_engine_calls(module: ModuleType) -> ModuleType:
    """Let the functions of a ``customize.py`` fail as they do in a run: by an ``Error``."""
    for name, function in list(vars(module).items()):
        if isinstance(function, (FunctionType, MethodType)):
            setattr(module, name, _reporting(function))
    return module


def _reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*words: Any, **named: Any) -> Any:
        try:
            return function(*words, **named)
        except Error:
            raise
        except Exception as problem:
            raise (Error.of(problem) if isinstance(problem, Problem) else problem) from None

    return call


@dataclass
class Automation:
    """The part of ``i['automation']`` that these scripts use; native scripts really run."""

    script: Path
    cwd: Path
    updates: dict[str, Any] = field(default_factory=dict)

    @property
    def cmind(self) -> SimpleNamespace:
        """The home that the entry lies in."""
        return SimpleNamespace(repos_path=str(self.cwd.parent))

    def get_default_path_list(self, _: Mapping[str, Any]) -> list[str]:
        return [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]

    def update_deps(self, i: Mapping[str, Any]) -> dict[str, Any]:
        self.updates.update(i["update_deps"])
        return {"return": 0}

    def run_native_script(self, i: Mapping[str, Any]) -> dict[str, Any]:
        path = self.script / f"{i['script_name']}.sh"
        env = {**os.environ, **{key: str(value) for key, value in i["env"].items()}}
        env = child_env(LIB, base=env)
        done = subprocess.run(
            ["bash", str(path)], cwd=self.cwd, env=env, capture_output=True, text=True
        )
        if done.returncode:
            raise Error("script-failed", f"{path.name} failed", context=done.stdout.splitlines())
        return {"return": 0}


@dataclass
class Step:
    """A script with its env, ready to be called; ``cwd`` stands for the cache entry."""

    alias: str
    cwd: Path
    env: dict[str, Any]
    variations: tuple[str, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cwd.mkdir(parents=True, exist_ok=True)
        scratch = self.cwd.with_name(self.cwd.name + " scratch")
        scratch.mkdir(exist_ok=True)
        self.env.setdefault("CM_TMP_RUN_DIR", str(scratch))
        self.automation = Automation(SCRIPTS / self.alias, self.cwd)
        self.module = load(self.alias)

    def call(self, hook: str) -> dict[str, Any]:
        """Call ``preprocess`` or ``postprocess`` in the step's folder."""
        here = os.getcwd()
        os.chdir(self.cwd)
        try:
            answer: dict[str, Any] = getattr(self.module, hook)(
                {
                    "env": self.env,
                    "state": self.state,
                    "automation": self.automation,
                    "variation_tags": list(self.variations),
                    "run_script_input": self.shared,
                    "input": {},
                }
            )
        finally:
            os.chdir(here)
        assert answer["return"] == 0
        return answer


def tool(path: Path, text: str) -> Path:
    """An executable shell script at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def fake_python(path: Path, version: str, **changes: Any) -> Path:
    """A file that answers as a Python of ``version`` would, and has no package."""
    told = {
        "version": version,
        "executable": str(path),
        "base_executable": str(path),
        "implementation": "CPython",
        "bits": 64,
        "ext_suffix": f".cpython-{version.replace('.', '')[:3]}-x86_64-linux-gnu.so",
        "virtual": False,
        "can_make_venv": True,
        "has_pip": True,
        "externally_managed": False,
        "prefix": str(path.parent.parent),
        **changes,
    }
    answer = json.dumps(told).replace("'", r"\u0027")
    return tool(path, f"""if [ "$1" = -I ]; then echo '{answer}'; else echo null; fi\n""")
