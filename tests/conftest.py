"""Fixtures for every test: a CM home of its own with this checkout registered."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import shared_files
from support import ROOT, Finished, Home

# A test run that a shell started in the background inherits "ignore Ctrl-C", and so would every
# process that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine any example can take long.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of shared files, in the process that starts the others."""
    if shared_files.VARIABLE not in os.environ:
        folder = tempfile.mkdtemp(prefix="cmbench-shared-")
        os.environ[shared_files.VARIABLE] = folder
        config.add_cleanup(lambda: os.environ.pop(shared_files.VARIABLE, None))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files with slow tests go first, so that no process has one while the others are idle."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """A command of ``cm`` that was called in this process leaves it without collections."""
    thresholds = gc.get_threshold()
    yield
    if gc.get_threshold() != thresholds:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A new home with an empty cache, whose only registered repository is this checkout."""
    home = Home(tmp_path)
    home.register(ROOT)
    shared_files.seed_index(home.cm_repos)
    return home


@pytest.fixture
def cm(home: Home) -> Callable[..., Finished]:
    """``cm("run", "script", "--tags=...")``: the real command, in the test's home."""
    return home.cm


@pytest.fixture
def cmind(home: Home, monkeypatch: pytest.MonkeyPatch) -> Any:
    """cmind's entry object in this process, in the test's home: ``cmind.access({...})``."""
    from cmind.core import CM

    for key in list(os.environ):
        if key.startswith("CM_"):
            monkeypatch.delenv(key)
    for key, value in home.environment().items():
        monkeypatch.setenv(key, value)
    return CM(repos_path=str(home.cm_repos))
