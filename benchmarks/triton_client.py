"""Our client of Triton beside others: same server, same model, one run, turn by turn.

    python benchmarks/triton_client.py [--rounds 5] [--seconds 5] [--threads 2] [--batch 1]
        [--only ours,http] [--sink] [--check] [--json FILE] [--venv FOLDER]

(a) a loop as guide 003's client works, (b) tritonclient at its best over HTTP, gRPC and shared
memory, (c) perf_analyzer, (d) ours on the same transports, (e) the model in process. ``--sink``
measures only by how much an open loop is late, against a server that answers at once.

It needs the package index once: Triton and perf_analyzer come in wheels.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from library_env import library_env

from serving.bench import machine
from serving.server import server as triton
from serving.server.server_spec import ServerSpec

PACKAGES = ("nvidia-pytriton==0.7.0", "tritonclient[http,grpc]==2.51.0",
            "nvidia-cuda-runtime-cu12", "numpy<2")  # fmt: skip
MODEL = "rn50-16neuroncores-default"
CONFIG = f"""name: "{MODEL}" backend: "python" max_batch_size: 64
input [ {{ name: "input" data_type: TYPE_FP32 dims: [224, 224, 3] }} ]
output [ {{ name: "output" data_type: TYPE_FP32 dims: [1000] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
PROGRAM = """import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        values = [pb.get_input_tensor_by_name(r, "input").as_numpy() for r in requests]
        first = [np.ascontiguousarray(v.reshape(len(v), -1)[:, :1000]) for v in values]
        return [pb.InferenceResponse([pb.Tensor("output", each)]) for each in first]
"""
LAUNCHER = """#!/bin/sh
PATH={bin}:$PATH
export PATH
tree={tree}
exec $tree/bin/tritonserver --backend-directory $tree/backends --cache-directory $tree/caches "$@"
"""
# Ours on each transport: what it is compared with, and by how much it is to be ahead.
AIMS = (("ours http", "guide", 2.5), ("ours http", "http", 1.0), ("ours grpc", "grpc", 1.0),
        ("ours shared", "shared", 1.0), ("ours http", "perf http", 0.95),
        ("ours grpc", "perf grpc", 0.95), ("ours shared", "perf shared", 0.95))  # fmt: skip
# Our latencies are no longer than perf_analyzer's by more than this, and leave out no more of a
# closed loop's time. They may be shorter: whoever sends less work asks more often.
LATENCY_SHARE = 0.05
SINK_RATES = (5000, 4000, 3000, 2000, 1000, 500)
LATE_MS = 1.0


@dataclass(frozen=True, slots=True)
class Turn:
    """Requests/s, and latencies in ms, of one client in one turn.

    ``outside`` is the share of the wall clock that lies in no latency, where a client tells enough.
    """

    rate: float
    p50: float
    p99: float
    outside: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """An environment with Triton, tritonclient and perf_analyzer."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where its packages lie."""
        return next(self.folder.glob("lib/python3.*/site-packages"))

    @property
    def tree(self) -> Path:
        """Triton itself."""
        return self.packages / "pytriton" / "tritonserver"


def installed(folder: Path) -> Place:
    """Install what is missing."""
    place = Place(folder)
    if not (folder / "bin" / "perf_analyzer").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([place.python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = "triton_python_backend_stub"
    target = place.tree / "backends" / "python" / stub
    if not target.exists():
        source = place.tree / "python_backend_stubs" / version / stub
        target.write_bytes(source.read_bytes())
        target.chmod(0o755)
    library = folder / "b64" / "libb64.so.0d"
    library.parent.mkdir(exist_ok=True)
    if not library.exists():
        found = next((place.packages / "nvidia_pytriton.libs").glob("libb64-*.so.0d"))
        library.symlink_to(found)
    return place


@contextlib.contextmanager
def serving(place: Place, folder: Path) -> Iterator[triton.RunningServer]:
    """Triton with the model."""
    (folder / "models" / MODEL / "1").mkdir(parents=True)
    (folder / "models" / MODEL / "config.pbtxt").write_text(CONFIG)
    (folder / "models" / MODEL / "1" / "model.py").write_text(PROGRAM)
    launcher = folder / "tritonserver"
    launcher.write_text(LAUNCHER.format(bin=place.folder / "bin", tree=place.tree))
    launcher.chmod(0o755)
    wanted = ServerSpec(str(launcher), str(folder / "models"))
    with triton.running(wanted, folder / "server") as found:
        yield found


@dataclass(frozen=True, slots=True)
class Bench:
    """What all clients have in common."""

    place: Place
    server: triton.RunningServer
    folder: Path
    batch: int
    seconds: float
    threads: int

    def rival(self, way: str) -> Turn:
        """A client of ``triton_rivals.py``."""
        url = self.server.grpc_url if way == "grpc" else self.server.url
        words = [self.place.python, Path(__file__).with_name("triton_rivals.py"), way, url, MODEL,
                 self.batch, self.seconds, self.threads]  # fmt: skip
        return Turn(**json.loads(_output(words, dict(os.environ))))

    def analyzer(self, way: str) -> Turn:
        """perf_analyzer; its rate is in samples/s, its latencies in us."""
        out = self.folder / "perf.csv"
        protocol = "grpc" if way == "grpc" else "http"
        url = self.server.grpc_url if way == "grpc" else self.server.url
        words = [self.place.folder / "bin" / "perf_analyzer", "-m", MODEL, "-u", url]
        words += ["-i", protocol, "-b", self.batch, "--concurrency-range", self.threads, "--sync"]
        words += ["-f", out, "-s", 999, "-r", 10, "-p", int(self.seconds * 1000 / 3)]
        words += ["--shared-memory", "system"] if way == "shared" else []
        libraries = [self.place.packages / "nvidia" / "cuda_runtime" / "lib",
                     self.place.folder / "b64"]  # fmt: skip
        _output(words, os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, libraries))})
        with out.open(encoding="utf-8") as file:
            row = next(csv.DictReader(file))
        rate = float(row["Inferences/Second"]) / self.batch
        return Turn(rate, float(row["p50 latency"]) / 1e3, float(row["p99 latency"]) / 1e3)

    def ours(self, way: str) -> Turn:
        """Our program, in the same environment."""
        url = self.server.grpc_url if way == "grpc" else self.server.url
        words = ["-m", MODEL, "-b", self.batch, "-t", self.threads, "-l", self.seconds, "-k",
                 "--url", url, "--protocol", "grpc" if way == "grpc" else "http",
                 "--shared_memory", "system" if way == "shared" else "none"]  # fmt: skip
        point = our_point(self.place.python, words, self.folder)
        found = point["latency"]
        outside = 1 - point["rate"] * found["mean"] / 1e3 / self.threads
        return Turn(point["rate"], found["p50"], found["p99"], outside)


def our_point(python: Path, words: Sequence[Any], folder: Path) -> dict[str, Any]:
    """One measurement of our program."""
    out = folder / "ours.json"
    env = library_env()
    _output([python, "-m", "serving.bench", *words, "--json", out], env)
    point: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))["points"][0]
    return point


def _output(words: Sequence[Any], env: dict[str, str]) -> str:
    told = [str(word) for word in words]
    done = subprocess.run(told, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words[0]} failed:\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}")
    return done.stdout


def clients(bench: Bench) -> dict[str, Callable[[], Turn]]:
    """All of them, in the order of their turns."""
    ways = ("http", "grpc", "shared")
    return {
        "guide": partial(bench.rival, "guide"),
        **{way: partial(bench.rival, way) for way in ways},
        **{f"perf {way}": partial(bench.analyzer, way) for way in ways},
        **{f"ours {way}": partial(bench.ours, way) for way in ways},
        "in process": partial(bench.rival, "in process"),
    }


def compare(turns: dict[str, list[Turn]]) -> list[tuple[str, float, float, bool]]:
    """What is to be reached: its name, the aim, the median of the rounds' ratios, and whether."""
    found = []
    for ours, other, aim in AIMS:
        if turns.get(ours) and turns.get(other):
            pairs = zip(turns[ours], turns[other], strict=True)
            ratio = statistics.median(one.rate / two.rate for one, two in pairs)
            found.append((f"{ours} / {other}", aim, ratio, ratio >= aim))
            if other.startswith("perf"):
                found += _honest(turns, ours, other)
    return found


def _honest(
    turns: dict[str, list[Turn]], ours: str, other: str
) -> Iterator[tuple[str, float, float, bool]]:
    """Whether our latencies are those of the requests, and all of them."""
    longest = 1 + LATENCY_SHARE
    ratio = _median(turns[ours], "p50") / _median(turns[other], "p50")
    yield f"{ours} / {other}, p50 (at most)", longest, ratio, ratio <= longest
    outside = _median(turns[ours], "outside")
    name = f"{ours}, time outside of latencies (at most)"
    yield name, LATENCY_SHARE, outside, outside <= LATENCY_SHARE


def _median(turns: Sequence[Turn], name: str) -> float:
    return float(statistics.median(getattr(turn, name) for turn in turns))


# ---------------------------------------------------------------- the sink

SINK_MODEL = {"name": "m", "versions": ["1"], "platform": "",
              "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
              "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]}  # fmt: skip


def _page(told: Any) -> bytes:
    text = json.dumps(told).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


def sink(listener: socket.socket) -> None:
    """A server that answers at once, whatever it is asked: what is late is the client."""
    output = {"name": "y", "datatype": "FP32", "shape": [1, 1],
              "parameters": {"binary_data_size": 4}}  # fmt: skip
    text = json.dumps({"outputs": [output]}).encode()
    head = f"HTTP/1.1 200 OK\r\nInference-Header-Content-Length: {len(text)}\r\n"
    answer = f"{head}Content-Length: {len(text) + 4}\r\n\r\n".encode() + text + bytes(4)
    pages = {b"/v2": _page({"name": "sink", "version": "1", "extensions": []}),
             b"/v2/models/m": _page(SINK_MODEL),
             b"/v2/models/m/config": _page({"max_batch_size": 1})}  # fmt: skip
    import selectors

    chosen = selectors.DefaultSelector()
    chosen.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in chosen.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                chosen.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj  # type: ignore[assignment]
            asked = connection.recv(1 << 16)
            if not asked:
                chosen.unregister(connection)
                connection.close()
                continue
            path = asked.split(b" ", 2)[1]
            connection.sendall(answer if path.endswith(b"/infer") else pages.get(path, answer))


def kept_rate(rows: Sequence[tuple[int, float, float, float]]) -> str:
    """The highest rate that was sent on schedule, in words."""
    rates = [rate for rate, _, p99, _ in rows if p99 < LATE_MS]
    found = f"{max(rates)} 1/s" if rates else f"below {min(SINK_RATES)} 1/s"
    return f"open loop: highest rate with p99 less than {LATE_MS:g} ms late: {found}"


def schedule(folder: Path, seconds: float) -> list[tuple[int, float, float, float]]:
    """For each rate: by how much requests were late at p50 and p99 (ms), and what came of it."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    process = os.fork()
    if process == 0:
        with contextlib.suppress(KeyboardInterrupt, ConnectionError):
            sink(listener)
        os._exit(0)
    listener.close()
    rows = []
    try:
        for rate in SINK_RATES:
            words = ["-m", "m", "--url", f"127.0.0.1:{port}", "--rate", rate, "--duration", seconds,
                     "--connections", 16]  # fmt: skip
            point = our_point(Path(sys.executable), words, folder)
            late = point["late"]
            rows.append((rate, late["p50"], late["p99"], point["rate"]))
            if late["p99"] < LATE_MS:
                break
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
    return rows


# ---------------------------------------------------------------- the table


def show(turns: dict[str, list[Turn]]) -> None:
    print(f"{'client':14} {'requests/s':>12} {'p50 ms':>9} {'p99 ms':>9}")
    for name, each in turns.items():
        if each:
            print(f"{name:14} {_median(each, 'rate'):12.1f} {_median(each, 'p50'):9.3f} "
                  f"{_median(each, 'p99'):9.3f}")  # fmt: skip
    for name, aim, value, reached in compare(turns):
        print(f"{name:46} {value:7.3f} (aim {aim:g}) {'reached' if reached else 'MISSED'}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--sink", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", default="")
    parser.add_argument("--venv", default="")
    return parser.parse_args()


def rounds(asked: argparse.Namespace, folder: Path) -> dict[str, list[Turn]]:
    place = installed(Path(asked.venv).absolute() if asked.venv else folder / "venv")
    with serving(place, folder) as found:
        bench = Bench(place, found, folder, asked.batch, asked.seconds, asked.threads)
        chosen = clients(bench)
        only = asked.only.split(",") if asked.only else list(chosen)
        turns: dict[str, list[Turn]] = {name: [] for name in chosen if name in only}
        for number in range(asked.rounds):
            for name, each in turns.items():
                each.append(chosen[name]())
            print(f"round {number + 1} of {asked.rounds}", file=sys.stderr)
    return turns


def main() -> int:
    asked = arguments()
    before = machine.moment(None)
    turns: dict[str, list[Turn]] = {}
    with tempfile.TemporaryDirectory(prefix="triton-client-") as name:
        if not asked.sink:
            turns = rounds(asked, Path(name))
            show(turns)
        rows = schedule(Path(name), asked.seconds)
    for rate, p50, p99, reached in rows:
        print(f"open loop {rate} 1/s: late by p50 {p50:.3f}, p99 {p99:.3f} ms ({reached:.0f} 1/s)")
    print(kept_rate(rows))
    after = machine.moment(None)
    stolen = (after.stolen - before.stolen) / (after.at - before.at)
    print(f"load {before.load} before, {after.load} after; {stolen:.3f} processors stolen")
    if asked.json:
        told = {"turns": {name: [asdict(t) for t in each] for name, each in turns.items()},
                "aims": compare(turns), "schedule": rows, "load": [before.load, after.load],
                "stolen": stolen, "host": asdict(machine.host())}  # fmt: skip
        Path(asked.json).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    missed = any(not reached for *_, reached in compare(turns)) or rows[-1][2] >= LATE_MS
    return 1 if asked.check and missed else 0


if __name__ == "__main__":
    # Threads of the sink's parent would not survive its fork; there are none yet.
    assert threading.active_count() == 1
    sys.exit(main())
