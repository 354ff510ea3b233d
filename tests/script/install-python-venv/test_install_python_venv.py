"""install-python-venv: made in the cache, registered under its name, made again when asked to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from steps import Step, fake_python


def env(python: Path, **changes: str) -> dict[str, str]:
    return {
        "CM_PYTHON_BIN_WITH_PATH": str(python),
        "CM_PYTHON_VERSION": "3.11.7",
        "CM_PYTHON_CAN_MAKE_VENV": "yes",
        **changes,
    }


@pytest.mark.parametrize("name", ["../up", "a b", "a/b", "-x", ".", "a;b"])
def test_names_that_are_no_names(tmp_path: Path, name: str) -> None:
    step = Step("install-python-venv", tmp_path / "entry", env(tmp_path, CM_NAME=name))
    with pytest.raises(Error) as caught:
        step.call("preprocess")
    assert caught.value.code == "bad-value"
    assert f'--name="{name}"' in caught.value.message


def test_a_python_without_venv_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = env(Path("/usr/bin/python3"), CM_PYTHON_CAN_MAKE_VENV="no")
    step = Step("install-python-venv", tmp_path / "entry", facts)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        step.module, "os_facts", lambda: type("Facts", (), {"package_manager": "apt"})
    )
    with pytest.raises(Error) as caught:
        step.call("preprocess")
    assert caught.value.render() == (
        "error [venv-missing]: /usr/bin/python3 (3.11.7) cannot make environments: its module venv "
        "or ensurepip is missing\n"
        "  next:   sudo apt-get update && sudo apt-get install -y python3.11-venv"
    )


def test_what_is_registered(tmp_path: Path) -> None:
    step = Step("install-python-venv", tmp_path / "entry_1f", env(tmp_path, CM_NAME="mlperf"))
    step.call("preprocess")
    assert step.env["CM_VIRTUAL_ENV_PATH"] == str(step.cwd / "mlperf")
    assert step.automation.updates == {
        "register-python": {"name": "mlperf", "extra_cache_tags": "virtual,of-entry_1f"}
    }
    step = Step("install-python-venv", tmp_path / "entry_2f", env(tmp_path))
    step.call("preprocess")
    assert step.env["CM_VIRTUAL_ENV_PATH"] == str(step.cwd / "venv")
    assert step.automation.updates == {
        "register-python": {"extra_cache_tags": "virtual,of-entry_2f"}
    }


def test_an_environment_that_does_not_work_is_an_error(tmp_path: Path) -> None:
    step = Step("install-python-venv", tmp_path / "entry", env(Path("/usr/bin/python3")))
    step.call("preprocess")
    fake_python(step.cwd / "venv/bin/python3", "3.11.7", virtual=True, has_pip=False)
    with pytest.raises(Error) as caught:
        step.call("postprocess")
    assert caught.value.code == "venv-broken"
    assert caught.value.hint.endswith("/usr/bin/python3 -m venv /tmp/try")


def test_modules_of_the_current_directory_are_not_run(tmp_path: Path) -> None:
    step = Step("install-python-venv", tmp_path / "entry", env(Path(sys.executable)))
    for name in ("venv", "ensurepip", "json"):
        (step.cwd / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    fake = fake_python(tmp_path / "python3", "3.11.7")
    fake.write_text(f"#!/bin/sh\nexec {sys.executable} \"$1\" -c 'import venv, json'\n")
    step.env |= {"CM_PYTHON_BIN_WITH_PATH": str(fake), "CM_VIRTUAL_ENV_PATH": str(step.cwd / "v")}
    step.automation.run_native_script({"script_name": "run", "env": step.env})
    assert not (tmp_path / "ran").exists()


def run(home: Any, *words: str) -> dict[str, Any]:
    result: dict[str, Any] = home.cm("run", "script", *words, "--out=json").json
    return result


def test_through_the_engine(home: Any, tmp_path: Path) -> None:
    made = run(home, "install python-venv", "--name=lab", f"--adr.python.path={sys.executable}")
    assert made["return"] == 0, made
    python = made["new_env"]["CM_PYTHON_BIN_WITH_PATH"]
    prefix = subprocess.run(
        [python, "-I", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True
    ).stdout.strip()
    assert prefix == made["new_env"]["CM_VIRTUAL_ENV_PATH"]
    assert made["version"] == made["new_env"]["CM_PYTHON_VERSION"]

    chosen = run(home, "get python3", "--name=lab")
    assert chosen["cached"]
    assert chosen["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == python
    assert chosen["new_env"]["CM_PYTHON_VIRTUAL"] == "yes"
    assert chosen["new_env"]["+PATH"] == [os.path.dirname(python)]
    assert run(home, "install python-venv", "--name=lab")["cached"]
    assert run(home, "get python3", "--name=other")["code"] == "not-detected"
    plain = run(home, "get python3")["new_env"]["CM_PYTHON_BIN_WITH_PATH"]
    assert plain != python, "only its name chooses it"

    again = run(home, "install python-venv", "--name=lab", "--renew")
    newer = again["new_env"]["CM_PYTHON_BIN_WITH_PATH"]
    assert newer != python
    assert run(home, "get python3", "--name=lab")["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == newer
