"""detect-os: facts of this machine, read anew each time, without a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steps import Step


def test_it_reports_what_uname_reports(tmp_path: Path) -> None:
    step = Step("detect-os", tmp_path / "cwd", {})
    step.call("preprocess")
    uname = os.uname()
    assert step.env["CM_HOST_OS_TYPE"] == uname.sysname.lower()
    assert step.env["CM_HOST_OS_KERNEL_VERSION"] == uname.release
    assert step.env["CM_HOST_OS_MACHINE"] == step.env["CM_HOST_PLATFORM_FLAVOR"] == uname.machine
    assert step.env["CM_HOST_SYSTEM_NAME"] == uname.nodename
    assert step.state == {"os_uname_machine": uname.machine, "os_uname_all": " ".join(uname)}
    assert all(isinstance(value, str | list) for value in step.env.values())
    assert "" not in step.env.values()
    assert list(step.cwd.iterdir()) == []


def test_it_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step("detect-os", tmp_path / "cwd", {})

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    monkeypatch.setattr(os, "fork", forbidden)
    step.call("preprocess")


def test_the_library_folders_are_there(tmp_path: Path) -> None:
    step = Step("detect-os", tmp_path / "cwd", {})
    step.call("preprocess")
    folders = step.env["+CM_HOST_OS_DEFAULT_LIBRARY_PATH"]
    assert folders
    assert all(os.path.isdir(folder) for folder in folders)


def test_through_the_engine(cm: Callable[..., Any], tmp_path: Path) -> None:
    result = cm("run", "script", "--tags=detect,os", "--out=json", cwd=tmp_path).ok().json
    assert result["return"] == 0
    assert result["new_env"]["CM_HOST_OS_MACHINE"] == os.uname().machine
    assert result["new_state"]["os_uname_machine"] == os.uname().machine
    assert not result["entry"], "a fact is never cached"
    words = cm("run", "script", "detect os", cwd=tmp_path).ok()
    assert "CM_HOST_OS_TYPE=" in words.stdout
