"""Fixtures for every test: a CM home of its own with this checkout registered."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from support import ROOT, Finished, Home

# A test run that a shell started in the background inherits "ignore Ctrl-C", and so would every
# process that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine any example can take long.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A new, empty home in which this checkout is the only registered repository."""
    home = Home(tmp_path)
    home.register(ROOT)
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
