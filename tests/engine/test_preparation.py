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
