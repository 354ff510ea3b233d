"""get-sys-utils-cm: what is missing is named; nothing is installed unless that was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.errors import Error
from cmbench.lib.host.packages import MANAGERS, install_command
from steps import SCRIPTS, Step, tool

REQUIRED = ["bash", "git", "tar", "gzip"]
TOOLS = yaml.safe_load((SCRIPTS / "get-sys-utils-cm/tools.yaml").read_text())
ALL = [entry["any"][0] for entry in TOOLS]

Machine = Callable[..., Step]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """``machine("bash", "git")``: a step on a machine that has just these programs."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def machine(*names: str, manager: str = "apt", **env: str) -> Step:
        for name in names:
            tool(tmp_path / "bin" / name, f'echo "{name} $@" >> {tmp_path}/called')
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        known = {"CM_HOST_OS_PACKAGE_MANAGER": manager}
        return Step("get-sys-utils-cm", tmp_path / "cwd", {**known, **env})

    return machine


def refusal(step: Step) -> Error:
    with pytest.raises(Error) as caught:
        step.call("preprocess")
    return caught.value


def called(tmp_path: Path) -> list[str]:
    path = tmp_path / "called"
    return path.read_text().splitlines() if path.exists() else []


def test_all_there(machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    step = machine(*ALL)
    step.call("preprocess")
    assert capsys.readouterr().out == "all programs that scripts use are there\n"
    assert called(tmp_path) == []
    assert list(step.cwd.iterdir()) == []


def test_what_only_some_scripts_want_is_listed(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine(*REQUIRED, "curl", "clang", "clang++", "make", "cmake", "zstd").call("preprocess")
    assert capsys.readouterr().out == (
        "not there, and not needed by every script:\n"
        "  xz: wanted for archives made with xz\n"
        "  unzip: wanted for zip archives in scripts of other repositories\n"
        "to install: sudo apt-get update && sudo apt-get install -y xz-utils unzip\n"
    )
    assert called(tmp_path) == []


def test_what_every_script_needs_is_an_error(machine: Machine, tmp_path: Path) -> None:
    error = refusal(machine("bash", "tar", *ALL[4:]))
    assert error.render() == (
        "error [tool-missing]: programs are missing: git, gzip\n"
        "  cause:\n"
        "    git: needed for repositories of scripts and sources\n"
        "    gzip: needed for archives\n"
        "  next:   sudo apt-get update && sudo apt-get install -y git gzip"
    )
    assert called(tmp_path) == []


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt", "sudo apt-get update && sudo apt-get install -y g++"),
        ("dnf", "sudo dnf makecache -y && sudo dnf install -y gcc-c++"),
        ("pacman", "sudo pacman -Sy && sudo pacman -S --noconfirm --needed gcc"),
        ("zypper", "sudo zypper refresh && sudo zypper --non-interactive install gcc-c++"),
        ("apk", "sudo apk update && sudo apk add g++"),
        ("brew", "brew update && brew install gcc"),
        ("", "install them with the package manager of this system"),
    ],
)
def test_every_package_manager(
    machine: Machine, capsys: pytest.CaptureFixture[str], manager: str, command: str
) -> None:
    machine(*(name for name in ALL if name != "g++"), manager=manager).call("preprocess")
    assert capsys.readouterr().out.splitlines()[-1] == f"to install: {command}"


def test_root_needs_no_sudo(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = machine(*(name for name in ALL if name != "make"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    step.call("preprocess")
    assert "to install: apt-get update && apt-get install -y make\n" in capsys.readouterr().out


def allow_shell(tmp_path: Path) -> None:
    """The real bash, and an installer that brings what it is told to."""
    (tmp_path / "bin/bash").unlink()
    (tmp_path / "bin/bash").symlink_to("/bin/bash")
    tool(
        tmp_path / "bin/apt-get",
        f'echo "apt-get $@" >> {tmp_path}/called\n'
        f'[ "$1" = install ] && /bin/cp {tmp_path}/bin/tar {tmp_path}/bin/gzip\n'
        "echo installed\n",
    )
    tool(tmp_path / "bin/sudo", f'echo "sudo $1" >> {tmp_path}/called; shift; exec "$@"')


def test_sudo_is_used_when_it_is_allowed(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [name for name in ALL if name != "gzip"]
    step = machine(*names, CM_SYS_UTILS_SUDO="yes")
    allow_shell(tmp_path)
    step.call("preprocess")
    assert called(tmp_path) == [
        "sudo --non-interactive",
        "apt-get update",
        "sudo --non-interactive",
        "apt-get install -y gzip",
    ]
    out = capsys.readouterr().out
    assert "installed\n" in out
    assert out.endswith("all programs that scripts use are there\n")


def test_install_is_for_root(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in ALL if name != "gzip"]
    step = machine(*names, CM_SYS_UTILS_INSTALL="yes")
    allow_shell(tmp_path)
    error = refusal(step)
    assert error.code == "needs-root"
    assert called(tmp_path) == []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    step.call("preprocess")
    assert called(tmp_path) == ["apt-get update", "apt-get install -y gzip"]


def test_an_install_that_fails_is_reported(machine: Machine, tmp_path: Path) -> None:
    step = machine(*(name for name in ALL if name != "gzip"), CM_SYS_UTILS_SUDO="yes")
    allow_shell(tmp_path)
    tool(tmp_path / "bin/sudo", "echo 'sudo: a password is required' >&2; exit 1")
    error = refusal(step)
    assert (error.code, error.exit_code) == ("install-failed", 2)
    assert error.context == ("sudo: a password is required",)
    assert error.hint.startswith("run this yourself: sudo ")


def test_nothing_is_missing_nothing_is_run(machine: Machine, tmp_path: Path) -> None:
    machine(*ALL, CM_SYS_UTILS_SUDO="yes", CM_SYS_UTILS_INSTALL="yes").call("preprocess")
    assert called(tmp_path) == []


def test_it_can_be_skipped(machine: Machine) -> None:
    machine(CM_SKIP_SYS_UTILS="yes").call("preprocess")


def test_programs_of_the_current_directory_do_not_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    step = machine(*(name for name in ALL if name != "git"))
    tool(step.cwd / "git", "")
    monkeypatch.setenv("PATH", f".::{tmp_path}/bin")
    assert refusal(step).message == "programs are missing: git"


@pytest.mark.parametrize("manager", MANAGERS)
def test_package_names_are_quoted(manager: str) -> None:
    assert install_command(manager, ["a; b"], as_root=True).endswith(" 'a; b'")
    assert install_command(manager, []) == ""


def test_through_the_engine(cm: Callable[..., Any]) -> None:
    done = cm("run", "script", "get sys-utils-cm", "--quiet")
    assert done.status in (0, 1)
    assert ("programs" in done.stdout) or ("to install" in done.stdout) or done.status
    skipped = cm("run", "script", "get sys-utils-cm", "--skip", "--quiet").ok()
    assert "programs" not in skipped.stdout
