"""A download that was killed: what has come outlives its step, and the next run goes on with it."""

from __future__ import annotations

import hashlib
import io
import os
import random
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cmbench.lib.download import place_of, take
from lab import Lab, command
from support import HANG_S, ROOT, wait_for

BYTES = random.Random(20261121).randbytes(600_000)
SENT = 400_000
"""So much of the file the server sends at first, and then nothing more."""


def archive() -> bytes:
    """``BYTES`` as the file ``weights`` in an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        item = tarfile.TarInfo("weights")
        item.size = len(BYTES)
        tar.addfile(item, io.BytesIO(BYTES))
    return out.getvalue()


class Handler(BaseHTTPRequestHandler):
    """Serves ``server.data`` from where it is asked to, if the file is still the one asked for."""

    server: Site

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        site, wanted = self.server, self.headers.get("Range", "")
        site.seen.append(wanted)
        fresh = self.headers.get("If-Range") in (None, site.tag)
        start = int(wanted[6:-1]) if wanted and fresh and site.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("ETag", site.tag)
        self.send_header("Content-Length", str(len(site.data) - start))
        if start:
            end = len(site.data)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
        self.end_headers()
        with suppress(OSError), site.one_more():
            self.wfile.write(site.data[start:SENT])
            self.wfile.flush()
            site.release.wait(20)
            self.wfile.write(site.data[max(start, SENT) :])


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.data, self.tag, self.ranges = BYTES, '"one"', True
        self.seen: list[str] = []
        self.release = threading.Event()
        self.active = self.most = 0
        self.url = f"http://127.0.0.1:{self.server_port}/weights.tar"

    def one_more(self) -> Busy:
        return Busy(self)


class Busy:
    """Counts the transfers that are under way at the same time."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def __enter__(self) -> None:
        self.site.active += 1
        self.site.most = max(self.site.most, self.site.active)

    def __exit__(self, *_: Any) -> None:
        self.site.active -= 1


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Site()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()


def getter(lab: Lab, site: Site, tags: str = "download,file", **env: str) -> None:
    """``get,weights``, which keeps in the cache what it downloads."""
    for alias in ("download-file", "download-and-extract", "extract-file"):
        shutil.copytree(ROOT / "script" / alias, lab.repo / "script" / alias, dirs_exist_ok=True)
    wanted = {
        "CM_DOWNLOAD_URL": site.url,
        "CM_DOWNLOAD_FINAL_ENV_NAME": "CM_WEIGHTS",
        "CM_EXTRACT_FINAL_ENV_NAME": "CM_WEIGHTS_FOLDER",
        **env,
    }
    deps = [{"tags": tags, "env": wanted}]
    lab.script("get-weights", cache=True, deps=deps, new_env_keys=["CM_WEIGHTS*"])


def parts(lab: Lab) -> list[Path]:
    return list((lab.home / "cmbench").rglob("*.part"))


def kill_in_the_middle(lab: Lab, **flags: Any) -> int:
    """Kill a run and all its processes when something has come; how many bytes that were."""
    run = subprocess.Popen(
        command(lab, "get,weights", **flags),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: any(p.stat().st_size for p in parts(lab)))
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return parts(lab)[0].stat().st_size


SHA = {"CM_DOWNLOAD_CHECKSUM": hashlib.sha256(BYTES).hexdigest()}


@pytest.mark.parametrize(
    ("env", "flags"),
    [(SHA, {}), (SHA, {"no_prefetch": True}), ({}, {})],
    ids=["ahead of its step", "in its step", "without a checksum"],
)
def test_the_next_run_goes_on(
    lab: Lab, site: Site, env: dict[str, str], flags: dict[str, Any]
) -> None:
    getter(lab, site, **env)
    there = kill_in_the_middle(lab, **flags)
    site.release.set()
    result = lab.run("get,weights", **flags)
    assert Path(result.env["CM_WEIGHTS"]).read_bytes() == BYTES
    assert site.seen == ["", f"bytes={there}-"]
    assert os.listdir(lab.store.place("ahead")) == []


def test_an_archive_is_gone_on_with_before_it_is_unpacked(lab: Lab, site: Site) -> None:
    site.data = archive()
    getter(lab, site, "download-and-extract,_extract", CM_DAE_EXTRACT_DOWNLOADED="yes")
    there = kill_in_the_middle(lab)
    site.release.set()
    folder = Path(lab.run("get,weights").env["CM_WEIGHTS_FOLDER"])
    assert (folder / "weights").read_bytes() == BYTES
    assert site.seen == ["", f"bytes={there}-"]


@pytest.mark.parametrize("ranges", [True, False])
def test_another_file_is_begun_afresh(lab: Lab, site: Site, ranges: bool) -> None:
    getter(lab, site)
    kill_in_the_middle(lab)
    site.data, site.tag, site.ranges = BYTES[::-1], '"two"', ranges
    site.release.set()
    assert Path(lab.run("get,weights").env["CM_WEIGHTS"]).read_bytes() == BYTES[::-1]
    assert len(site.seen) == 2


def test_two_at_once_never_write_the_same_part(site: Site, tmp_path: Path) -> None:
    paths = [tmp_path / name / "weights" for name in ("one", "two")]
    folder = str(tmp_path / "ahead")
    threads = [threading.Thread(target=take, args=([site.url], path, folder)) for path in paths]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    site.release.set()
    for thread in threads:
        thread.join(HANG_S)
    assert [path.read_bytes() for path in paths] == [BYTES, BYTES]
    assert site.most == 1
    assert os.listdir(folder) == []


def test_a_file_for_another_disk_does_not_go_through_the_cache(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cmbench.lib.download._on_one_disk", lambda place, destination: False)
    site.release.set()
    take([site.url], tmp_path / "weights", str(tmp_path / "ahead"))
    assert os.listdir(tmp_path) == ["weights"]


def test_who_is_verified_and_who_is_not_share_no_part() -> None:
    places = {place_of("/x", "", address) for address in ("http://a", "unverified http://a")}
    assert len(places) == 2


def test_gc_keeps_parts_for_a_week(lab: Lab) -> None:
    folder = Path(lab.store.place("ahead"))
    folder.mkdir(parents=True)
    part = folder / "sha256-00.part"
    part.write_bytes(b"x" * 1000)
    for days, goes in ((2, False), (8, True)):
        old = time.time() - days * 86400
        os.utime(part, (old, old))
        told = "part of an abandoned download" in lab.call("gc", "cache").out
        assert told is goes
    lab.call("gc", "cache", yes=True)
    assert list(folder.iterdir()) == []
