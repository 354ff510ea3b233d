"""Downloads begun before their steps: taken, verified, gone on with, never when unwanted."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib.download import place_of, take
from cmbench.run.prefetch import Prefetcher, PrefetchFile
from lab import Lab
from support import HANG_S, ROOT, wait_for

DATA = {f"/{name}.bin": name.encode() * 300_000 for name in "abcd"}


class Handler(BaseHTTPRequestHandler):
    """Serves ``DATA`` with ranges; ``server.slow`` seconds pass in the middle of each file."""

    server: Site

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Range") or ""))
        with self.server.busy:
            self.server.active += 1
            self.server.most = max(self.server.most, self.server.active)
        self.answer()
        with self.server.busy:
            self.server.active -= 1

    def answer(self) -> None:
        if not self.server.lies and self.path not in DATA:
            self.send_error(404)
            return
        data = b"!" * 300_000 if self.server.lies else DATA[self.path]
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("ETag", '"one"')
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        half = start + (len(data) - start) // 2
        try:
            self.wfile.write(data[start:half])
            self.wfile.flush()
            self.server.release.wait(self.server.slow)
            for begin in range(half, len(data), 30_000):
                self.wfile.write(data[begin : begin + 30_000])
                time.sleep(0.01)
        except OSError:
            return


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str]] = []
        self.busy = threading.Lock()
        self.active = self.most = 0
        self.slow = 0.0
        self.lies = False
        self.release = threading.Event()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}.bin"


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()


def sha(name: str) -> str:
    return hashlib.sha256(DATA[f"/{name}.bin"]).hexdigest()


def fetchers(lab: Lab, site: Site, names: str, **more: Any) -> None:
    """``get,file,<name>`` each in an entry of its own, and ``app`` which wants them all."""
    shutil.copytree(ROOT / "script/download-file", lab.repo / "script/download-file")
    for name in names:
        env = {"CM_DOWNLOAD_URL": site.url(name), "CM_DOWNLOAD_CHECKSUM": sha(name)}
        env["CM_DOWNLOAD_FINAL_ENV_NAME"] = f"CM_FILE_{name.upper()}"
        lab.script(
            f"get-file-{name}",
            cache=True,
            deps=[{"tags": "slow,step"}, {"tags": "download,file", "env": env}],
            new_env_keys=[f"CM_FILE_{name.upper()}"],
        )
    lab.script("slow-step", run="sleep 0.3\n", cache=True)
    lab.script("app", deps=[{"tags": f"get,file,{n}"} for n in names], new_env_keys=["CM_FILE_*"])


def log_of(lab: Lab) -> str:
    run = max((lab.home / "cmbench/runs").iterdir(), key=lambda path: path.stat().st_mtime)
    return (run / "log.txt").read_text()


def test_all_files_come_at_once_and_each_only_once(lab: Lab, site: Site) -> None:
    fetchers(lab, site, "abc")
    site.slow = 0.4
    result = lab.run("app")
    for name in "abc":
        path = Path(result.env[f"CM_FILE_{name.upper()}"])
        assert path.read_bytes() == DATA[f"/{name}.bin"]
        assert path.is_relative_to(lab.store.place("store"))
    assert sorted(site.seen) == [("/a.bin", ""), ("/b.bin", ""), ("/c.bin", "")]
    assert site.most == 3
    assert "fetching 3 files ahead of the steps that want them" in log_of(lab)
    assert "fetched ahead of this step" in log_of(lab)
    assert os.listdir(lab.store.place("ahead")) == []
    site.seen.clear()
    assert set(lab.run("app").status.values()) == {"cached", "done"}
    assert site.seen == []


@pytest.mark.parametrize("flags", [{"no_prefetch": True}, {"no-prefetch": True}])
def test_it_can_be_turned_off(lab: Lab, site: Site, flags: dict[str, Any]) -> None:
    fetchers(lab, site, "ab")
    lab.run("app", **flags)
    assert [path for path, _ in site.seen] == ["/a.bin", "/b.bin"]
    assert os.listdir(lab.store.place("ahead")) == []


def test_offline_nothing_is_asked_of_the_network(lab: Lab, site: Site) -> None:
    fetchers(lab, site, "ab")
    result = lab.run("app", offline=True)
    assert result.answer["code"] == "offline"
    assert site.seen == []


def test_only_what_is_certain_is_fetched(lab: Lab, site: Site) -> None:
    fetchers(lab, site, "ab")
    ask = "def preprocess(i):\n    i['env']['CM_WANT'] = 'no'\n    return {'return': 0}\n"
    maybe = {"tags": "get,file,b", "enable_if_env": {"CM_WANT": ["yes"]}}
    lab.script("app", customize=ask, prehook_deps=[{"tags": "get,file,a"}, maybe])
    assert lab.run("app").answer["return"] == 0
    assert {path for path, _ in site.seen} == {"/a.bin"}


def test_without_a_checksum_nothing_is_fetched_ahead(lab: Lab, site: Site) -> None:
    fetchers(lab, site, "a")
    env = {"CM_DOWNLOAD_URL": site.url("a")}
    lab.script("get-file-a", cache=True, deps=[{"tags": "download,file", "env": env}])
    assert lab.run("app").answer["return"] == 0
    assert "ahead" not in log_of(lab)
    assert len(site.seen) == 1


def test_a_wrong_file_is_the_steps_own_failure(lab: Lab, site: Site) -> None:
    fetchers(lab, site, "a")
    site.lies = True
    answer = lab.run("app").answer
    assert answer["code"] == "checksum-mismatch"
    assert "not fetched ahead: could not get" in log_of(lab)
    assert os.listdir(lab.store.place("ahead")) == []
    site.lies = False
    assert lab.run("app").answer["return"] == 0


def test_what_waits_is_verified_when_it_is_taken(lab: Lab, site: Site, tmp_path: Path) -> None:
    place = place_of(str(tmp_path / "ahead"), sha("a"))
    assert place is not None
    place.parent.mkdir()
    place.write_bytes(b"edited")
    done = take([site.url("a")], tmp_path / "a", str(tmp_path / "ahead"), checksum=sha("a"))
    assert (tmp_path / "a").read_bytes() == DATA["/a.bin"]
    assert done.source == site.url("a")
    assert list(place.parent.iterdir()) == []


def test_an_interrupted_transfer_is_gone_on_with(site: Site, tmp_path: Path) -> None:
    site.slow = HANG_S
    folder = str(tmp_path / "ahead")
    wish = PrefetchFile((site.url("a"),), sha("a"), None, verify=True)
    fetcher = Prefetcher(folder, [wish], lambda text: None)
    fetcher.start()
    place = place_of(folder, sha("a"))
    assert place is not None
    part = place.with_name(place.name + ".part")
    wait_for(lambda: part.exists() and part.stat().st_size)
    fetcher.stop(0.1)
    site.release.set()
    for thread in fetcher._threads:
        thread.join(HANG_S)
    assert not place.exists()
    assert 0 < part.stat().st_size < len(DATA["/a.bin"])
    done = take([site.url("a")], tmp_path / "a", folder, checksum=sha("a"))
    assert (tmp_path / "a").read_bytes() == DATA["/a.bin"]
    assert site.seen[-1][1].startswith("bytes=")
    assert done.size == len(DATA["/a.bin"])


def test_a_step_waits_for_the_transfer_that_is_under_way(site: Site, tmp_path: Path) -> None:
    site.slow = 0.4
    folder = str(tmp_path / "ahead")
    file = PrefetchFile((site.url("a"),), sha("a"), None, True)
    Prefetcher(folder, [file], lambda _: None).start()
    wait_for(lambda: site.seen)
    shown: list[int] = []
    done = take(
        [site.url("a")],
        tmp_path / "a",
        folder,
        checksum=sha("a"),
        progress=lambda so_far, total: shown.append(so_far),
    )
    assert done.source == "ahead"
    assert len(site.seen) == 1
    assert shown
    assert max(shown) <= len(DATA["/a.bin"])


def late(monkeypatch: pytest.MonkeyPatch, begin: threading.Event) -> None:
    """Let what is fetched ahead begin only when ``begin`` is set."""
    work = Prefetcher._work

    def wait_and_work(self: Prefetcher) -> None:
        begin.wait(HANG_S)
        work(self)

    monkeypatch.setattr(Prefetcher, "_work", wait_and_work)


def test_a_step_that_has_begun_is_not_overtaken(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Event()
    late(monkeypatch, begin)
    folder = str(tmp_path / "ahead")
    file = PrefetchFile((site.url("a"),), sha("a"), None, True)
    fetcher = Prefetcher(folder, [file], lambda _: None)
    fetcher.start()
    take([site.url("a")], tmp_path / "a", folder, checksum=sha("a"))
    begin.set()
    fetcher._threads[0].join(HANG_S)
    assert len(site.seen) == 1
    assert os.listdir(folder) == []


def test_wishes_that_nobody_began_leave_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Event()
    late(monkeypatch, begin)
    folder = str(tmp_path / "ahead")
    file = PrefetchFile((site.url("a"),), sha("a"), None, True)
    fetcher = Prefetcher(folder, [file], lambda _: None)
    fetcher.start()
    fetcher.stop(0.01)
    begin.set()
    fetcher._threads[0].join(HANG_S)
    assert (site.seen, os.listdir(folder)) == ([], [])


def test_what_another_run_fetches_is_not_fetched_twice(site: Site, tmp_path: Path) -> None:
    site.slow = HANG_S
    wish = PrefetchFile((site.url("a"),), sha("a"), None, verify=True)
    fetchers = [Prefetcher(str(tmp_path), [wish], lambda _: None) for _ in range(2)]
    fetchers[0].start()
    wait_for(lambda: site.seen)
    fetchers[1].start()
    fetchers[1]._threads[0].join(HANG_S)
    assert site.active == 1
    site.release.set()
    take([site.url("a")], tmp_path / "taken", str(tmp_path), checksum=sha("a"))
    assert len(site.seen) == 1


def test_a_checksum_that_is_none_is_the_steps_own_failure(lab: Lab, site: Site) -> None:
    fetchers(lab, site, "ab")
    env = {"CM_DOWNLOAD_URL": site.url("a"), "CM_DOWNLOAD_CHECKSUM": "no digits"}
    lab.script("get-file-a", cache=True, deps=[{"tags": "download,file", "env": env}])
    answer = lab.run("app").answer
    assert answer["error"].startswith('"no digits" is not a checksum')
    assert "fetching 1 file ahead" in log_of(lab)


def test_more_threads_than_wishes_end_in_peace(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that see the last wish at the same time: one of them finds none."""
    fetcher = Prefetcher(str(tmp_path), [], lambda _: None)
    turns = iter([True, False])
    monkeypatch.setattr(Prefetcher, "_rested", lambda self: next(turns))
    fetcher._work()
    assert site.seen == []


def test_an_error_names_the_file_as_the_user_knows_it(site: Site, tmp_path: Path) -> None:
    place = place_of(str(tmp_path / "ahead"), sha("a"))
    assert place is not None
    place.parent.mkdir()
    place.with_name(place.name + ".part").write_bytes(b"")
    with pytest.raises(Error) as caught:
        take([site.url("a") + "x"], tmp_path / "model.bin", str(place.parent), checksum=sha("a"))
    assert caught.value.message.startswith("could not get model.bin: the server answered 404")


def test_a_measurement_is_not_disturbed(site: Site, tmp_path: Path) -> None:
    site.slow = 0.05
    file = PrefetchFile((site.url("a"),), sha("a"), None, True)
    fetcher = Prefetcher(str(tmp_path / "ahead"), [file], lambda _: None)
    place = place_of(fetcher.folder, sha("a"))
    assert place is not None
    with fetcher.paused():
        fetcher.start()
        time.sleep(0.3)
        assert not place.exists()
    wait_for(place.exists)
    assert place.read_bytes() == DATA["/a.bin"]


def test_gc_and_du_know_what_was_never_taken(lab: Lab) -> None:
    lab.script("get-x", cache=True)
    lab.run("get,x")
    folder = Path(lab.store.place("ahead"))
    folder.mkdir()
    (folder / "sha256-00").write_bytes(b"x" * 1000)
    assert "(downloads not taken)" in lab.call("du", "cache").out
    assert "never used" not in lab.call("gc", "cache").out
    old = time.time() - 2 * 86400
    os.utime(folder / "sha256-00", (old, old))
    assert "fetched ahead, never used" in lab.call("gc", "cache").out
    lab.call("gc", "cache", yes=True)
    assert list(folder.iterdir()) == []


HUGE = 10**17
"""Bytes that no disk of a test has."""


@pytest.mark.parametrize("told", ["size", "declared"])
def test_what_has_no_room_is_refused_before_anything_is_fetched(
    lab: Lab, site: Site, told: str
) -> None:
    fetchers(lab, site, "a")
    entry: dict[str, Any] = {"tags": "get,file,a"}
    more: dict[str, Any] = {"cache": True, "required_disk_space": HUGE // 10**6}
    if told == "size":
        env = {"CM_DOWNLOAD_URL": site.url("b"), "CM_DOWNLOAD_CHECKSUM": sha("b")}
        entry = {"tags": "download,file", "env": {**env, "CM_DOWNLOAD_SIZE_ABOUT": str(HUGE)}}
        more = {}
    lab.script("large-thing", deps=[{"tags": "get,file,a"}, entry], **more)
    refused = lab.run("large,thing")
    assert refused.answer["code"] == "too-little-disk"
    assert ("b.bin" if told == "size" else "(large-thing)") in refused.err
    assert "CM_CHECK_ROOM=no" in refused.err
    assert not site.seen
    if told == "declared":
        assert lab.run("large,thing", env={"CM_CHECK_ROOM": "no"}).answer["return"] == 0


def test_what_has_come_of_a_download_needs_no_room_again(
    lab: Lab, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(DATA["/b.bin"])
    env = {"CM_DOWNLOAD_URL": site.url("b"), "CM_DOWNLOAD_CHECKSUM": sha("b")}
    fetchers(lab, site, "")
    lab.script(
        "wants-it", deps=[{"tags": "download,file", "env": {**env, "CM_DOWNLOAD_SIZE": str(size)}}]
    )
    usage = SimpleNamespace(free=size // 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    assert lab.run("wants,it").answer["code"] == "too-little-disk"
    place = place_of(lab.store.place("ahead"), sha("b"))
    assert place is not None
    place.parent.mkdir(parents=True, exist_ok=True)
    place.with_name(f"{place.name}.part").write_bytes(DATA["/b.bin"][: size // 2 + 1])
    assert lab.run("wants,it").answer.get("code") != "too-little-disk"
