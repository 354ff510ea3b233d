"""The command that installs an extra names the source that cmbench was installed from."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

import pytest

import cmbench
from cmbench.lib import installation
from support import AUTOMATION, ROOT

PIP = [sys.executable, "-m", "pip", "install"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_checkout_is_installed_editable() -> None:
    command = installation.install_command("gui")
    assert shlex.split(command) == [*PIP, "--editable", f"{ROOT}[gui]"]


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        ({}, "cmbench[gui]"),
        ({"url": "file:///a%20b", "dir_info": {}}, "/a b[gui]"),
        ({"url": "file:///a.whl", "archive_info": {}}, "cmbench[gui] @ file:///a.whl"),
        (
            {"url": "https://example.org/c.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"cmbench[gui] @ git+https://example.org/c.git@{COMMIT}",
        ),
    ],
)
def test_another_installation_is_repeated_from_its_source(
    origin: Mapping[str, Any], requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_origin", lambda: origin)
    monkeypatch.setattr(installation, "__file__", "/usr/lib/python3/cmbench/lib/installation.py")
    assert shlex.split(installation.install_command("gui")) == [*PIP, requirement]


def test_the_crowd_server_has_the_version_of_cmbench_and_requires_it() -> None:
    text = (AUTOMATION / "cmbench_crowd_server/pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{cmbench.__version__}"' in text
    assert f'"cmbench[crowd,gui]=={cmbench.__version__}"' in text
