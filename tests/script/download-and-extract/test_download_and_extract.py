"""download-and-extract: two dependencies in one place, and the path of what came of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from steps import Step
from support import run as start


def run(home: Any, *words: str, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = home.cm("run", "script", *words, "--out=json", **options).json
    return result


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "src/top").mkdir(parents=True)
    (tmp_path / "src/top/a").write_bytes(b"one")
    path = tmp_path / "data.tar.gz"
    start(["tar", "-czf", str(path), "-C", str(tmp_path / "src"), "top"]).ok()
    return path


def test_without_an_address(tmp_path: Path) -> None:
    step = Step("download-and-extract", tmp_path / "cwd", {})
    with pytest.raises(Error, match="no URL"):
        step.call("preprocess")


def test_what_an_earlier_step_unpacked_is_not_taken_for_ours(tmp_path: Path) -> None:
    env = {
        "CM_DOWNLOAD_URL": "https://host/f",
        "CM_EXTRACT_EXTRACTED_PATH": "/of/another/step",
        "CM_DAE_FINAL_ENV_NAME": "CM_FILE",
    }
    step = Step("download-and-extract", tmp_path / "cwd", env)
    step.call("preprocess")
    assert step.env["CM_DAE_URL"] == "https://host/f"
    assert step.env["CM_DOWNLOAD_PATH"] == step.env["CM_EXTRACT_PATH"] == str(step.cwd)
    step.env["CM_DOWNLOAD_DOWNLOADED_PATH"] = str(step.cwd / "f")
    step.call("postprocess")
    assert step.env["CM_FILE"] == str(step.cwd / "f")


def test_into_the_current_directory(home: Any, tmp_path: Path, data: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    md5 = hashlib.md5(data.read_bytes()).hexdigest()
    words = (f"--tags=dae,file,_wget,_keep,_extract,_url.file://{data}", f"--md5sum={md5}")
    done = run(home, *words, "--env.CM_DAE_FINAL_ENV_NAME=CM_DATA", cwd=here)
    assert done["return"] == 0, done
    assert done["new_env"]["CM_DOWNLOAD_DOWNLOADED_PATH"] == str(here / "data.tar.gz")
    assert done["new_env"]["CM_EXTRACT_EXTRACTED_PATH"] == str(here)
    assert done["new_env"]["CM_DATA"] == str(here)
    assert (here / "top/a").read_bytes() == b"one"
    wrong = run(home, *words[:1], f"--md5sum={md5[::-1]}", cwd=here)
    assert wrong["code"] == "checksum-mismatch"
    assert (here / "data.tar.gz").exists()


def test_only_downloaded(home: Any, tmp_path: Path, data: Path) -> None:
    words = ("dae file", f"--url={data}", f"--store={tmp_path}/to")
    done = run(home, *words, "--env.CM_DAE_FINAL_ENV_NAME=CM_DATA")
    assert done["new_env"]["CM_DATA"] == str(tmp_path / "to/data.tar.gz")
    assert "CM_EXTRACT_EXTRACTED_PATH" not in done["new_env"]


def test_into_the_cache(home: Any, tmp_path: Path, data: Path) -> None:
    words = ("dae file _extract", f"--url=file://{data}", "--force_cache", "--strip_folder")
    done = run(home, *words)
    assert done["return"] == 0, done
    path = Path(done["new_env"]["CM_EXTRACT_EXTRACTED_PATH"])
    assert path.is_relative_to(home.cm_repos)
    assert (path / "a").read_bytes() == b"one"
    assert run(home, *words)["cached"]
    assert not (tmp_path / "data.tar").exists()


def test_a_file_that_is_here_already(home: Any, tmp_path: Path, data: Path) -> None:
    words = ("dae file _extract", f"--local_path={data}", f"--to={tmp_path}/to")
    done = run(home, *words, "--extra_folder=extra")
    assert done["return"] == 0, done
    assert done["new_env"]["CM_EXTRACT_EXTRACTED_PATH"] == str(tmp_path / "to/extra")
    assert (tmp_path / "to/extra/top/a").read_bytes() == b"one"
    assert data.exists()
