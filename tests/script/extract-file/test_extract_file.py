"""extract-file: what is unpacked where, what is handed on, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from steps import Step


def archive(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return archive(tmp_path / "data.tar.gz", top__a=b"one", top__b=b"two")


def step(tmp_path: Path, archive: Path | str, **env: str) -> Step:
    return Step("extract-file", tmp_path / "cwd", {"CM_EXTRACT_FILEPATH": str(archive), **env})


def refusal(step: Step) -> Error:
    with pytest.raises(Error) as caught:
        step.call("preprocess")
    return caught.value


def test_into_the_current_directory(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = step(tmp_path, data, CM_EXTRACT_FINAL_ENV_NAME="CM_DATA")
    one.call("preprocess")
    assert (one.cwd / "top/a").read_bytes() == b"one"
    keys = ("CM_EXTRACT_EXTRACTED_PATH", "CM_GET_DEPENDENT_CACHED_PATH", "CM_DATA")
    assert [one.env[key] for key in keys] == [str(one.cwd)] * 3
    assert capsys.readouterr().out == f"data.tar.gz: 2 files, 6 B, in {one.cwd}\n"
    assert data.exists(), "an archive is not removed unless that was asked for"


def test_places(tmp_path: Path, data: Path) -> None:
    to = str(tmp_path / "to")
    places: dict[str, dict[str, str]] = {
        "to": {"CM_EXTRACT_PATH": to},
        "to/extra": {"CM_EXTRACT_PATH": to, "CM_EXTRACT_TO_FOLDER": "extra"},
        "cwd/extra": {"CM_EXTRACT_TO_FOLDER": "extra"},
        "cwd/top": {"CM_EXTRACT_EXTRACTED_FILENAME": "top"},
        "cwd/top/a": {"CM_EXTRACT_EXTRACTED_FILENAME": "top/a"},
    }
    for place, env in places.items():
        one = step(tmp_path, data, **env)
        one.call("preprocess")
        assert one.env["CM_EXTRACT_EXTRACTED_PATH"] == str(tmp_path / place)
        assert (tmp_path / place).exists()
    stripped = step(tmp_path, data, CM_EXTRACT_TO_FOLDER="flat", CM_EXTRACT_STRIP_FOLDER="yes")
    stripped.call("preprocess")
    assert (stripped.cwd / "flat/a").read_bytes() == b"one"


def test_a_single_file(tmp_path: Path) -> None:
    packed = tmp_path / "captions.json.gz"
    packed.write_bytes(gzip.compress(b"{}"))
    one = step(tmp_path, packed)
    one.call("preprocess")
    assert one.env["CM_EXTRACT_EXTRACTED_PATH"] == str(one.cwd / "captions.json")
    named = step(tmp_path, packed, CM_EXTRACT_EXTRACTED_FILENAME="new.json")
    named.call("preprocess")
    assert (named.cwd / "new.json").read_bytes() == b"{}"
    assert named.env["CM_EXTRACT_EXTRACTED_PATH"] == str(named.cwd / "new.json")
    alone = step(tmp_path, archive(tmp_path / "alone.tar.gz", alone=b"a file"))
    alone.call("preprocess")
    assert alone.env["CM_EXTRACT_EXTRACTED_PATH"] == str(alone.cwd), "a folder, if of one file"


def test_the_archive_goes_when_asked_to(tmp_path: Path, data: Path) -> None:
    step(tmp_path, data, CM_EXTRACT_REMOVE_EXTRACTED="yes").call("preprocess")
    assert not data.exists()


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_checksums_of_what_was_unpacked(tmp_path: Path, data: Path, algorithm: str) -> None:
    right = hashlib.new(algorithm, b"one").hexdigest()
    named = {"CM_EXTRACT_EXTRACTED_FILENAME": "top/a"}
    step(tmp_path, data, CM_EXTRACT_EXTRACTED_CHECKSUM=right, **named).call("preprocess")
    wrong = step(tmp_path, data, CM_EXTRACT_EXTRACTED_CHECKSUM=right[::-1], **named)
    error = refusal(wrong)
    assert error.code == "checksum-mismatch"
    assert error.context == (
        f"expected {algorithm}:{right[::-1]}",
        f"got      {algorithm}:{right}",
    )
    assert refusal(step(tmp_path, data, CM_EXTRACT_EXTRACTED_CHECKSUM=right)).code == error.code


def test_a_list_of_checksums(tmp_path: Path) -> None:
    listing = f"{hashlib.md5(b'one').hexdigest()}  a\n".encode()
    good = archive(tmp_path / "good.tar.gz", a=b"one", sums=listing)
    bad = archive(tmp_path / "bad.tar.gz", a=b"two", sums=listing)
    env = {"CM_EXTRACT_EXTRACTED_CHECKSUM_FILE": "sums"}
    step(tmp_path, good, **env).call("preprocess")
    assert refusal(step(tmp_path, bad, **env)).code == "checksum-mismatch"


def test_what_cannot_be(tmp_path: Path, data: Path) -> None:
    assert refusal(step(tmp_path, "")).hint == "name it with --input=/path/archive"
    assert refusal(step(tmp_path, "/nowhere.zip")).message == "there is no archive /nowhere.zip"
    missing = refusal(step(tmp_path, data, CM_EXTRACT_EXTRACTED_FILENAME="model"))
    assert missing.context == ("it has: top",)
    evil = archive(tmp_path / "evil.tar.gz", **{"../evil": b"x"})
    assert refusal(step(tmp_path, evil)).code == "archive-unsafe"
    assert not (tmp_path / "evil").exists()


def run(home: Any, *words: str, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = home.cm("run", "script", *words, "--out=json", **options).json
    return result


def test_through_the_engine(home: Any, tmp_path: Path, data: Path) -> None:
    (tmp_path / "here").mkdir()
    done = run(home, "extract file", "--input=../data.tar.gz", cwd=tmp_path / "here")
    assert done["new_env"]["CM_EXTRACT_EXTRACTED_PATH"] == str(tmp_path / "here")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["top"]
    words = (f"--tags=extract,file,_keep,_path.{data}", "--force_cache")
    cached = run(home, *words)
    path = Path(cached["new_env"]["CM_EXTRACT_EXTRACTED_PATH"])
    assert path.is_relative_to(home.cm_repos)
    assert (path / "top/b").read_bytes() == b"two"
    assert run(home, *words)["cached"]
