"""Checksums, the words for a full disk, progress files, and URLs that may be shown."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmbench.errors import Error
from cmbench.lib.files import (
    ProgressFile,
    file_checksum,
    file_error,
    parse_checksum,
    require_space,
    verify_listed,
)
from cmbench.lib.text_files import size_text
from cmbench.lib.urls import file_name, mask_url
from cmbench.lib.yes_no import is_no, is_yes


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256", "sha512"])
def test_a_checksum_is_known_by_its_length(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"cm" * 1000)
    value = hashlib.new(algorithm, b"cm" * 1000).hexdigest()
    for text in (value, f"{algorithm}:{value}", f" {algorithm.upper()}:{value.upper()} "):
        checksum = parse_checksum(text)
        assert str(checksum) == f"{algorithm}:{value}"
        assert file_checksum(path, checksum.algorithm) == checksum.value


@pytest.mark.parametrize("text", ["", "xyz", "md5:abc", "sha256:" + "0" * 32, "0" * 33, "crc:00"])
def test_what_is_no_checksum_is_refused(text: str) -> None:
    with pytest.raises(Error) as caught:
        parse_checksum(text)
    assert caught.value.code == "bad-value"
    assert f'"{text}" is not a checksum' in caught.value.message


def test_files_are_checked_against_a_list(tmp_path: Path) -> None:
    (tmp_path / "a b.bin").write_bytes(b"one")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/c").write_bytes(b"two")
    listing = tmp_path / "sums.md5"
    one, two = (hashlib.md5(data).hexdigest() for data in (b"one", b"two"))
    listing.write_text(f"# a comment\n{one}  a b.bin\n{two} *sub/c\n")
    assert verify_listed(tmp_path, listing) == 2
    (tmp_path / "sub/c").write_bytes(b"changed")
    (tmp_path / "a b.bin").unlink()
    with pytest.raises(Error) as caught:
        verify_listed(tmp_path, listing)
    assert caught.value.code == "checksum-mismatch"
    assert caught.value.message == "2 of 2 files listed in sums.md5 differ from the list"
    assert caught.value.context[0] == f"{tmp_path}/a b.bin: not there"
    assert f"expected md5:{two}, got" in caught.value.context[1]


def test_a_list_without_checksums_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("nothing here\n")
    with pytest.raises(Error, match="contains no checksums"):
        verify_listed(tmp_path, tmp_path / "list")
    with pytest.raises(Error, match="does not exist"):
        verify_listed(tmp_path, tmp_path / "other")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "no-space"),
        (errno.EDQUOT, "no-space"),
        (errno.EACCES, "not-writable"),
        (errno.EROFS, "not-writable"),
        (errno.ENOENT, "file-not-found"),
        (errno.EIO, "file-error"),
    ],
)
def test_an_error_of_the_system_gets_a_name(number: int, code: str, tmp_path: Path) -> None:
    error = file_error(OSError(number, "words of the system"), tmp_path / "new/file", 5_000_000)
    assert error.code == code
    assert str(tmp_path / "new/file") in error.message
    if code == "no-space":
        assert str(tmp_path) in error.hint
        assert "5.0 MB needed" in error.context[0]


def test_a_full_disk_is_noticed_before_it_is_full(tmp_path: Path) -> None:
    require_space(tmp_path / "not/there/yet", 1)
    with pytest.raises(Error) as caught:
        require_space(tmp_path / "not/there/yet", 10**18)
    assert caught.value.code == "no-space"
    assert "1000000.0 TB needed" in caught.value.context[0]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_500_000, "2.5 MB"), (7.2e12, "7.2 TB")],
)
def test_sizes_for_people(count: float, text: str) -> None:
    assert size_text(count) == text


def test_progress_is_written_whole_and_not_too_often(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    progress = ProgressFile(str(path), "model.onnx")
    progress(1, 100)
    first = json.loads(path.read_text())
    assert first == {"label": "model.onnx", "done": 1, "total": 100, "unit": "B"}
    progress(2, 100)
    assert json.loads(path.read_text())["done"] == 1
    progress(100, 100)
    assert json.loads(path.read_text())["done"] == 100
    assert [p.name for p in tmp_path.iterdir()] == ["progress.json"]


@pytest.mark.parametrize("path", [None, "", "/nowhere/at/all/progress"])
def test_progress_that_nobody_can_see_disturbs_nobody(path: str | None) -> None:
    ProgressFile(path, "x")(1, None)


@pytest.mark.parametrize(
    ("value", "yes", "no"),
    [
        *((value, True, False) for value in ("yes", "Yes ", "TRUE", "on", "1", 1, True)),
        *((value, False, True) for value in ("no", "False", "OFF", " 0", 0, False)),
        *((value, False, False) for value in ("", None, "y", "2", "none", "yes no")),
    ],
)
def test_a_value_says_yes_or_no_or_neither(value: object, yes: bool, no: bool) -> None:
    assert (is_yes(value), is_no(value)) == (yes, no)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pass@host/f", "https://***@host/f"),
        ("https://token@host:8080/f", "https://***@host:8080/f"),
        ("https://h/f?token=abc&dl=1", "https://h/f?token=***&dl=1"),
        ("https://h/f?rlkey=ab68i7uza&dl=0", "https://h/f?rlkey=***&dl=0"),
        ("https://h/f?X-Amz-Signature=0123", "https://h/f?X-Amz-Signature=***"),
        ("https://h/f?x=" + "a" * 40, "https://h/f?x=***"),
        ("https://h/a@b/f?list=2", "https://h/a@b/f?list=2"),
    ],
)
def test_secrets_in_urls_are_hidden(url: str, shown: str) -> None:
    assert mask_url(url) == shown
    assert mask_url(f"could not get {url} today") == f"could not get {shown} today"


SECRET = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8, max_size=40)


@given(SECRET, st.sampled_from(["https://u:{}@h/p", "http://{}@h/", "https://h/?api_key={}"]))
def test_no_secret_ever_shows(secret: str, form: str) -> None:
    assert f"q7{secret}7q" not in mask_url(form.format(f"q7{secret}7q"))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://h/a/model.onnx?download=1", "model.onnx"),
        ("https://h/a%20b.zip", "a b.zip"),
        ("https://h/", "index.html"),
        ("https://h", "index.html"),
        ("https://h/..", "index.html"),
        ("https://h/a%2fb", "b"),
        ("file:///tmp/x.tar.gz", "x.tar.gz"),
        ("http://[::1/x", "index.html"),
    ],
)
def test_the_file_name_of_a_url(url: str, name: str) -> None:
    assert file_name(url) == name
