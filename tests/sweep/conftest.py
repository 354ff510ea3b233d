"""A CM home with a few scripts that take no time, and the real ``cm`` in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab import Lab
from support import ROOT, Finished, Home

MEASURE = """
import json, os, time
def preprocess(i):
    env = i["env"]
    with open(os.environ["SWEEP_COUNT"], "a") as stream:
        stream.write(env["CM_SIZE"] + "," + env["CM_THREADS"] + "\\n")
    time.sleep(float(env.get("CM_SLEEP", 0)))
    if env["CM_SIZE"] == env.get("CM_BAD"):
        return {"return": 1, "error": "size " + env["CM_SIZE"] + " does not fit"}
    if env["CM_SIZE"] == env.get("CM_CRASH"):
        os.kill(os.getpid(), 9)
    env["CM_RATE"] = str(100 * int(env["CM_THREADS"]) - int(env["CM_SIZE"]))
    env["CM_DELAY"] = str(float(env["CM_SIZE"]) / 10)
    return {"return": 0}
"""
MODEL = """
import os
def preprocess(i):
    with open(os.environ["SWEEP_COUNT"], "a") as stream:
        stream.write("prepared\\n")
    i["env"]["CM_MODEL"] = "made"
    return {"return": 0}
"""
INPUTS = ("size", "threads", "sleep", "bad", "crash")
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
    lab = Lab(tmp_path)
    lab.script("get-model", cache=True, customize=MODEL, new_env_keys=["CM_MODEL"])
    lab.script(
        "measure-nothing",
        customize=MEASURE,
        deps=[{"tags": "get,model"}],
        new_env_keys=["CM_RATE", "CM_DELAY"],
        input_mapping={name: f"CM_{name.upper()}" for name in INPUTS},
        input_description={name: {"desc": name} for name in INPUTS},
    )
    lab.script("run-nothing", deps=[{"tags": "measure,nothing"}], new_env_keys=["CM_*"])
    (lab.repo / "cmr.yaml").write_text("alias: world\nuid: 1111111111111a11\n", encoding="utf-8")
    (tmp_path / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    return tmp_path


@pytest.fixture
def home(world: Path) -> Home:
    found = Home(world)
    found.register(ROOT, world / "repo")
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
