"""get-mlperf-inference-loadgen: the LoadGen of the round, proved by its seed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.errors import Error
from common.python_path import VARIABLE
from steps import SCRIPTS, Step, fake_python, tool
from support import ROOT, Home, python_env

META = yaml.safe_load((SCRIPTS / "get-mlperf-inference-loadgen/meta.yaml").read_text())
ROUNDS = {name: block for name, block in META["variations"].items() if name.startswith("r")}
HOST = {"CM_HOST_OS_TYPE": "linux", "CM_HOST_OS_MACHINE": "x86_64"}


def step(tmp_path: Path, round_: str = "r6.1", **env: str) -> Step:
    known = {"CM_PYTHON_BIN_WITH_PATH": sys.executable, **HOST, **ROUNDS[round_]["env"]}
    return Step("get-mlperf-inference-loadgen", tmp_path / "entry", {**known, **env})


def refusal(step: Step, hook: str) -> Error:
    with pytest.raises(Error) as caught:
        step.call(hook)
    return caught.value


def installed_round() -> str:
    """The variation whose LoadGen these tests run with."""
    version = metadata.version("mlcommons-loadgen")
    found = [n for n, b in ROUNDS.items() if b["ad"]["loadgen-package"]["version"] == version]
    if not found:
        pytest.skip(f"LoadGen {version} is of no round in the table")
    return found[0]


def test_the_table_is_complete() -> None:
    assert [name for name, block in ROUNDS.items() if block.get("default")] == ["r6.1"]
    seeds = [block["env"]["CM_MLPERF_INFERENCE_LOADGEN_QSL_SEED"] for block in ROUNDS.values()]
    versions = [block["ad"]["loadgen-package"]["version"] for block in ROUNDS.values()]
    assert len(set(seeds)) == len(set(versions)) == len(ROUNDS) == 5
    assert all(isinstance(text, str) for text in seeds + versions)


def test_the_real_one_is_proved(tmp_path: Path) -> None:
    one = step(tmp_path, installed_round())
    one.call("preprocess")
    answer = one.call("postprocess")
    assert answer["version"] == metadata.version("mlcommons-loadgen")
    assert one.env["CM_MLPERF_INFERENCE_LOADGEN_VERSION"] == answer["version"]
    path = Path(one.env["CM_MLPERF_INFERENCE_LOADGEN_PATH"])
    assert path.name.startswith("mlperf_loadgen")
    assert one.env[f"+{VARIABLE}"] == [str(path.parent)]


def test_another_round_in_the_same_python_changes_nothing(tmp_path: Path) -> None:
    """What was proven is what runs, whatever the environment holds later."""
    one = step(tmp_path, installed_round())
    one.call("preprocess")
    one.call("postprocess")
    (folder,) = one.env[f"+{VARIABLE}"]
    code = (
        "import importlib.metadata, mlperf_loadgen;"
        "print(mlperf_loadgen.__file__); print(importlib.metadata.version('mlcommons-loadgen'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=python_env(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    path, version = done.stdout.split()
    assert Path(path).parent == Path(folder)
    assert version == one.env["CM_MLPERF_INFERENCE_LOADGEN_VERSION"]


def test_the_seed_of_another_round_is_refused(tmp_path: Path) -> None:
    other = next(name for name in ROUNDS if name != installed_round())
    error = refusal(step(tmp_path, other), "postprocess")
    assert error.code == "loadgen-wrong-round"
    assert error.context[0].endswith(ROUNDS[other]["env"]["CM_MLPERF_INFERENCE_LOADGEN_QSL_SEED"])


def told_python(path: Path, answer: str) -> Path:
    """A Python with the package LoadGen, whose check answers as told."""
    there = {
        "name": "mlcommons-loadgen",
        "version": "6.0.17",
        "folder": "",
        "modules": [],
        "requires": [],
    }
    return tool(path, f"if [ \"$1\" = -B ]; then echo '{json.dumps(there)}'; else {answer}; fi\n")


@pytest.mark.parametrize(
    ("told", "code", "words"),
    [
        ({"missing": ["TestMode"]}, "loadgen-unsuitable", "it lacks TestMode"),
        ({"status": -2}, "loadgen-unsuitable", "configuration cannot be read (status -2)"),
        ({"qsl_seed": "0"}, "loadgen-wrong-round", "seed found:   0"),
    ],
)
def test_what_is_not_loadgen(tmp_path: Path, told: dict[str, Any], code: str, words: str) -> None:
    whole = {"path": "/x/mlperf_loadgen.so", "missing": [], "status": 0, "qsl_seed": "1", **told}
    python = told_python(tmp_path / "python3", f"echo '{json.dumps(whole)}'")
    error = refusal(step(tmp_path, CM_PYTHON_BIN_WITH_PATH=str(python)), "postprocess")
    assert error.code == code
    assert words in error.context[-1]


def test_a_loadgen_that_does_not_load(tmp_path: Path) -> None:
    python = told_python(tmp_path / "python3", "echo 'ImportError: GLIBCXX not found' >&2; exit 1")
    error = refusal(step(tmp_path, CM_PYTHON_BIN_WITH_PATH=str(python)), "postprocess")
    assert error.code == "import-failed"
    assert error.context == ("ImportError: GLIBCXX not found",)
    none = fake_python(tmp_path / "none/python3", "3.11.7")
    error = refusal(step(tmp_path, CM_PYTHON_BIN_WITH_PATH=str(none)), "postprocess")
    assert error.code == "install-failed"


def test_where_it_must_be_compiled_a_compiler_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    header = tmp_path / "Python.h"
    answer = f'case "$2" in *sysconfig*) echo {header};; *) echo null;; esac'
    python = tool(tmp_path / "python3", answer)
    arm = {
        "CM_PYTHON_BIN_WITH_PATH": str(python),
        "CM_HOST_OS_MACHINE": "aarch64",
        "CM_HOST_OS_PACKAGE_MANAGER": "apt",
    }
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    error = refusal(step(tmp_path, **arm), "preprocess")
    assert error.code == "tool-missing"
    assert error.hint == "sudo apt-get update && sudo apt-get install -y g++ python3-dev"
    assert "no ready-made one for linux aarch64" in capsys.readouterr().out
    assert "no C++ compiler and the headers of this Python are missing" in error.message
    tool(tmp_path / "bin/g++", "")
    error = refusal(step(tmp_path, **arm), "preprocess")
    assert error.message.endswith("on this machine, and the headers of this Python are missing")
    header.touch()
    step(tmp_path, **arm).call("preprocess")
    # One that is there already needs no compiler.
    (tmp_path / "bin/g++").unlink()
    there = told_python(tmp_path / "there/python3", "true")
    step(tmp_path, **{**arm, "CM_PYTHON_BIN_WITH_PATH": str(there)}).call("preprocess")


def test_a_version_is_no_round(tmp_path: Path) -> None:
    error = refusal(step(tmp_path, CM_VERSION="5.1"), "preprocess")
    assert "--adr.loadgen-package.version=5.1" in error.hint


def test_the_check_needs_nothing_of_ours(tmp_path: Path) -> None:
    program = SCRIPTS / "get-mlperf-inference-loadgen/src/check_loadgen.py"
    done = subprocess.run(
        [sys.executable, "-I", str(program), "TestMode", "Nothing"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    told = json.loads(done.stdout)
    assert told["missing"] == ["Nothing"]
    assert list(tmp_path.iterdir()) == []


def test_through_the_engine(home: Any) -> None:
    words = (
        f"--tags=get,mlperf,inference,loadgen,_{installed_round()}",
        f"--adr.python.path={sys.executable}",
        "--offline",
        "--out=json",
    )
    first = home.cm("run", "script", *words).json
    assert first["return"] == 0, first
    assert first["version"] == metadata.version("mlcommons-loadgen")
    assert first["new_env"]["CM_MLPERF_INFERENCE_LOADGEN_ROUND"].startswith("v")
    assert home.cm("run", "script", *words).json["cached"]


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with one Python, into which each round is installed in the place of another."""
    made = Home(tmp_path_factory.mktemp("rounds"))
    made.register(ROOT)
    made.cm("run", "script", "install python-venv", "--name=lab").ok()
    yield made
    shutil.rmtree(made.path)


@pytest.mark.slow
@pytest.mark.needs_index
@pytest.mark.parametrize("round_", ROUNDS)
def test_every_round_from_the_index(lab_home: Home, round_: str) -> None:
    done = lab_home.cm(
        "run", "script", f"--tags=get,loadgen,_{round_}", "--adr.python.name=lab", "--out=json"
    ).json
    assert done["return"] == 0, done
    assert done["version"] == ROUNDS[round_]["ad"]["loadgen-package"]["version"]
