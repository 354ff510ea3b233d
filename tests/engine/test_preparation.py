"""All that a run fetches in one folder, and the run on a machine without a network."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib.local_sources import adopt, require_sources, write_listing
from cmbench.lib.wheels import WheelTarget
from lab import Lab
from support import ROOT, served

DATA = b"weights" * 1000


def wheel(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as packed:
        for path, text in files.items():
            packed.writestr(path, text)
        packed.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in files))


def world(lab: Lab, url: str) -> None:
    """A script that needs a file of the network and a package."""
    for name in ("download-file", "get-generic-python-lib", "get-python3", "detect-os"):
        shutil.copytree(ROOT / "script" / name, lab.repo / "script" / name)
    env = {"CM_DOWNLOAD_URL": url, "CM_DOWNLOAD_CHECKSUM": hashlib.sha256(DATA).hexdigest()}
    lab.script(
        "measure-it",
        deps=[
            {"tags": "download,file", "env": env},
            {"tags": "get,generic-python-lib,_package.demo_far", "version_min": "1.0"},
        ],
    )


@pytest.fixture
def offline_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of packages that is a folder; pip knows nothing else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    wheel(tmp_path / "index", "demo_far")
    return tmp_path / "index"


def prepare(lab: Lab, tags: str, folder: Path, **flags: Any) -> dict[str, Any]:
    answer = lab.call("prepare", tags=tags, output=str(folder), **flags).answer
    assert answer["return"] == 0, answer
    return answer


def test_a_prepared_folder_is_enough_without_a_network(
    lab: Lab, tmp_path: Path, offline_pip: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/weights.bin").write_bytes(DATA)
    with served(tmp_path / "site") as address:
        world(lab, f"{address}/weights.bin")
        answer = prepare(lab, "measure,it", tmp_path / "with blank")
    assert answer["wheels"] == ["demo_far-1.0-py3-none-any.whl"]
    assert answer["files"] == [f"sha256-{hashlib.sha256(DATA).hexdigest()}"]
    assert answer["missing"] == []
    listing = (tmp_path / "with blank/SHA256SUMS").read_text()
    assert [line.split()[1] for line in listing.splitlines()] == [
        "wheels/demo_far-1.0-py3-none-any.whl",
        f"files/{answer['files'][0]}",
    ]
    lab.script(
        "use-it",
        deps=[lab_dependency(lab)],
        run='echo "$PIP_FIND_LINKS" > "$OUT"; cat "$CM_WEIGHTS" >> "$OUT"',
    )
    lab.home = tmp_path / "another machine"
    out = tmp_path / "out"
    words = {"offline": True, "env": {"OUT": str(out)}}
    assert lab.run("use,it", **words).answer["code"] == "offline"
    result = lab.run("use,it", prepared=str(tmp_path / "with blank"), **words)
    assert result.answer["return"] == 0, result.err
    link, _, content = out.read_bytes().partition(b"\n")
    assert link.decode().split()[0] == f"file://{tmp_path}/with%20blank/wheels"
    assert content == DATA
    assert (tmp_path / "with blank/files" / answer["files"][0]).read_bytes() == DATA


def lab_dependency(lab: Lab) -> dict[str, Any]:
    """The download of ``measure-it``, which gives back where the file is."""
    meta = json.loads((lab.repo / "script/measure-it/meta.yaml").read_text())
    entry: dict[str, Any] = meta["deps"][0]
    entry["env"]["CM_DOWNLOAD_FINAL_ENV_NAME"] = "CM_WEIGHTS"
    return entry


def test_the_folder_of_wheels_reaches_every_step(lab: Lab, tmp_path: Path) -> None:
    show = 'echo "$PIP_FIND_LINKS" >> "$OUT"'
    lab.script("below", run=show)
    lab.script("top", deps=[{"tags": "below"}], run=show)
    env = {"OUT": str(tmp_path / "out")}
    assert lab.run("top", find_links=str(tmp_path), env=env).answer["return"] == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert [line.split()[0] for line in lines] == [f"file://{tmp_path}"] * 2


def test_a_missing_folder_is_an_error(lab: Lab, tmp_path: Path) -> None:
    lab.script("below", run="true")
    lab.script("top", deps=[{"tags": "below"}], run="true")
    failed = lab.run("top", prepared=str(tmp_path / "none"))
    assert failed.answer["code"] == "file-not-found"
    assert "--prepared" in failed.err
    planned = lab.plan("top", find_links=str(tmp_path / "none")).err
    assert planned.count("a run stops here") == 1
    assert "check the path given as --find_links" in planned
    assert lab.call("prepare", tags="top").answer["code"] == "bad-value"


def test_wheels_for_another_interpreter_and_platform(lab: Lab) -> None:
    options = WheelTarget.parse("cp312,linux_x86_64").options()
    assert options[:2] == ["--platform", "manylinux_2_34_x86_64"]
    assert options[-8:-2] == ["--abi", "cp312", "--abi", "abi3", "--abi", "none"]
    assert options[-2:] == ["--python-version", "312"]
    lab.script("top", run="true")
    answer = lab.call("prepare", tags="top", output="/tmp/x", **{"for": "py3"}).answer
    assert answer["code"] == "bad-value"
    with pytest.raises(Error, match="names no interpreter"):
        WheelTarget.parse("cp312,windows_amd64")


def test_wheels_are_for_a_python_that_the_run_takes(lab: Lab, tmp_path: Path) -> None:
    for name in ("get-python3", "detect-os"):
        shutil.copytree(ROOT / "script" / name, lab.repo / "script" / name)
    lab.script("measure-it", deps=[{"tags": "get,python3", "version_min": "3.10"}])
    target = {"output": str(tmp_path / "x"), "for": "cp39,linux_x86_64"}
    answer = lab.call("prepare", tags="measure,it", **target).answer
    assert answer["code"] == "bad-value"
    assert "is for Python 3.9, and this run needs at least 3.10" in answer["error"]
    assert prepare(lab, "measure,it", tmp_path / "x", **{"for": "cp310,linux_x86_64"})


def test_a_folder_that_was_not_made_so_is_refused(tmp_path: Path) -> None:
    def refused(prepared: str, package_files: str) -> Error:
        with pytest.raises(Error) as caught:
            require_sources(prepared, package_files)
        return caught.value

    wheel(tmp_path, "demo_far")
    wheels = str(tmp_path / "wheels")
    error = refused(prepared=str(tmp_path), package_files=wheels)
    assert error.message == f"--prepared={tmp_path} has neither wheels nor files"
    assert f"a folder of wheels alone is --find_links={tmp_path}" in error.hint
    wheel(tmp_path / "wheels", "demo_far")
    error = refused(prepared=str(tmp_path), package_files="/other")
    assert "both name wheels" in error.message
    require_sources(str(tmp_path), wheels)
    require_sources("", "https://example.com/wheels")


@pytest.mark.parametrize("damage", ["removed", "cut", "changed"])
def test_a_damaged_folder_is_refused(damage: str, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "demo_far")
    write_listing(str(tmp_path))
    adopt(str(tmp_path), str(tmp_path / "ahead"))
    path = tmp_path / "wheels/demo_far-1.0-py3-none-any.whl"
    data = path.read_bytes()
    path.unlink()
    if damage != "removed":
        path.write_bytes(data[:-9] if damage == "cut" else data + b"x")
    with pytest.raises(Error) as caught:
        adopt(str(tmp_path), str(tmp_path / "ahead"))
    assert caught.value.code == "checksum-mismatch"
    assert path.name in caught.value.context[0]
    assert "cm prepare script" in caught.value.hint
