"""Files that no test changes, made once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from lab import Lab
from support import ROOT

VARIABLE = "PYTEST_SHARED_FILES"
"""Names the folder that ``conftest.py`` makes before processes of ``pytest -n`` start."""


@cache
def _alone() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for a process that pytest has not started; it goes with the process."""
    return tempfile.TemporaryDirectory(prefix="cmbench-shared-")


def make_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder ``name``, in which ``make`` has written once; other processes wait."""
    root = Path(os.environ.get(VARIABLE) or _alone().name)
    folder, done = root / name, root / f"{name}.done"
    with open(root / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def seed_index(home: Path) -> None:
    """Let the CM home ``home`` know the scripts of this checkout, as after a plan of a benchmark.

    To read them and the libraries that they use takes two seconds, most of what such a plan takes.
    """
    (home / "cmbench").mkdir(parents=True, exist_ok=True)
    shutil.copy(make_once("index", _plan) / "home/cmbench/index.db", home / "cmbench")


def _plan(folder: Path) -> None:
    lab = Lab(folder)
    lab.repo = ROOT
    for backend in ("onnxruntime", "triton"):
        lab.plan("run-mlperf,inference,_tiny,_submission", backend=backend)
