"""Servers that refuse, reset, stall, send half or lie under load: counted by kind, and no hang."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import triton_lab  # noqa: F401 - makes the package of servers importable
from common.problems import Problem
from serving.bench import load, served, session
from serving.kserve import KserveError, Region
from serving.kserve.regions import SHM, abandoned
from support import HANG_S, python_env
from triton_client_lab import Answer, says, serving
from triton_client_lab import http as response

MODEL = {
    "name": "m",
    "versions": ["1"],
    "platform": "python",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
}
GOOD = json.dumps({"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2],
                                "parameters": {"binary_data_size": 8}}]}).encode()  # fmt: skip
FIELD = f"Inference-Header-Content-Length: {len(GOOD)}"
NAN = b"\0\0\xc0\x7f" * 2


def answers(data: bytes = bytes(8)) -> bytes:
    return response(GOOD + data, FIELD)


def triton(infer: Answer, healthy: int = 2) -> Answer:
    """A server whose model answers rightly ``healthy`` times, and by ``infer`` from then on."""
    left = [healthy]
    pages = {
        b"/v2": {"name": "liar", "version": "1", "extensions": ["binary_tensor_data"]},
        b"/v2/models/m": MODEL,
        b"/v2/models/m/config": {"max_batch_size": 8},
    }

    def answer(connection: socket.socket, request: bytes) -> None:
        path = request.split(b" ", 2)[1]
        if path in pages:
            says(response(json.dumps(pages[path]).encode()))(connection, request)
        elif not path.endswith(b"/infer"):
            says(response(b"{}", status="400 Bad Request"))(connection, request)
        elif left[0] > 0:
            left[0] -= 1
            says(answers())(connection, request)
        else:
            infer(connection, request)

    return answer


def measured(port: int, folder: Path, *words: str) -> tuple[int, dict]:
    path = folder / "out.json"
    status = session.main(["-m", "m", "--url", f"127.0.0.1:{port}", "--json", str(path), *words])
    return status, json.loads(path.read_text())["points"][0]


@pytest.mark.parametrize(
    ("infer", "kind"),
    [
        (says(b"", then="end"), "reset"),
        (says(b"", then="reset"), "reset"),
        (says(answers()[:-3], then="end"), "reset"),
        (says(answers(bytes(4))), "protocol"),
        (says(answers(bytes(12))), "protocol"),
        (says(answers(NAN)), "wrong"),
        (says(answers().replace(b"[1, 2]", b"[2, 1]")), "wrong"),
        (says(response(b"{}", status="500 Internal Server Error")), "status"),
        (lambda connection, request: time.sleep(HANG_S), "timeout"),
    ],
)
@pytest.mark.parametrize("load", ["--concurrency", "--rate"])
def test_a_failure_under_load_is_counted_by_its_kind(
    infer: Answer, kind: str, load: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Values are looked at now and then; here, always.
    monkeypatch.setattr("serving.bench.load.LOOK_NS", -1)
    words = ["--connections", "1"] if load == "--rate" else []
    words += ["--timeout", "0.3" if kind == "timeout" else str(HANG_S)]
    with serving(triton(infer)) as port:
        status, point = measured(port, tmp_path, load, "1", "--count", "2", *words)
    assert status == 1
    assert point["failures"] == {kind: 2}
    assert point["stopped"] == "count"


@pytest.mark.parametrize(
    ("first_s", "others_s"), [(0.1, 0.1), (0.2, 0.0)], ids=["all are late", "the first is late"]
)
def test_what_a_server_counts_after_its_answer_is_counted(
    tmp_path: Path, first_s: float, others_s: float
) -> None:
    answered: list[float] = []

    def statistics() -> bytes:
        late = [first_s, *len(answered) * [others_s]]
        count = sum(at + wait < time.monotonic() for at, wait in zip(answered, late, strict=False))
        success = {"success": {"count": count, "ns": count}}
        stats = {"name": "m", "version": "1", "inference_stats": success}
        return json.dumps({"model_stats": [stats]}).encode()

    def infer(connection: socket.socket, request: bytes) -> None:
        time.sleep(0.02)
        says(answers())(connection, request)
        answered.append(time.monotonic())

    def answer(connection: socket.socket, request: bytes) -> None:
        if request.split(b" ", 2)[1].endswith(b"/stats"):
            says(response(statistics()))(connection, request)
        else:
            triton(infer, healthy=0)(connection, request)

    with serving(answer) as port:
        words = ("--concurrency", "2", "--count", "20", "--warmup", "2")
        _, point = measured(port, tmp_path, *words)
    assert (point["requests"], point["server"]["requests"]) == (20, 20)


def test_ten_thousand_refused_connections_are_counted(tmp_path: Path) -> None:
    gone = threading.Event()

    def leave(connection: socket.socket, request: bytes) -> None:
        gone.set()
        connection.close()

    with serving(triton(leave, healthy=100)) as port:
        done: list[tuple[int, dict]] = []
        words = ("--concurrency", "8", "--count", "10000", "--warmup", "1")
        thread = threading.Thread(target=lambda: done.append(measured(port, tmp_path, *words)))
        thread.start()
        assert gone.wait(HANG_S)
    thread.join(HANG_S)
    status, point = done[0]
    assert status == 1
    assert point["requests"] + sum(point["failures"].values()) == 10_000
    assert point["failures"]["refused"] > 9_000


def test_a_server_that_stalls_is_not_spared_what_would_have_come(tmp_path: Path) -> None:
    def stall(connection: socket.socket, request: bytes) -> None:
        time.sleep(0.5)
        says(answers())(connection, request)

    with serving(triton(stall)) as port:
        _, point = measured(port, tmp_path, "--rate", "20", "--duration", "2", "--connections", "1")
    # One answer in half a second: the second of them was due half a second before it was sent.
    assert point["latency"]["max"] > 1000
    assert point["late"]["max"] > 500
    assert point["unsent"] > 20
    assert point["requests"] + point["unsent"] == pytest.approx(40, abs=2)


def interrupted(port: int, *words: str) -> tuple[int, str]:
    """Status and output of a client that gets Ctrl-C while it sends."""
    code = "import sys; from serving.bench.session import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "-m", "m", "--url", f"127.0.0.1:{port}", "-k", *words],
        env=python_env(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while ">>> Running" not in process.stdout.readline():
        pass
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=HANG_S)
    return process.returncode, out


def test_ctrl_c_ends_a_run_with_what_there_is(tmp_path: Path) -> None:
    stalled = triton(lambda connection, request: time.sleep(2 * HANG_S), healthy=50)
    with serving(stalled) as port:
        status, out = interrupted(port, "-t", "2")
    assert status == 130
    assert "stopped by: Ctrl-C" in out


@pytest.mark.parametrize("warmup", [f"{2 * HANG_S}s", "10000000"])
def test_ctrl_c_while_it_warms_up_measures_nothing(warmup: str) -> None:
    with serving(triton(says(answers()))) as port:
        status, out = interrupted(port, "--warmup", warmup, "--duration", str(2 * HANG_S))
    assert status == 130
    assert "stopped by" not in out


class Registry:
    """Stands for a server that has mapped regions, or does not want to."""

    def __init__(self, do: Callable[[str], None] = lambda name: None) -> None:
        self.names: list[str] = []
        self._do = do

    def regions(self) -> tuple:
        return ()

    def register_region(self, name: str, key: str, size: int, offset: int = 0) -> None:
        assert (SHM / name).stat().st_size == size
        self._do(name)
        self.names.append(name)

    def unregister_region(self, name: str) -> None:
        self.names.remove(name)


def ours() -> list[str]:
    return [
        name for name in os.listdir(SHM) if name.startswith("kserve-") and str(os.getpid()) in name
    ]


def test_a_region_has_a_name_only_while_it_is_registered() -> None:
    registry = Registry()
    with Region(registry, 5000) as region:
        assert not ours()
        region.slice(0, "FP32", (2,), 8).memory[:] = b"12345678"
        assert len(registry.names) == 1
        with pytest.raises(KserveError):
            region.slice(4999, "FP32", (1,), 4)
    assert not registry.names

    def refuse(name: str) -> None:
        raise KserveError("status", "400: no")

    with pytest.raises(KserveError, match="400"):
        Region(Registry(refuse), 5000)
    assert not ours()


def test_a_process_that_is_killed_while_it_registers_leaves_no_name() -> None:
    pid = os.fork()
    if pid == 0:
        Region(Registry(lambda name: os.kill(os.getpid(), signal.SIGKILL)), 5000)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    deadline = time.monotonic() + HANG_S
    while [name for name in os.listdir(SHM) if name.startswith("kserve-") and f"-{pid}-" in name]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_full_memory_is_one_error() -> None:
    free = os.statvfs(SHM)
    with pytest.raises(KserveError) as caught:
        Region(Registry(), (free.f_bavail + 1000) * free.f_frsize)
    assert caught.value.kind == "memory"
    assert "--shm-size" in caught.value.hint
    assert not ours()


def test_only_regions_of_processes_that_are_gone_are_abandoned() -> None:
    registry = Registry()
    region = Region(registry, 4096)
    assert not abandoned(region.name)
    words = region.name.split("-")
    assert abandoned("-".join([*words[:2], "4194303", "5", "0"]))
    assert abandoned("-".join([*words[:3], "5", "0"])), "another process had this number before"
    assert not abandoned("kserve-elsewhere-4194303-5-0")
    assert not abandoned("other")
    region.close()


def test_a_port_that_speaks_something_else_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(says(b"\0\0\x18\x04\0\0", then="end")) as port:
        assert session.main(["-m", "m", "--url", f"127.0.0.1:{port}"]) == 1
    assert "(protocol)" in capsys.readouterr().err


def test_a_server_that_does_not_start_is_told_without_a_log_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, answer = tmp_path / "tritonserver", tmp_path / "answer.json"
    launcher.write_text("#!/bin/sh\necho \"No module named 'openvino'\"\nexit 3\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("CM_TRITON_SERVER_BIN_WITH_PATH", str(launcher))
    monkeypatch.setenv("CM_TRITON_MODEL_REPOSITORY", str(tmp_path))
    assert served.main(["-m", "m"], str(answer)) == 0
    failure = json.loads(answer.read_text())["failure"]
    assert "--adr.triton-server.tags=_openvino" in failure["hint"]
    assert "server.log" not in failure["hint"]


def test_a_reader_that_leaves_is_no_traceback() -> None:
    words = [sys.executable, "-m", "serving.bench", "-m", "m", "--url", "127.0.0.1:1"]
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(words, env=python_env(), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    _, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, err) == (141, b"")


def test_results_are_not_lost_at_the_end(tmp_path: Path) -> None:
    words = ["-m", "m", "--url", "127.0.0.1:1", "--json", str(tmp_path / "no" / "o.json")]
    assert session.main(words) == 2, "before anything is asked"
    assert session.main([*words[:-1], str(tmp_path)]) == 2, "a folder"


def test_results_go_through_what_is_no_plain_file(tmp_path: Path) -> None:
    pipe, link, plain = tmp_path / "pipe", tmp_path / "link", tmp_path / "plain.json"
    os.mkfifo(pipe)
    plain.write_text("old")
    link.symlink_to(plain)
    read = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with serving(triton(says(answers()))) as port:
            words = ["-m", "m", "--url", f"127.0.0.1:{port}", "--count", "1"]
            done = session.main([*words, "--csv", str(pipe), "--json", str(link)])
        assert done == 0
        assert os.read(read, 1 << 16).startswith(b"loop,load")
    finally:
        os.close(read)
    assert pipe.is_fifo(), "never replaced by a file: it may be /dev/null"
    assert link.is_symlink()
    assert json.loads(plain.read_text())["points"]


class Scarce(threading.Thread):
    """A thread where the system has two."""

    started = 0

    def start(self) -> None:
        Scarce.started += 1
        if Scarce.started > 2:
            raise RuntimeError("can't start new thread")
        super().start()


def test_more_threads_than_the_system_has_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle(load.LoadWorker):
        def run(self, pace: load.Pace, record: load.Record) -> None:
            while pace.take() >= 0:
                time.sleep(0.001)

    workers = [Idle(None, (), lambda *_: ()) for _ in range(3)]  # type: ignore[arg-type]
    pace = load.ClosedLoop(0, 1 << 62, 0)
    monkeypatch.setattr(threading, "Thread", Scarce)
    with pytest.raises(Problem, match="lets 2 threads start, not 3") as caught:
        load.run(workers, pace)
    assert "at most 2" in caught.value.hint
    assert pace.take() < 0, "those that run do not go on"


def test_a_header_that_is_secret_stands_in_no_result(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def infer(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        says(answers())(connection, request)

    with serving(triton(infer, healthy=0)) as port:
        words = ("--count", "2", "--header", "Authorization: Bearer s3cr3t")
        more = ("--header=Key: it's s3cr3t", "\u2014-header", "X:1")
        status, _ = measured(port, tmp_path, *words, *more)
    assert status == 0
    told = json.loads((tmp_path / "out.json").read_text())["command"]
    assert "--count 2 --header 'Authorization:***' '--header=Key:***'" in told
    assert told.endswith("'X:***'")
    assert f"127.0.0.1:{port}" in told, "a value of one letter hides nothing else"
    assert all(b"Bearer s3cr3t" in request for request in seen)
    assert "s3cr3t" not in (tmp_path / "out.json").read_text()
