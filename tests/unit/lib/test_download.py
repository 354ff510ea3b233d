"""Downloads from a real server that truncates, stalls, lies, fails and knows ranges, or not."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib.download import DownloadResult, Policy, download
from support import HANG_S, wait_for

DATA = bytes(range(256)) * 4000
"""About a megabyte: more than any buffer on the way."""

MD5 = hashlib.md5(DATA).hexdigest()
SHA256 = hashlib.sha256(DATA).hexdigest()
# Where the server stops answering the client soon gives up; elsewhere it waits as long as a busy
# host needs, or it would repeat a request that was answered late.
FAST = Policy(attempts=4, backoff=0.01, longest_wait=0.05, connect_timeout=2, read_timeout=0.3)
PATIENT = replace(FAST, connect_timeout=HANG_S, read_timeout=HANG_S)
STALLS = {"silent", "stall"}


class Handler(BaseHTTPRequestHandler):
    """Serves ``server.data``; the next of ``server.faults`` says what goes wrong this time."""

    protocol_version = "HTTP/1.1"
    server: Site

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        fault = self.server.faults.pop(0) if self.server.faults else "none"
        self.close_connection = True
        getattr(self, "fault_" + fault)()

    def answer(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        fields = {"Content-Length": str(len(data)), "Connection": "close", **self.server.headers}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in fields.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)

    def part(self) -> tuple[int, dict[str, str]]:
        """Where to begin, as a server that knows ranges would."""
        wanted = self.headers.get("Range", "")
        validator = self.server.headers.get("ETag") or self.server.headers.get("Last-Modified")
        fresh = self.headers.get("If-Range") in (None, validator) or not self.server.heeds
        if not wanted or not self.server.ranges or not fresh:
            return 0, {}
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        end = len(self.server.data)
        return start, {"Content_Range": f"bytes {start}-{end - 1}/{end}"}

    def fault_none(self) -> None:
        start, headers = self.part()
        total = len(self.server.data)
        if headers and start >= total:
            self.answer(b"", 416, Content_Range=f"bytes */{total}")
        else:
            self.answer(self.server.data[start:], 206 if headers else 200, **headers)

    def fault_truncate(self) -> None:
        start, headers = self.part()
        rest = self.server.data[start:]
        half = rest[: len(rest) // 2]
        self.answer(half, 206 if headers else 200, Content_Length=str(len(rest)), **headers)

    def fault_stall(self) -> None:
        self.fault_truncate()
        self.server.release.wait(5)

    def fault_silent(self) -> None:
        self.server.release.wait(5)

    def fault_dribble(self) -> None:
        self.answer(b"", Content_Length=str(len(self.server.data)))
        with contextlib.suppress(OSError):
            while not self.server.release.wait(0.05):
                self.wfile.write(b"x")

    def fault_short(self) -> None:
        self.answer(self.server.data[:1000])

    def fault_wrong(self) -> None:
        self.answer(b"!" * len(self.server.data))

    def fault_error(self) -> None:
        self.answer(b"sorry", 503, Retry_After="0")

    def fault_broken(self) -> None:
        self.answer(b"sorry", 500)

    def fault_missing(self) -> None:
        self.answer(b"no", 404)

    def fault_forbidden(self) -> None:
        self.answer(b"no", 403)

    def fault_page(self) -> None:
        self.answer(b"<html>log in", Content_Type="text/html; charset=utf-8")

    def fault_redirect(self) -> None:
        self.answer(b"", 302, Location="/moved?token=verysecret")

    def fault_to_http(self) -> None:
        self.answer(b"", 302, Location=self.server.elsewhere)

    def fault_empty(self) -> None:
        self.answer(b"")

    def fault_unlabelled_page(self) -> None:
        self.answer(b"\n<!DOCTYPE HTML>\n<title>log in", Content_Type="application/octet-stream")

    def fault_packed(self) -> None:
        self.answer(gzip.compress(self.server.data), Content_Encoding="gzip")

    def fault_packed_truncate(self) -> None:
        packed = gzip.compress(self.server.data)
        half = packed[: len(packed) // 2]
        self.answer(half, Content_Length=str(len(packed)), Content_Encoding="gzip")

    def fault_packed_rest(self) -> None:
        packed = gzip.compress(self.server.data, mtime=0)
        start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
        span = f"bytes {start}-{len(packed) - 1}/{len(packed)}"
        self.answer(packed[start:], 206, Content_Range=span, Content_Encoding="gzip")

    def fault_loop(self) -> None:
        self.server.faults.insert(0, "loop")
        self.answer(b"", 302, Location="/again")

    def fault_hangup(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)

    def fault_chunked(self) -> None:
        self.chunked(self.server.data, whole=True)

    def fault_chunked_cut(self) -> None:
        self.chunked(self.server.data[:5000], whole=False)

    def chunked(self, data: bytes, whole: bool) -> None:
        self.answer(b"", Content_Length="", Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if whole:
            self.wfile.write(b"0\r\n\r\n")

    def fault_gzip_label(self) -> None:
        self.answer(self.server.data, Content_Encoding="gzip")

    def fault_other_part(self) -> None:
        self.answer(self.server.data[7:], 206, Content_Range="bytes 7-99/100")

    def fault_no_length(self) -> None:
        self.answer(self.server.data, Content_Length="")


class Site(ThreadingHTTPServer):
    """A server with its behaviour as data."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.data = DATA
        self.ranges = self.heeds = True
        self.elsewhere = ""
        self.headers = {"ETag": '"v1"'}
        self.faults: list[str] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.release = threading.Event()

    def url(self, path: str = "model.onnx") -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    site = Site()
    thread = threading.Thread(target=site.serve_forever, args=(0.01,))
    thread.start()
    yield site
    site.release.set()
    site.shutdown()
    thread.join()
    site.server_close()


Get = Callable[..., DownloadResult]


@pytest.fixture
def get(site: Site, tmp_path: Path) -> Get:
    def get(urls: Any = None, name: str = "model.onnx", **options: Any) -> DownloadResult:
        options.setdefault("policy", FAST if STALLS & set(site.faults) else PATIENT)
        return download(urls or site.url(), tmp_path / "to" / name, **options)

    return get


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def failure(get: Get, *args: Any, **options: Any) -> Error:
    with pytest.raises(Error) as caught:
        get(*args, **options)
    return caught.value


@pytest.mark.parametrize("checksum", ["", MD5, f"md5:{MD5}", SHA256, f"SHA256:{SHA256}"])
def test_a_file_arrives(get: Get, tmp_path: Path, site: Site, checksum: str) -> None:
    seen: list[tuple[int, int | None]] = []
    done = get(size=len(DATA), checksum=checksum, progress=lambda *now: seen.append(now))
    assert done.path == tmp_path / "to/model.onnx"
    assert done.size == len(DATA)
    assert done.source == site.url()
    assert done.path.read_bytes() == DATA
    assert files(tmp_path) == ["to/model.onnx"]
    assert seen[-1] == (len(DATA), len(DATA))
    assert site.seen[0][1]["accept-encoding"] == "identity"


def test_a_right_file_is_not_fetched_again_and_a_wrong_one_is_replaced(
    get: Get, site: Site
) -> None:
    path = get(checksum=MD5).path
    assert get(checksum=MD5).source == "present"
    assert len(site.seen) == 1
    path.write_bytes(b"damaged")
    assert get(checksum=MD5).path.read_bytes() == DATA
    assert len(site.seen) == 2


def test_without_a_checksum_a_file_that_is_there_proves_nothing(get: Get, site: Site) -> None:
    path = get().path
    site.data = b"newer"
    get()
    assert path.read_bytes() == b"newer"


@pytest.mark.parametrize(
    "faults",
    [
        ["error"],
        ["broken", "error", "broken"],
        ["truncate"],
        ["truncate", "truncate", "truncate"],
        ["stall"],
        ["silent"],
        ["hangup"],
        ["chunked_cut"],
        ["truncate", "error", "stall"],
        ["redirect"],
        ["chunked"],
        ["no_length"],
    ],
    ids="-".join,
)
@pytest.mark.parametrize("checksum", ["", MD5])
def test_what_goes_wrong_for_a_while_is_overcome(
    get: Get, site: Site, faults: list[str], checksum: str, tmp_path: Path
) -> None:
    site.faults = list(faults)
    stalls = bool(STALLS & set(faults))
    # On a busy host an honest answer may come late too.
    policy = replace(FAST, attempts=100) if stalls else PATIENT
    assert get(checksum=checksum, policy=policy).path.read_bytes() == DATA
    assert files(tmp_path) == ["to/model.onnx"]
    expected = len(faults) + (faults[-1] not in ("chunked", "no_length"))
    assert len(site.seen) == expected or (stalls and len(site.seen) > expected)


def test_a_truncated_transfer_goes_on_where_it_stopped(get: Get, site: Site) -> None:
    site.faults = ["truncate"]
    get()
    _, second = site.seen[1]
    assert second["range"] == f"bytes={len(DATA) // 2}-"
    assert second["if-range"] == '"v1"'


def test_a_later_process_goes_on_too(get: Get, site: Site, tmp_path: Path) -> None:
    site.faults = ["truncate"]
    error = failure(get, policy=Policy(attempts=1))
    assert error.code == "download-failed"
    assert f"after {len(DATA) // 2} of {len(DATA)} bytes" in error.message
    assert error.hint == "run the same command again: it goes on from there"
    assert files(tmp_path) == ["to/model.onnx.part", "to/model.onnx.part.json"]
    note = json.loads((tmp_path / "to/model.onnx.part.json").read_text())
    assert site.url() not in json.dumps(note), "a URL may hold secrets"
    assert get().path.read_bytes() == DATA
    assert site.seen[1][1]["range"] == f"bytes={len(DATA) // 2}-"
    assert files(tmp_path) == ["to/model.onnx"]


def test_a_file_that_changed_meanwhile_is_fetched_whole(get: Get, site: Site) -> None:
    site.faults = ["truncate"]
    failure(get, policy=Policy(attempts=1))
    site.data, site.headers = DATA[::-1], {"ETag": '"v2"'}
    assert get().path.read_bytes() == DATA[::-1]


@pytest.mark.parametrize(
    ("name", "then", "now"), [("ETag", '"v1"', '"v2"'), ("Last-Modified", "yesterday", "today")]
)
def test_a_server_that_does_not_heed_if_range_is_not_trusted(
    get: Get, site: Site, name: str, then: str, now: str
) -> None:
    site.headers, site.heeds = {name: then}, False
    site.faults = ["truncate"]
    failure(get, policy=Policy(attempts=1))
    site.data, site.headers = DATA[::-1], {name: now}
    assert get().path.read_bytes() == DATA[::-1]
    assert site.seen[1][1]["if-range"] == then


def test_a_file_of_another_length_is_another_file(get: Get, site: Site) -> None:
    site.faults = ["truncate"]
    failure(get, policy=Policy(attempts=1))
    site.data = DATA + b"more"
    assert get().path.read_bytes() == DATA + b"more"


def test_after_a_loss_of_power_only_what_the_disk_had_is_kept(
    get: Get, site: Site, tmp_path: Path
) -> None:
    site.faults = ["truncate"]
    failure(get, policy=Policy(attempts=1))
    part, note = tmp_path / "to/model.onnx.part", tmp_path / "to/model.onnx.part.json"
    part.write_bytes(DATA[:1000] + bytes(part.stat().st_size - 1000))
    known = json.loads(note.read_text())
    note.write_text(json.dumps({**known, "safe": 1000, "boot": "that of another day"}))
    assert get().path.read_bytes() == DATA
    assert site.seen[1][1]["range"] == "bytes=1000-"


def test_what_the_disk_has_is_noted_as_it_comes(
    get: Get, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cmbench.lib.partial_file._SYNC_SECONDS", 0)
    note = tmp_path / "to/model.onnx.part.json"
    seen = []
    get(progress=lambda done, _: seen.append((done, json.loads(note.read_text())["safe"])))
    assert all(done == safe for done, safe in seen)
    assert seen[-1] == (len(DATA), len(DATA))


def test_a_server_without_ranges_sends_all_of_it_again(get: Get, site: Site) -> None:
    site.ranges = False
    site.faults = ["truncate"]
    assert get(checksum=MD5).path.read_bytes() == DATA


def test_without_a_validator_only_a_checksum_allows_to_go_on(get: Get, site: Site) -> None:
    site.headers = {"ETag": 'W/"weak"'}
    site.faults = ["truncate"]
    get()
    assert "range" not in site.seen[1][1]
    site.faults = ["truncate"]
    get(name="other", checksum=MD5)
    assert site.seen[3][1]["range"] == f"bytes={len(DATA) // 2}-"
    site.headers = {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
    site.faults = ["truncate"]
    get(name="third")
    assert site.seen[5][1]["if-range"] == "Wed, 21 Oct 2015 07:28:00 GMT"


def test_a_rotten_part_is_thrown_away(get: Get, site: Site, tmp_path: Path) -> None:
    site.faults = ["truncate"]
    failure(get, checksum=MD5, policy=Policy(attempts=1))
    part = tmp_path / "to/model.onnx.part"
    part.write_bytes(b"?" * part.stat().st_size)
    assert get(checksum=MD5, policy=Policy(attempts=1)).path.read_bytes() == DATA


@pytest.mark.parametrize("surplus", [0, 10])
def test_a_part_as_long_as_the_file_is_understood(
    get: Get, site: Site, tmp_path: Path, surplus: int
) -> None:
    site.faults = ["truncate"]
    failure(get, policy=Policy(attempts=1))
    (tmp_path / "to/model.onnx.part").write_bytes(DATA + b"!" * surplus)
    assert get().path.read_bytes() == DATA
    assert len(site.seen) == 2 + bool(surplus)


def test_another_part_than_was_asked_for_is_not_taken(get: Get, site: Site) -> None:
    site.faults = ["truncate", "other_part"]
    assert get().path.read_bytes() == DATA


def test_a_part_whose_note_is_unreadable_is_not_used(get: Get, site: Site, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to/model.onnx.part").write_bytes(b"?" * 100)
    (tmp_path / "to/model.onnx.part.json").write_text("{")
    assert get().path.read_bytes() == DATA


@pytest.mark.parametrize(
    ("fault", "times", "options", "code", "words"),
    [
        ("missing", 1, {}, "download-failed", "the server answered 404 Not Found"),
        ("forbidden", 1, {}, "download-failed", "the server answered 403 Forbidden"),
        ("error", 4, {}, "download-failed", "503 Service Unavailable"),
        ("page", 1, {}, "download-failed", "a web page instead of the file"),
        ("short", 1, {"size": len(DATA)}, "size-mismatch", "announces 1000"),
        ("short", 1, {"checksum": MD5}, "checksum-mismatch", f"expected md5:{MD5}, got"),
        ("wrong", 1, {"checksum": SHA256}, "checksum-mismatch", f"expected sha256:{SHA256}, got"),
        ("no_length", 1, {"size": 1000}, "size-mismatch", "expected 1000 bytes"),
        ("silent", 4, {}, "download-failed", "127.0.0.1 stopped answering"),
        ("stall", 4, {}, "download-failed", "stalled"),
        ("loop", 31, {}, "download-failed", "too many redirects"),
    ],
)
def test_what_stays_wrong_is_reported(
    get: Get, site: Site, fault: str, times: int, options: Any, code: str, words: str
) -> None:
    site.ranges = False
    site.faults = [fault] * 4
    error = failure(get, **options)
    assert error.code == code
    assert words in error.message
    assert error.message.startswith("could not get model.onnx: ")
    assert error.context[0].startswith(site.url())
    assert error.hint
    assert len(site.seen) == times


def test_wrong_bytes_are_not_left_behind(get: Get, site: Site, tmp_path: Path) -> None:
    site.faults = ["wrong"]
    failure(get, checksum=MD5)
    assert files(tmp_path) == []


def test_a_transfer_that_brings_next_to_nothing_is_given_up(get: Get, site: Site) -> None:
    site.faults = ["dribble"] * 2
    policy = Policy(attempts=2, backoff=0.01, read_timeout=HANG_S, slowest=1000, patience=0.3)
    assert "stalled" in failure(get, policy=policy).message


def test_compressed_files_stay_compressed(get: Get, site: Site) -> None:
    site.faults = ["gzip_label"]
    assert get(checksum=MD5).path.read_bytes() == DATA


def test_a_file_that_was_packed_on_the_way_is_unpacked(get: Get, site: Site) -> None:
    site.faults = ["packed"]
    assert get().path.read_bytes() == DATA
    site.faults = ["packed"]
    assert get(name="checked", checksum=MD5, size=len(DATA)).path.read_bytes() == DATA
    site.faults = ["packed"]
    packed = get(name="model.tar.gz").path.read_bytes()
    assert gzip.decompress(packed) == DATA, "many servers say so of files that are .gz themselves"
    site.faults = ["packed"]
    assert get(site.url("model.tgz?id=7"), name="weights").path.read_bytes()[:2] == packed[:2]
    site.faults, site.headers["Content-Type"] = ["packed"], "application/x-gzip"
    assert get(site.url("get?id=7"), name="weights").path.read_bytes()[:2] == packed[:2]
    site.headers["Content-Type"] = ""
    packed_sum = hashlib.md5(packed).hexdigest()
    site.data = packed
    site.faults = ["gzip_label"]
    assert get(name="as listed", checksum=packed_sum).path.read_bytes() == packed


def test_a_packed_transfer_goes_on_too(get: Get, site: Site) -> None:
    site.faults = ["packed_truncate", "packed_rest"]
    assert get().path.read_bytes() == DATA
    site.faults = ["packed_truncate"]
    failure(get, name="later", policy=Policy(attempts=1))
    site.faults = ["packed_rest"]
    assert get(name="later").path.read_bytes() == DATA


def test_damage_in_what_was_packed_is_noticed(get: Get, site: Site, tmp_path: Path) -> None:
    site.data = gzip.compress(DATA)[:-20]
    site.faults = ["gzip_label"] * 4
    assert "it is damaged" in failure(get).message
    assert files(tmp_path) == []


@pytest.mark.parametrize("fault", ["page", "unlabelled_page", "empty"])
@pytest.mark.parametrize(
    ("path", "name"), [("model.onnx", "index"), ("get?id=7", "model.onnx")], ids=["url", "name"]
)
def test_a_page_or_nothing_is_no_model(
    get: Get, site: Site, fault: str, path: str, name: str, tmp_path: Path
) -> None:
    site.faults = [fault]
    error = failure(get, site.url(path), name=name)
    words = "an empty file" if fault == "empty" else "a web page instead of the file"
    assert f"the server sent {words}" in error.message
    assert "open the URL in a browser" in error.hint
    assert files(tmp_path) == []
    assert len(site.seen) == 1


def test_an_empty_file_is_one_where_it_is_wanted(get: Get, site: Site) -> None:
    for name, options in (("labels.txt", {}), ("empty.bin", {"size": 0})):
        site.faults = ["empty"]
        assert get(site.url(name), name=name, **options).size == 0


def test_mirrors_are_tried_in_order(get: Get, site: Site, tmp_path: Path) -> None:
    site.faults = ["missing", "wrong"]
    urls = [site.url("a"), site.url("b"), site.url("c?key=abc")]
    done = get(urls, checksum=MD5)
    assert done.source == site.url("c?key=***")
    assert [path for path, _ in site.seen] == ["/a", "/b", "/c?key=abc"]


def test_a_wrong_file_says_more_than_places_that_give_none(get: Get, tmp_path: Path) -> None:
    given = tmp_path / "mine.bin"
    given.write_bytes(b"another")
    error = failure(get, [str(given), f"{tmp_path}/nowhere"], checksum=MD5)
    assert error.code == "checksum-mismatch"
    assert f"from any of 2 places: expected md5:{MD5}" in error.message
    assert error.context[0].startswith(f"{given}: expected")
    assert error.hint.endswith("check the URL and the checksum")


def test_when_all_mirrors_fail_each_is_named(get: Get, site: Site, tmp_path: Path) -> None:
    site.faults = ["missing", "wrong"]
    urls = [site.url("a?token=s3cret"), f"{tmp_path}/nowhere", site.url("b")]
    error = failure(get, urls, checksum=MD5)
    assert error.code == "checksum-mismatch"
    assert error.message.startswith("could not get model.onnx from any of 3 places: expected md5:")
    assert error.context[0] == site.url("a?token=***") + ": the server answered 404 Not Found"
    assert error.context[1] == f"{tmp_path}/nowhere: there is no such file"
    assert "s3cret" not in error.render()


def test_no_secret_of_a_redirect_or_a_broken_connection_shows(get: Get, site: Site) -> None:
    site.faults = ["redirect", "missing"]
    assert "verysecret" not in failure(get).render()
    site.faults = ["hangup"] * 4
    url = site.url("f?token=verysecret").replace("//", "//me:verysecret@")
    error = failure(get, url)
    assert "verysecret" not in error.render()
    assert error.context[0].startswith("http://***@127.0.0.1")


def test_the_words_for_a_name_that_does_not_exist(get: Get) -> None:
    error = failure(get, "http://no-such-host.invalid/f", policy=Policy(attempts=1))
    assert error.code == "download-failed"
    assert "no connection to no-such-host.invalid" in error.message
    assert "Max retries" not in error.render()


def test_the_words_for_a_closed_port(get: Get, site: Site) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = failure(get, f"http://127.0.0.1:{port}/f", policy=Policy(attempts=1))
    assert error.message == (
        "could not get model.onnx: no connection to 127.0.0.1 (Connection refused)"
    )
    assert error.hint == "check the network, then run the same command again"


def test_a_proxy_is_used_and_named_when_it_is_dead(
    get: Get, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", site.url(""))
    get("http://files.example/model.onnx")
    assert site.seen[0][0] == "http://files.example/model.onnx"
    monkeypatch.setenv("http_proxy", "http://me:geheim@127.0.0.1:9")
    error = failure(get, "http://files.example/model.onnx", policy=Policy(attempts=1))
    assert "the proxy does not answer" in error.message
    assert error.hint == "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
    assert "geheim" not in error.render()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host/f", "by ftp"),
        ("s3://bucket/f", "by s3"),
        ("http://[::1/f", "not a valid URL"),
        ("", "no URL"),
    ],
)
def test_what_is_no_url_is_refused(get: Get, url: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        download(url, tmp_path / "f", policy=FAST)
    assert caught.value.code == "bad-value"
    assert words in caught.value.message
    assert files(tmp_path) == []


@pytest.fixture
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """A server that speaks TLS, and the folder of its ``cert.pem`` and ``key.pem``."""
    folder = tmp_path_factory.mktemp("tls")
    made = os.system(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {folder}/key.pem "
        f"-out {folder}/cert.pem -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1"
    )
    if made != 0:
        pytest.skip("no openssl here to make a certificate")
    import ssl

    site = Site()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    site.socket = context.wrap_socket(site.socket, server_side=True)
    thread = threading.Thread(target=site.serve_forever, args=(0.01,))
    thread.start()
    yield site, folder
    site.shutdown()
    thread.join()
    site.server_close()


def test_an_untrusted_certificate_is_explained(
    get: Get, secure: tuple[Site, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, folder = secure
    url = site.url().replace("http:", "https:")
    error = failure(get, url)
    assert "the TLS certificate of 127.0.0.1 is not trusted" in error.message
    assert "REQUESTS_CA_BUNDLE" in error.hint
    assert get(url, verify=False).path.read_bytes() == DATA
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "cert.pem"))
    assert get(url, name="trusted").path.read_bytes() == DATA
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    assert get(url, name="trusted as well").path.read_bytes() == DATA
    monkeypatch.setenv("CURL_CA_BUNDLE", str(folder / "none.pem"))
    wrong = failure(get, url)
    assert "none.pem: there is no such file of certificates" in wrong.message
    assert "correct CURL_CA_BUNDLE" in wrong.hint
    monkeypatch.delenv("CURL_CA_BUNDLE")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "key.pem"))
    assert get(url, name="unverified", verify=False).path.read_bytes() == DATA


def test_a_redirect_to_http_needs_a_checksum(
    get: Get, secure: tuple[Site, Path], site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    safe, folder = secure
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "cert.pem"))
    safe.elsewhere = site.url()
    url = safe.url().replace("http:", "https:")
    safe.faults = ["to_http"] * 3
    error = failure(get, url)
    assert error.message.endswith("redirects from https to http, where anybody can change the file")
    assert "checksum" in error.hint
    assert files(tmp_path / "to") == []
    assert get(url, checksum=MD5).path.read_bytes() == DATA
    assert get(url, verify=False, name="unverified").path.read_bytes() == DATA


def test_local_files_are_copied_and_checked(get: Get, tmp_path: Path) -> None:
    source = tmp_path / "a file.bin"
    source.write_bytes(DATA)
    for number, url in enumerate([f"file://{tmp_path}/a%20file.bin", str(source)]):
        done = get(url, name=f"copy{number}", checksum=SHA256, size=len(DATA))
        assert done.path.read_bytes() == DATA
        assert not done.path.samefile(source), "later changes of the user's file must not show"
    error = failure(get, str(source), name="x", checksum="0" * 32)
    assert error.code == "checksum-mismatch"
    assert source.read_bytes() == DATA
    assert files(tmp_path / "to") == ["copy0", "copy1"]
    assert failure(get, "file:///nowhere").code == "file-not-found"


def test_a_file_can_be_its_own_source(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(DATA)
    assert download(str(path), path).size == len(DATA)
    with pytest.raises(Error, match="expected 5 bytes"):
        download(str(path), path, size=5)
    assert path.read_bytes() == DATA


def test_offline_never_touches_the_network(get: Get, site: Site, tmp_path: Path) -> None:
    error = failure(get, [site.url("a?token=x"), site.url("b")], offline=True)
    assert error.code == "offline"
    assert error.message == "model.onnx is not here, and the network is turned off"
    assert error.context == (site.url("a?token=***"), site.url("b"))
    assert site.seen == []
    source = tmp_path / "f"
    source.write_bytes(DATA)
    assert get([site.url(), str(source)], offline=True, checksum=MD5).source == str(source)
    assert get([site.url()], offline=True, checksum=MD5).source == "present"
    both = failure(get, [site.url(), "/nowhere"], name="new", offline=True)
    assert both.code == "file-not-found"


def test_a_disk_without_room_is_noticed_first(
    get: Get, site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 1))  # type: ignore[attr-defined]
    error = failure(get)
    assert error.code == "no-space"
    assert error.context == ("1 B free, 1.0 MB needed",)
    assert len(site.seen) == 1, "trying again cannot help"


def test_a_destination_that_cannot_be_is_named(get: Get, tmp_path: Path) -> None:
    (tmp_path / "to/model.onnx").mkdir(parents=True)
    assert "is a folder" in failure(get).message
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Error) as caught:
        download("/x", tmp_path / "file/below")
    assert caught.value.code == "file-error"


def test_a_wrong_checksum_is_refused_before_the_network(get: Get, site: Site) -> None:
    assert failure(get, checksum="not one").code == "bad-value"
    assert site.seen == []


def test_two_at_once_fetch_once(get: Get, site: Site, tmp_path: Path) -> None:
    site.faults = ["stall"]  # The first is slow, so that they really meet.
    done: list[DownloadResult] = []
    threads = [threading.Thread(target=lambda: done.append(get(checksum=MD5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(d.source for d in done) == sorted([site.url(), "present", "present", "present"])
    assert len(site.seen) == 2
    assert files(tmp_path) == ["to/model.onnx"]


def test_a_killed_download_leaves_no_file_and_is_continued(
    get: Get, site: Site, tmp_path: Path
) -> None:
    site.faults = ["stall"]
    part = tmp_path / "to/model.onnx.part"
    worker = multiprocessing.get_context("fork").Process(
        target=get, kwargs={"policy": Policy(read_timeout=HANG_S)}
    )
    worker.start()
    assert worker.pid is not None
    wait_for(lambda: part.exists() and part.stat().st_size)
    time.sleep(0.1)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert not (tmp_path / "to/model.onnx").exists()
    assert get(checksum=MD5).path.read_bytes() == DATA
    assert site.seen[1][1]["range"].startswith("bytes=")
    assert files(tmp_path) == ["to/model.onnx"]


def test_an_error_reads_well(get: Get, site: Site) -> None:
    site.faults = ["forbidden"]
    url = site.url("model.onnx?token=s3cret")
    text = failure(get, url).render()
    # Where the lines break depends on the port.
    assert " ".join(text.split()) == (
        "error [download-failed]: could not get model.onnx: the server answered 403 Forbidden "
        f"cause: {site.url('model.onnx?token=***')}: the server answered 403 Forbidden "
        "next: you have no access; accept the licence there, or put your credentials into ~/.netrc"
    )
    assert "\n  cause:\n    http" in text
