"""A real Triton server for tests: the one of the wheel, installed once for all of them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from common.python_path import add_folder
from shared_files import make_once
from support import ROOT, Home, run

TAGS = "get,triton-server,_wheel,_onnxruntime,_openvino"


@dataclass(frozen=True, slots=True)
class Installed:
    """The home that the server lies in, its launcher, the Python of its models, its version."""

    home: Home
    launcher: Path
    python: str
    version: str


@cache
def site() -> Path:
    """A folder with tritonclient, without what it needs."""
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "tritonclient", "--target"]
    return make_once("tritonclient", lambda folder: run([*words, str(folder)]).ok())


def describe_configurations() -> None:
    """Make Triton's description of its configuration importable."""
    add_folder(site())


@cache
def installed() -> Installed:
    """The server, from a home that was empty before; processes of a test run share it."""

    def install(folder: Path) -> None:
        home = Home(folder)
        home.register(ROOT)
        done = home.cm("run", "script", f"--tags={TAGS}", "--out=json").ok()
        (folder / "run.json").write_text(done.stdout, encoding="utf-8")

    folder = make_once("triton", install)
    home = Home(folder)
    env = json.loads((folder / "run.json").read_text(encoding="utf-8"))["new_env"]
    launcher = Path(env["CM_TRITON_SERVER_BIN_WITH_PATH"])
    python, version = env["CM_TRITON_SERVER_PYTHON"], env["CM_TRITON_SERVER_VERSION"]
    return Installed(home, launcher, python, version)
