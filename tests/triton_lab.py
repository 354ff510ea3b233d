"""A real Triton server for tests: the one of the wheel, installed once for all of them."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from common.python_path import add_folder
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
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Removed when the tests end."""
    return tempfile.TemporaryDirectory(prefix="triton-lab-")


@cache
def site() -> Path:
    """A folder with tritonclient, without what it needs."""
    folder = Path(_scratch().name) / "site"
    words = ["-q", "--no-deps", "--target", str(folder), "tritonclient"]
    run([sys.executable, "-m", "pip", "install", *words]).ok()
    return folder


def describe_configurations() -> None:
    """Make Triton's description of its configuration importable."""
    add_folder(site())


@cache
def installed() -> Installed:
    """The server, from a home that was empty before."""
    home = Home(Path(_scratch().name))
    home.register(ROOT)
    env = home.cm("run", "script", f"--tags={TAGS}", "--out=json").ok().json["new_env"]
    launcher = Path(env["CM_TRITON_SERVER_BIN_WITH_PATH"])
    python, version = env["CM_TRITON_SERVER_PYTHON"], env["CM_TRITON_SERVER_VERSION"]
    return Installed(home, launcher, python, version)
