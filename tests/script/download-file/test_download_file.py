"""download-file: where the file goes, what it is called, and what is handed on."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from steps import Step

DATA = b"weights" * 1000
MD5 = hashlib.md5(DATA).hexdigest()
SHA256 = hashlib.sha256(DATA).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Where a server offers ``model.onnx``."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/model.onnx").write_bytes(DATA)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "site"))
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/model.onnx"
    server.shutdown()
    thread.join()
    server.server_close()


def step(tmp_path: Path, **env: str) -> Step:
    found = Step("download-file", tmp_path / "cwd", dict(env))
    found.env["CM_PROGRESS_FILE"] = str(tmp_path / "progress.json")
    return found


def refusal(step: Step) -> Error:
    with pytest.raises(Error) as caught:
        step.call("preprocess")
    return caught.value


def test_a_file_arrives_in_the_current_directory(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = step(tmp_path, CM_DOWNLOAD_URL=url, CM_DOWNLOAD_FINAL_ENV_NAME="CM_ML_MODEL_FILE")
    one.call("preprocess")
    path = one.cwd / "model.onnx"
    assert path.read_bytes() == DATA
    keys = ("CM_DOWNLOAD_DOWNLOADED_PATH", "CM_GET_DEPENDENT_CACHED_PATH", "CM_ML_MODEL_FILE")
    assert [one.env[key] for key in keys] == [str(path)] * 3
    assert capsys.readouterr().out == f"model.onnx: 7.0 kB from {url}\n"
    shown = json.loads((tmp_path / "progress.json").read_text())
    assert shown == {"label": "model.onnx", "done": 7000, "total": 7000, "unit": "B"}


@pytest.mark.parametrize("checksum", [MD5, SHA256, f"sha256:{SHA256}"])
def test_checksums(tmp_path: Path, url: str, checksum: str, capsys: Any) -> None:
    one = step(tmp_path, CM_DOWNLOAD_URL=url, CM_DOWNLOAD_CHECKSUM=checksum)
    one.call("preprocess")
    one.call("preprocess")
    assert capsys.readouterr().out.endswith("model.onnx: 7.0 kB was here already\n")
    wrong = step(tmp_path, CM_DOWNLOAD_URL=url, CM_DOWNLOAD_CHECKSUM="0" * len(MD5))
    assert refusal(wrong).code == "checksum-mismatch"


def test_where_it_goes_and_its_name(tmp_path: Path, url: str) -> None:
    places: dict[str, dict[str, str]] = {
        "to/model.onnx": {"CM_DOWNLOAD_PATH": str(tmp_path / "to")},
        "cwd/a.bin": {"CM_DOWNLOAD_FILENAME": "a.bin"},
        "cwd/b.bin": {"CM_DOWNLOAD_FILENAME": "a.bin", "CM_DOWNLOAD_RENAME_FILE": "b.bin"},
    }
    for place, env in places.items():
        one = step(tmp_path, CM_DOWNLOAD_URL=url + "?token=secret", **env)
        one.call("preprocess")
        assert one.env["CM_DOWNLOAD_DOWNLOADED_PATH"] == str(tmp_path / place)
        assert (tmp_path / place).read_bytes() == DATA


def test_further_addresses(tmp_path: Path, url: str, capsys: Any) -> None:
    missing = url.replace("model", "missing")
    env = {"CM_DOWNLOAD_URL": missing, "CM_DOWNLOAD_URL1": missing, "CM_DOWNLOAD_URL3": url}
    one = step(tmp_path, **env)
    one.call("preprocess")
    assert (one.cwd / "missing.onnx").read_bytes() == DATA, "the first address names the file"
    assert f"from {url}" in capsys.readouterr().out


def test_a_mirror_with_another_file_has_its_own_checksum(tmp_path: Path, url: str) -> None:
    (tmp_path / "site/packed-anew.onnx").write_bytes(DATA * 2)
    env = {
        "CM_DOWNLOAD_URL": url,
        "CM_DOWNLOAD_CHECKSUM": "0" * 32,
        "CM_DOWNLOAD_URL1": url.replace("model", "packed-anew"),
        "CM_DOWNLOAD_CHECKSUM1": hashlib.md5(DATA * 2).hexdigest(),
    }
    one = step(tmp_path, **env)
    one.call("preprocess")
    assert (one.cwd / "model.onnx").read_bytes() == DATA * 2
    # A mirror without a checksum of its own must have the file that was asked for.
    wrong = step(tmp_path / "other", **{**env, "CM_DOWNLOAD_CHECKSUM1": ""})
    assert refusal(wrong).code == "checksum-mismatch"
    assert not list(wrong.cwd.glob("model.onnx*"))
    # Two files, two reasons: both are told.
    both = step(tmp_path / "third", **{**env, "CM_DOWNLOAD_CHECKSUM1": "1" * 32})
    told = "\n".join(refusal(both).context)
    assert "0" * 32 in told
    assert "1" * 32 in told


def test_a_file_that_is_here_already(tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(DATA)
    one = step(tmp_path, CM_DOWNLOAD_LOCAL_FILE_PATH=str(path), CM_DOWNLOAD_CHECKSUM=MD5)
    one.call("preprocess")
    assert one.env["CM_DOWNLOAD_DOWNLOADED_PATH"] == str(path)
    assert list(one.cwd.iterdir()) == []
    path.write_bytes(b"other")
    refused = refusal(one)
    assert (refused.code, "--local_path" in refused.hint) == ("checksum-mismatch", True)
    assert path.read_bytes() == b"other", "a user's file is never removed"
    missing = step(tmp_path, CM_DOWNLOAD_LOCAL_FILE_PATH="/nowhere/x")
    assert refusal(missing).message == "there is no /nowhere/x"
    folder = step(tmp_path, CM_DOWNLOAD_LOCAL_FILE_PATH=str(tmp_path))
    folder.call("preprocess")
    assert folder.env["CM_DOWNLOAD_DOWNLOADED_PATH"] == str(tmp_path)


def test_what_cannot_be(tmp_path: Path, url: str) -> None:
    assert refusal(step(tmp_path)).hint == "give one with --url=..."
    assert (
        "not a size" in refusal(step(tmp_path, CM_DOWNLOAD_URL=url, CM_DOWNLOAD_SIZE="7k")).message
    )
    assert (
        refusal(step(tmp_path, CM_DOWNLOAD_URL=url, CM_DOWNLOAD_SIZE="7")).code == "size-mismatch"
    )
    broken = refusal(step(tmp_path, CM_DOWNLOAD_URL="http://[::1/x"))
    assert (broken.code, "is not a valid URL" in broken.message) == ("bad-value", True)
    offline = step(tmp_path, CM_DOWNLOAD_URL=url, CM_TMP_OFFLINE="yes")
    assert refusal(offline).code == "offline"


# ---------------------------------------------------------------- through the engine


def run(home: Any, *words: str, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = home.cm("run", "script", *words, "--out=json", **options).json
    return result


def test_into_the_current_directory(home: Any, tmp_path: Path, url: str) -> None:
    (tmp_path / "here").mkdir()
    here = {"cwd": tmp_path / "here"}
    done = run(home, "download file", f"--url={url}", f"--md5sum={MD5}", **here)
    assert done["new_env"]["CM_DOWNLOAD_DOWNLOADED_PATH"] == str(tmp_path / "here/model.onnx")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["model.onnx"]
    tags = f"--tags=download,file,_wget,_url.{url}"
    assert run(home, tags, f"--store={tmp_path}/there", **here)["return"] == 0
    assert (tmp_path / "there/model.onnx").read_bytes() == DATA


def test_into_the_cache(home: Any, tmp_path: Path, url: str) -> None:
    words = (
        *("--tags=download,file", f"--url={url}", f"--sha256={SHA256}", "--force_cache"),
        *("--env.CM_DOWNLOAD_FINAL_ENV_NAME=CM_MODEL", "--extra_cache_tags=model"),
    )
    done = run(home, *words)
    path = Path(done["new_env"]["CM_MODEL"])
    assert path.is_relative_to(home.cm_repos)
    assert path.read_bytes() == DATA
    assert run(home, *words)["cached"]
    assert run(home, *words, "--offline")["cached"]
    path.write_bytes(b"damaged")
    again = run(home, *words)
    assert not again["cached"]
    assert Path(again["new_env"]["CM_MODEL"]).read_bytes() == DATA


def test_a_failure_is_explained(home: Any, url: str) -> None:
    done = home.cm("run", "script", "download file", f"--url={url}.gone?key=s3cret")
    assert done.status == 1
    assert "the server answered 404" in done.stderr
    assert "s3cret" not in done.stderr + done.stdout
    assert home.cm("run", "script", "download file", "--offline", f"--url={url}").status == 1
