"""get-triton-server: the wheel's server in an environment of its own, and what is refused."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import triton_lab
from cmbench.errors import Error
from cmbench.lib.host.system import OsFacts, os_facts
from steps import Step, load, tool
from support import run

MODULE = load("get-triton-server")
LINUX = replace(os_facts(), kind="linux", machine="x86_64", glibc="2.36")


def step(tmp_path: Path, **env: str) -> Step:
    known = {"CM_PYTHON_BIN_WITH_PATH": sys.executable, "CM_PYTHON_VERSION": "3.11.7", **env}
    return Step("get-triton-server", tmp_path / "entry", known)


@pytest.mark.parametrize(
    "facts",
    [
        replace(LINUX, kind="darwin"),
        replace(LINUX, machine="ppc64le"),
        replace(LINUX, glibc="2.31"),
        replace(LINUX, glibc=""),
    ],
)
def test_a_machine_that_the_wheel_is_not_for_is_told_before_anything_is_installed(
    facts: OsFacts,
) -> None:
    MODULE.require_platform(LINUX)
    MODULE.require_platform(replace(LINUX, machine="aarch64", glibc="2.35"))
    with pytest.raises(Error, match="there is no Triton server to install") as caught:
        MODULE.require_platform(facts)
    assert "--path" in caught.value.hint


def test_a_python_without_a_library_of_its_own_is_told(tmp_path: Path) -> None:
    python = tool(tmp_path / "python3", f"echo {tmp_path}\n")
    with pytest.raises(Error, match=r"libpython3\.77\.so\.1\.0 is missing") as caught:
        MODULE.embeddable(str(python), "3.77.1")
    assert "--adr.triton-python.version" in caught.value.hint
    library = tmp_path / "libpython3.77.so.1.0"
    library.touch()
    assert MODULE.embeddable(str(python), "3.77.1") == library, "that of this Python comes first"


def test_a_python_that_there_is_no_stub_for_is_told(tmp_path: Path) -> None:
    for minor in ("3.9", "3.13"):
        (tmp_path / "python_backend_stubs" / minor).mkdir(parents=True)
    with pytest.raises(Error, match=r"in Python 3\.14; it can in 3\.9, 3\.13"):
        MODULE.put_stub(tmp_path, "3.14.0")


def test_a_new_numpy_is_told(tmp_path: Path) -> None:
    """The Python backend was built for another layout of numpy's arrays."""
    told = '{"name": "numpy", "version": "2.1.0", "folder": "/none", "modules": [], "requires": []}'
    python = tool(tmp_path / "python3", f"echo '{told}'\n")
    with pytest.raises(Error, match=r"has numpy 2\.1\.0; .* below 2"):
        MODULE.require_old_numpy(str(python))


def test_a_server_that_does_not_start_is_no_server(tmp_path: Path) -> None:
    launcher = tool(tmp_path / "tritonserver", "echo libdcgm.so.3: cannot open >&2; exit 127\n")
    stub = tool(tmp_path / "stub", "echo Expected 9 arguments >&2; exit 1\n")
    with pytest.raises(Error, match="does not start") as caught:
        MODULE.prove(launcher, stub, tmp_path)
    assert "libdcgm" in caught.value.context[0]
    works = tool(tmp_path / "works", "echo '| server_version | 2.51.0 |'; exit 1\n")
    broken = tool(tmp_path / "broken", "echo libpython3.12.so.1.0: cannot open >&2; exit 127\n")
    with pytest.raises(Error, match="does not start") as caught:
        MODULE.prove(works, broken, tmp_path)
    assert "libpython" in caught.value.context[0]
    assert MODULE.prove(works, stub, tmp_path) == "2.51.0"


def test_a_python_that_cannot_make_environments_is_told(tmp_path: Path) -> None:
    one = step(tmp_path, CM_TRITON_SERVER_FROM="wheel", CM_PYTHON_CAN_MAKE_VENV="no")
    with pytest.raises(Error) as caught:
        one.call("preprocess")
    assert caught.value.code in ("venv-missing", "tool-missing", "not-available")


TORCH = """
__version__ = "9.0"

import numpy


class ones:
    def __init__(self, count): pass
    def numpy(self): return numpy
"""


def packages(folder: Path, **modules: str) -> Path:
    """A folder of packages, each with a version and a module."""
    for name, text in modules.items():
        (folder / f"{name}-9.0.dist-info").mkdir(parents=True)
        (folder / f"{name}-9.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n"
        )
        (folder / f"{name}.py").write_text(text)
    return folder


def test_the_torch_of_another_environment_is_used_after_the_packages_of_its_own(
    tmp_path: Path,
) -> None:
    run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "own")]).ok()
    python = tmp_path / "own" / "bin" / "python3"
    site = next((tmp_path / "own" / "lib").glob("python3*/site-packages"))
    packages(site, numpy="def sum(): return 'old'\n")
    there = packages(tmp_path / "there", torch=TORCH, numpy="def sum(): return 'new'\n")
    env = {"CM_TRITON_SERVER_PYTHON": str(python), "CM_TRITON_SERVER_TORCH_FOLDER": str(there)}
    assert MODULE.share_torch(env) == [], "nobody asked for it"
    (record,) = MODULE.share_torch({**env, "CM_TRITON_SERVER_TORCH": "yes"})
    assert Path(record).parents[1] == there, "an entry is stale when that changes"
    assert run([str(python), "-I", "-c", MODULE.TORCH]).ok().stdout.split() == ["old", "9.0"]
    (there / "torch.py").write_text("raise ImportError('libcudnn.so.9: cannot open')\n")
    with pytest.raises(Error, match="cannot compute with the PyTorch of") as caught:
        MODULE.share_torch({**env, "CM_TRITON_SERVER_TORCH": "yes"})
    assert "libcudnn" in caught.value.context[-1]


@pytest.mark.slow
@pytest.mark.needs_index
def test_the_wheel_serves_and_the_guides_command_line_works(tmp_path: Path) -> None:
    found = triton_lab.installed()
    assert found.version == "2.51.0"
    bare = run([found.python, "-m", "pip", "list"]).ok().stdout
    assert "numpy" in bare
    assert "tritonclient" not in bare, "only what the server needs"
    home = replace(found.home, extra_env={"PATH": f"{found.launcher.parent}:{os.defpath}"})
    again = home.cm("run", "script", "--tags=get,triton-server", "--out=json").ok().json["new_env"]
    assert again["CM_TRITON_SERVER_KIND"] == "found"
    assert Path(again["CM_TRITON_SERVER_BIN_WITH_PATH"]) == found.launcher
    told = run(
        ["tritonserver", "--model-repository", str(tmp_path / "none")], env=home.environment()
    )
    assert "failed to stat file" in told.stdout + told.stderr
    assert "| 2.51.0 " in told.stdout + told.stderr
