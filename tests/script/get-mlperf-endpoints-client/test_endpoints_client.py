"""The reference client in a Python of its own; what stands in here is a package without needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import Home

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = '''\
"""Builds a wheel whose program prints its version, without any other package."""
import pathlib, zipfile

NAME = "inference_endpoint-0.1.0"


def build_wheel(folder, *more):
    path = pathlib.Path(folder) / f"{NAME}-py3-none-any.whl"
    info = f"{NAME}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("inference_endpoint.py", "def main():\\n    print('0.1.0')\\n")
        wheel.writestr(f"{info}/METADATA", "Name: inference-endpoint\\nVersion: 0.1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(
            f"{info}/entry_points.txt",
            "[console_scripts]\\ninference-endpoint = inference_endpoint:main\\n",
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path.name
'''


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the client needs Python 3.12")
def test_the_client_is_installed_and_says_its_version(home: Home, tmp_path: Path) -> None:
    (tmp_path / "src/inference_endpoint").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "backend.py").write_text(BACKEND, encoding="utf-8")
    words = ("run", "script", "--tags=get,mlperf,endpoints-client", "--quiet")
    done = home.cm(*words, f"--endpoints_src={tmp_path}").ok()
    assert "client/bin/inference-endpoint" in done.stdout


def test_the_plan_names_what_is_fetched(home: Home) -> None:
    done = home.cm("plan", "script", "--tags=get,mlperf,endpoints-client").ok()
    assert "git clone of https://github.com/mlcommons/endpoints" in done.stdout
    assert "Python packages that inference-endpoint pins" in done.stdout
