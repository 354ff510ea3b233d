"""A CM home with a few scripts that take no time, and the real ``cm`` in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_lab import write_scripts

from shared_files import seed_index
from support import ROOT, Finished, Home

SWEEP = """\
request:
  tags: measure,nothing
  threads: 1
axes:
  size: [1, 2, 4]
  threads: [1, 2]
record: {rate: env.CM_RATE, delay: env.CM_DELAY}
objectives: {rate: max, delay: min}
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a script that measures nothing, and one that it needs."""
    monkeypatch.setenv("SWEEP_COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    write_scripts(tmp_path)
    (tmp_path / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    return tmp_path


@pytest.fixture
def home(world: Path) -> Home:
    found = Home(world)
    found.register(ROOT, world / "repo")
    seed_index(found.cm_repos)
    return found


@pytest.fixture
def cm(home: Home) -> Callable[..., Finished]:
    def run(*words: str) -> Finished:
        return home.cm(*words, cwd=home.path)

    return run


@pytest.fixture
def counted(world: Path) -> Callable[[], list[str]]:
    """What was run so far: ``size,threads`` of each run, ``prepared`` for the model."""
    path = world / "count"
    return lambda: path.read_text(encoding="utf-8").split() if path.exists() else []
