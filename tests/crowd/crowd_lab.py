"""A small manifest and what signs it, for tests of the crowd."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from samples import log

from cmbench_crowd import manifest as m
from cmbench_crowd_server.ledger import sender_of
from support import HANG_S, LIB, python_env

ID = "0123456789ab4cde8f00112233445566"
ROUND = "5.1"
ACCURACY = m.ManifestMetric("accuracy", 91.0, "%")
"""What bert-99 needs at least a little less of."""
DETAIL, SUMMARY = "mlperf_log_detail.txt", "mlperf_log_summary.txt"
OF_ACCURACY = f"accuracy/{DETAIL}"
ROLES = {
    "performance-detail": DETAIL,
    "performance-summary": SUMMARY,
    "accuracy-detail": OF_ACCURACY,
    "accuracy-summary": f"accuracy/{SUMMARY}",
    "accuracy-log": "accuracy/mlperf_log_accuracy.json",
}
"""The logs of a result by their roles, as paths in its folder."""
Logs = dict[str, bytes]
Served = Callable[[], tuple["subprocess.Popen[str]", str]]
"""Starts a server: its process, and its address."""


def run_logs(folder: Path, seeds: Sequence[str]) -> list[Logs]:
    """Real runs of LoadGen at once, each answered after two seconds, one for each of ``seeds``.

    Those are a round's, or follow from the seed of a work unit. Each takes 10 ms more than the one
    before: LoadGen's figures have six digits, and two results of one figure and one moment are one.
    """
    program = Path(__file__).parent / "loadgen_once.py"
    places = [folder / str(number) for number in range(len(seeds))]
    runs = [
        subprocess.Popen(
            [sys.executable, program, place, str(2 + number / 100), seed], env=python_env(LIB)
        )
        for number, (place, seed) in enumerate(zip(places, seeds, strict=True))
    ]
    for run in runs:
        assert run.wait(HANG_S) == 0
    # The answers would make every upload eight times as long.
    names = [name for role, name in ROLES.items() if role != "accuracy-log"]
    return [{name: (place / name).read_bytes() for name in names} for place in places]


def figure(detail: bytes) -> float:
    """The samples per second of a long log."""
    found = re.search(rb'"result_samples_per_second", "value": ([\d.e+]+)', detail)
    assert found
    return float(found[1])


def public_of(key: Ed25519PrivateKey) -> str:
    return m.key_text(key.public_key().public_bytes_raw())


def sample(key: Ed25519PrivateKey | None = None, **changes: Any) -> m.Manifest:
    """A manifest of level 3 with two files."""
    told = m.Manifest(
        id=ID,
        created="2026-11-23",
        consent=m.LOGS,
        key=public_of(key or Ed25519PrivateKey.generate()),
        system=m.ManifestSystem(
            cpu="Intel CPU @ 2.60GHz", architecture="x86_64", cores=2, memory_gb=25.3
        ),
        software=m.ManifestSoftware(os="Linux 6.1", versions={"onnxruntime": "1.32.0"}),
        workload=m.ManifestWorkload(
            suite="mlperf-inference",
            round="5.1",
            benchmark="bert-99",
            model="bert-large",
            dataset="squad",
            scenario="Offline",
            mode="performance",
            division="closed",
            category="edge",
            precision="float32",
        ),
        config=m.ManifestConfig(backend="onnxruntime", device="cpu", style="valid"),
        metrics=(m.ManifestMetric("result", 12.5, "samples/s"),),
        files=(
            m.ManifestFile(
                "performance-detail", "mlperf_log_detail.txt", "0" * 64, 10, "text/plain"
            ),
            m.ManifestFile("accuracy-detail", DETAIL, "1" * 64, 10, "text/plain"),
        ),
    )
    return replace(told, **changes)


def sign(key: Ed25519PrivateKey, data: bytes) -> str:
    return m.to_text(key.sign(data))


COMMAND = "cm run script --tags=run-mlperf,inference,_tiny --model=resnet50 --scenario=Offline"


def measured(folder: Path, extra: Sequence[str] = (), **changes: Any) -> Path:
    """A folder as a run of the harness leaves it, with one Offline result and its logs.

    ``extra`` are lines at the end of its logs.
    """
    place = folder / "offline" / "performance" / "run_1"
    log(
        place,
        "Offline",
        result_samples_per_second=1000.0,
        result_query_count=5000,
        **{"result_99.00_percentile_latency_ns": 1_500_000},
    )
    (place / "mlperf_log_summary.txt").write_text(
        "SUT name : PyFastSUT\nScenario : Offline\nSamples per second: 1000\nResult is : VALID\n"
    )
    accuracy = folder / "offline" / "accuracy"
    log(accuracy, "Offline")
    (accuracy / "mlperf_log_accuracy.json").write_text(
        '[\n{ "seq_id" : 0, "qsl_idx" : 3, "data" : "0A000000" },\n'
        '{ "seq_id" : 1, "qsl_idx" : 5, "data" : "01000000", "token_count" : 7 }\n]\n'
    )
    for path in (*place.iterdir(), *accuracy.iterdir()):
        with open(path, "a", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in extra)
    around = {
        "measured_at": "2026-11-22T15:26:34+00:00",
        "versions": {"onnxruntime": "1.32.0", "loadgen": "6.0.17"},
        "command": COMMAND,
    }
    told: dict[str, Any] = {
        "benchmark": "resnet50",
        "form": "tiny",
        "backend": "onnxruntime",
        "device": "cpu",
        "style": "test",
        "division": "closed",
        "round": "6.1",
        "sut": "box-cmbench-cpu-onnxruntime-v1.32.0-default_config",
        "precision": "float32",
        "model": {"name": "resnet50_tiny"},
        "dataset": {"name": "digits"},
        "host": {
            "system": "Linux 6.18.44",
            "cpu_model": "Intel CPU @ 2.60GHz",
            "cores_usable": 2,
            "memory_bytes": 25276063744,
        },
        "versions": around["versions"],
        "results": [
            {
                "scenario": "Offline",
                "value": 1000.0,
                "unit": "samples/s",
                "validity": "VALID",
                "accuracy": 98.5,
                "accuracy_unit": "%",
                "performance_run": {
                    "value": 1000.0,
                    "duration_s": 5.0,
                    "circumstances": around,
                    "shape": {"workers": 2, "threads": 1, "batch": 4},
                    "targets": {"qps": 900.0, "origin": "calibration"},
                    "latencies_ms": {"99.00": 1.5},
                },
                "accuracy_run": {"circumstances": around},
            }
        ],
    }
    (folder / "results.json").write_text(json.dumps({**told, **changes}), encoding="utf-8")
    return folder


def really_measured(folder: Path, logs: Logs, **changes: Any) -> Path:
    """``measured``, with a performance run of the real LoadGen and nothing else."""
    value = figure(logs[DETAIL])
    told = {"benchmark": "bert-99", "round": ROUND, "model": {"name": "bert-large"}, **changes}
    measured(folder, **{"dataset": {"name": "squad"}, **told})
    path = folder / "results.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    known["results"][0]["value"] = known["results"][0]["performance_run"]["value"] = value
    known["results"][0]["accuracy"] = None
    known["results"][0]["performance_run"]["targets"]["qps"] = 1000.0
    # The log is of today.
    today = datetime.now(timezone.utc).isoformat()
    known["results"][0]["performance_run"]["circumstances"]["measured_at"] = today
    # What answers without computing is as fast as a large machine.
    known["host"]["cores_usable"] = 64
    path.write_text(json.dumps(known), encoding="utf-8")
    shutil.rmtree(folder / "offline" / "accuracy")
    for name in (DETAIL, SUMMARY):
        (folder / "offline" / "performance" / "run_1" / name).write_bytes(logs[name])
    return folder


class Faulty:
    """A server of results on loopback that keeps what it gets, and fails as a test wants.

    ``fault`` gets each request with its number, and says whether it has answered already.
    """

    def __init__(self, fault: Callable[[Request, int], bool] = lambda request, number: False):
        self.fault, self.seen = fault, 0
        self.runs: dict[str, dict[str, Any]] = {}
        lab = self

        class Handler(Request):
            server_lab = lab

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Faulty:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(HANG_S)
        self._server.server_close()


class Request(BaseHTTPRequestHandler):
    """One request to ``Faulty``."""

    server_lab: Faulty
    protocol_version = "HTTP/1.1"
    timeout = 20

    def handle_one_request(self) -> None:
        with suppress(OSError):
            super().handle_one_request()

    def log_message(self, *_: object) -> None: ...

    def answer(self, status: int, told: Any = None, **headers: str) -> None:
        body = b"" if told is None else json.dumps(told).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _any(self) -> None:
        lab = self.server_lab
        lab.seen += 1
        size = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(size)
        if not lab.fault(self, lab.seen):
            getattr(self, f"on_{self.command.lower()}")(self.path.split("/")[4:])

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _any  # noqa: N815

    def on_post(self, parts: list[str]) -> None:
        if parts:
            run = self.server_lab.runs[parts[0]]
            whole = all(m.digest(bytes(data)) == sha for sha, data in run["files"].items())
            run["final"] = whole
            self.answer(202 if whole else 409, {})
            return
        told = m.verify(self.body, self.headers[m.SIGNATURE_HEADER])
        assert self.headers["Idempotency-Key"] == m.digest(self.body)
        run = self.server_lab.runs.setdefault(
            told.id, {"data": self.body, "files": {f.sha256: bytearray() for f in told.files}}
        )
        sizes = {each.sha256: each.bytes for each in told.files}
        wanted = [
            {"sha256": sha, "offset": len(data)}
            for sha, data in run["files"].items()
            if len(data) < sizes[sha]
        ]
        self.answer(201, {"id": told.id, "wanted": wanted, "delete_token": f"token-{told.id}"})

    def on_put(self, parts: list[str]) -> None:
        kept = self.server_lab.runs[parts[0]]["files"][parts[2]]
        start, end = self.headers["Content-Range"].split()[1].partition("/")[0].split("-")
        packed = self.headers.get("Content-Encoding") == "gzip"
        data = gzip.decompress(self.body) if packed else self.body
        if int(start) != len(kept):
            self.answer(409, {"code": "offset", "detail": "elsewhere"})
            return
        assert len(data) == int(end) - int(start) + 1
        kept += data
        self.answer(204)

    def on_head(self, parts: list[str]) -> None:
        kept = self.server_lab.runs[parts[0]]["files"][parts[2]]
        self.answer(204, None, Upload_Offset=str(len(kept)))

    def on_get(self, parts: list[str]) -> None:
        if not parts:
            self.answer(204)
            return
        self.answer(200, {"id": parts[0], "state": "quarantine", "tier": "uploaded", "checks": []})

    def on_delete(self, parts: list[str]) -> None:
        fits = self.headers.get("X-Cmbench-Delete-Token") == f"token-{parts[0]}"
        if fits:
            self.server_lab.runs.pop(parts[0], None)
        self.answer(204 if fits else 403, None if fits else {"code": "token", "detail": "no"})


class Volunteer:
    """One device: a key, and what it sends over HTTP."""

    def __init__(self, client: Any, base: str = "") -> None:
        self.key = Ed25519PrivateKey.generate()
        self.client = client
        self.base = base
        self.headers: dict[str, str] = {}

    @property
    def name(self) -> str:
        """What pages call it by."""
        return sender_of(public_of(self.key))

    def manifest(self, logs: Logs, value: float | None = None, **changes: Any) -> m.Manifest:
        files = tuple(
            m.ManifestFile(
                role, Path(name).name, m.digest(logs[name]), len(logs[name]), "text/plain"
            )
            for role, name in ROLES.items()
            if name in logs
        )
        value = figure(logs[DETAIL]) if value is None and DETAIL in logs else value
        told = sample(
            self.key,
            id=uuid.uuid4().hex,
            created=datetime.now(timezone.utc).date().isoformat(),
            # What answers without computing is as fast as a large machine.
            system=m.ManifestSystem(cpu="Intel CPU @ 2.60GHz", architecture="x86_64", cores=64),
            files=files,
            metrics=(m.ManifestMetric("result", value or 1.0, "samples/s"), ACCURACY),
            config=m.ManifestConfig(backend="onnxruntime", device="cpu", style="test"),
        )
        return replace(told, **changes)

    def post(self, told: m.Manifest, **more: str) -> Any:
        return self.post_bytes(m.encode(told), **more)

    def post_bytes(self, data: bytes, **more: str) -> Any:
        headers = {m.SIGNATURE_HEADER: sign(self.key, data), "Idempotency-Key": m.digest(data)}
        headers |= self.headers | more
        return self.client.post(f"{self.base}/api/v1/runs", content=data, headers=headers)

    def put(self, run: str, data: bytes, start: int = 0, end: int = 0, **more: str) -> Any:
        body = data[start : end or len(data)]
        headers = {"Content-Range": f"bytes {start}-{start + len(body) - 1}/{len(data)}"}
        return self.put_body(run, hashlib.sha256(data).hexdigest(), body, **headers, **more)

    def put_body(self, run: str, sha256: str, body: bytes, **headers: str) -> Any:
        path = f"{self.base}/api/v1/runs/{run}/files/{sha256}"
        return self.client.put(path, content=body, headers=self.headers | headers)

    def send(self, logs: Logs, **changes: Any) -> str:
        """All of one upload; returns its id."""
        told = self.manifest(logs, **changes)
        assert self.post(told).status_code == 201
        for each in told.files:
            assert self.put(told.id, logs[ROLES[each.role]]).status_code == 204
        done = self.client.post(f"{self.base}/api/v1/runs/{told.id}/finalize", headers=self.headers)
        assert done.status_code == 202, done.text
        return told.id

    def get(self, run: str) -> dict[str, Any]:
        told: dict[str, Any] = self.client.get(f"{self.base}/api/v1/runs/{run}").json()
        return told


class Http:
    """``requests`` with the words of starlette's client."""

    def post(self, path: str, content: bytes = b"", headers: Any = None) -> Any:
        return requests.post(path, data=content, headers=headers, timeout=HANG_S)

    def put(self, path: str, content: bytes, headers: Any) -> Any:
        return requests.put(path, data=content, headers=headers, timeout=HANG_S)

    def get(self, path: str) -> Any:
        return requests.get(path, timeout=HANG_S)


def checked(crowd: Any) -> None:
    while crowd.checker.step():
        pass


def words(told: dict[str, Any]) -> list[str]:
    return [each["words"] for each in told["checks"] if each["passed"] is False]
