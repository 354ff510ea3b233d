"""get-cuda and its installers with the engine around them: found, kept, installed, refused."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
import yaml

import cuda_lab
from lab import Lab
from steps import SCRIPTS, Step


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.of_checkout(tmp_path)


def run_file(folder: Path, name: str, version: str = "12.4.131", then: str = "") -> Path:
    """A file like NVIDIA's installer: it puts an nvcc where it is told to, and keeps its words."""
    path = folder / name
    text = f"""#!/bin/bash
for word in "$@"; do
  echo "$word" >> {folder}/words
  case "$word" in --toolkitpath=*) root="${{word#*=}}";; esac
done
{then}
mkdir -p "$root/bin" "$root/include"
touch "$root/include/cuda_runtime_api.h"
cat > "$root/bin/nvcc" <<END
#!/bin/sh
echo "Cuda compilation tools, release 12.4, V{version}"
END
chmod +x "$root/bin/nvcc"
"""
    path.write_text(text)
    return path


def test_what_was_found_is_kept_until_nvcc_changes(lab: Lab, tmp_path: Path) -> None:
    path = cuda_lab.nvcc(tmp_path / "cuda/bin/nvcc", "12.4.131", tmp_path / "cuda")
    flags = {"path": str(tmp_path / "cuda"), "quiet": True}
    first = lab.run("get,cuda", **flags)
    assert first.env["CUDA_HOME"] == str(tmp_path / "cuda")
    assert first.answer["version"] == "12.4"
    assert lab.run("get,cuda", **flags).status["get-cuda"] == "cached"
    shown = lab.call("show", "cache", tags="get,cuda")
    assert "get-cuda" in shown.out
    cuda_lab.nvcc(path, "12.8.93", tmp_path / "cuda")
    os.utime(path, (1_800_000_000, 1_800_000_000))
    assert lab.run("get,cuda", **flags).env["CM_CUDA_VERSION"] == "12.8"


def test_a_folder_that_was_named_once_is_found_instead_of_a_download(
    lab: Lab, tmp_path: Path
) -> None:
    cuda_lab.nvcc(tmp_path / "cuda/bin/nvcc", "11.8.89", tmp_path / "cuda")
    lab.run("get,cuda", path=str(tmp_path / "cuda"), quiet=True)
    for flags in ({}, {"version_max": "11.9"}):
        again = lab.run("get,cuda", quiet=True, **flags)
        assert again.status["get-cuda"] == "cached"
        assert again.env["CUDA_HOME"] == str(tmp_path / "cuda")
    newer = lab.plan("get,cuda", version_min="12.0")
    assert "cached" not in newer.out


def test_a_run_file_of_the_user_is_installed_without_root(lab: Lab, tmp_path: Path) -> None:
    path = run_file(tmp_path, "my-cuda.run")
    adr = {"install-cuda-prebuilt": {"local_run_file_path": str(path)}}
    got = lab.run("get,cuda,_prebuilt", version="12.4", quiet=True, adr=adr)
    root = Path(got.env["CUDA_HOME"])
    assert root.is_relative_to(lab.home)
    assert got.env["CM_CUDA_VERSION"] == "12.4"
    words = (tmp_path / "words").read_text().split()
    assert words[:3] == ["--silent", "--override", "--toolkit"]
    assert f"--toolkitpath={root}" in words
    assert "--driver" not in words


def test_an_installer_that_fails_leaves_no_entry(lab: Lab, tmp_path: Path) -> None:
    path = run_file(tmp_path, "my-cuda.run", then="echo 'Failed to verify gcc version'; exit 1")
    flags = {"version": "12.4", "local_run_file_path": str(path), "quiet": True}
    refused = lab.run("install,cuda,prebuilt", **flags)
    assert refused.answer["code"] == "script-failed"
    assert "Failed to verify gcc version" in refused.err
    path = run_file(tmp_path, "my-cuda.run", then="exit 0")
    refused = lab.run("install,cuda,prebuilt", **flags)
    assert refused.answer["code"] == "install-failed"
    assert not list(lab.home.rglob("bin/nvcc"))


def prebuilt(tmp_path: Path, name: str = "", **env: str) -> Step:
    given = {"CM_HOST_OS_MACHINE": "x86_64", **env}
    if name:
        given["CUDA_RUN_FILE_LOCAL_PATH"] = str(tmp_path / name)
    step = Step("install-cuda-prebuilt", tmp_path / "entry", given)
    step.call("preprocess")
    return step


def test_the_table_gives_address_and_checksum(tmp_path: Path) -> None:
    table = yaml.safe_load((SCRIPTS / "install-cuda-prebuilt/run-files.yaml").read_text())
    for version, facts in table.items():
        step = prebuilt(tmp_path, CM_VERSION=version)
        file = f"cuda_{version}_{facts['driver']}_linux.run"
        assert step.env["CM_TMP_CUDA_URL"].endswith(f"/{version}/local_installers/{file}")
        assert step.env["CM_TMP_CUDA_SHA256"] == facts["x86_64"]
        assert all(len(facts[machine]) == 64 for machine in ("x86_64", "aarch64"))
    assert len({facts["x86_64"] for facts in table.values()}) == len(table)
    newest = prebuilt(tmp_path).env["CM_TMP_CUDA_URL"]
    assert next(iter(table)) in newest
    assert "11.8.0" in prebuilt(tmp_path, CM_VERSION="11.8").env["CM_TMP_CUDA_URL"]


@pytest.mark.parametrize(
    ("name", "env", "says"),
    [
        ("", {"CM_VERSION": "10.2"}, "the table has no run file of CUDA 10.2"),
        ("cuda_12.4.1_550.54.15_linux.run", {"CM_VERSION": "11.8"}, "12.4.1 is not 11.8"),
        ("cuda_12.4.1_550.54.15_linux_sbsa.run", {}, "is for Arm servers, but this is x86_64"),
        ("", {"CM_HOST_OS_MACHINE": "riscv64"}, "no run file for riscv64"),
    ],
)
def test_what_cannot_be_installed_is_said_first(
    name: str, env: dict[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=says):
        prebuilt(tmp_path, name, **env)


def test_a_file_under_nvidias_name_is_compared_with_its_checksum(lab: Lab, tmp_path: Path) -> None:
    path = run_file(tmp_path, "cuda_12.4.1_550.54.15_linux.run")
    refused = lab.run("install,cuda,prebuilt", local_run_file_path=str(path), quiet=True)
    assert refused.answer["code"] == "checksum-mismatch"
    assert hashlib.sha256(path.read_bytes()).hexdigest() in refused.err
    assert not (tmp_path / "words").exists(), "it was not started"


def step(tmp_path: Path, *variations: str, **env: str) -> Step:
    return Step("get-cuda", tmp_path / "entry", dict(env), variations)


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, "cuda-toolkit[nvcc,cudart]>=13.0"),
        ({"CM_VERSION": "13.0"}, "cuda-toolkit[nvcc,cudart]==13.0.*"),
        ({"CM_VERSION": "13.0.2"}, "cuda-toolkit[nvcc,cudart]==13.0.2"),
        ({"CM_VERSION_MIN": "13.2"}, "cuda-toolkit[nvcc,cudart]>=13.2"),
        (
            {"CM_VERSION_MIN": "11", "CM_VERSION_MAX": "13.4.3"},
            "cuda-toolkit[nvcc,cudart]>=13.0,<=13.4.3",
        ),
        (
            {"CM_CUDA_FULL_TOOLKIT_INSTALL": "no", "CM_VERSION": "12.4"},
            "cuda-toolkit[cudart]==12.4.*",
        ),
    ],
)
def test_the_wheels_that_bounds_mean(env: dict[str, str], wanted: str, tmp_path: Path) -> None:
    asked = step(tmp_path, CM_CUDA_PIP_INSTALL="yes", **env)
    asked.call("preprocess")
    assert asked.env["CM_TMP_CUDA_PIP"].splitlines()[-1] == wanted


def test_where_none_fits_an_old_one_comes_by_run_file_and_a_new_one_by_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for env, source in (({"CM_VERSION": "11.9"}, "prebuilt"), ({"CM_VERSION": "13.99"}, "pip")):
        asked = step(tmp_path, **env)
        asked.call("preprocess")
        assert asked.env["CM_TMP_CUDA_INSTALL"] == source
        assert (asked.env.get("CM_REQUIRE_INSTALL") == "yes") is (source == "prebuilt")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_the_real_nvcc_of_this_machine(lab: Lab) -> None:
    got = lab.run("get,cuda", quiet=True).env
    assert Path(got["CM_CUDA_PATH_INCLUDE"], "cuda_runtime_api.h").exists()
    assert list(Path(got["CM_CUDA_PATH_LIB"]).glob("libcudart*"))
    runtime = lab.run("get,cuda,_lib-only", quiet=True).env
    assert runtime["CM_CUDA_RT_WITH_PATH"]


@pytest.mark.slow
@pytest.mark.needs_index
def test_wheels_make_a_toolkit_that_compiles_and_says_what_is_missing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    got = lab.run("get,cuda,_pip", quiet=True).env
    assert Path(got["CUDA_HOME"]).is_relative_to(lab.home)
    assert float(got["CM_CUDA_VERSION"]) >= 13.0
    assert (Path(got["CM_CUDA_PATH_LIB"]) / "libcudart.so").exists()
    again = lab.run("get,cuda,_pip", quiet=True)
    assert again.status["get-cuda,_pip"] == "cached"
    told = lab.run("get,cuda-devices", quiet=True, adr={"cuda": {"tags": "_pip"}})
    if not list(Path("/dev").glob("nvidia*")):
        assert told.answer["code"] == "no-driver"
        assert "error 35" in told.err
