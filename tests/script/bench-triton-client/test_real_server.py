"""The client against a real Triton: guide 003's lines, transports, killed clients and servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tls_lab
import triton_lab
from serving.kserve import KserveError, Region, connect
from serving.server import server
from serving.server.server import RunningServer
from serving.server.server_spec import ServerSpec
from support import HANG_S, Finished, run, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.needs_index]

RN50 = "rn50-16neuroncores-default"
CONFIG = """
name: "{name}" backend: "python" max_batch_size: 64
input [ {{ name: "{input}" data_type: TYPE_FP32 dims: [{dims}] }} ]
output [ {{ name: "{output}" data_type: TYPE_FP32 dims: [{out}] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
# All that Python of Triton has, and what requests are not asked one by one of.
TYPES = ("BOOL", "INT8", "UINT64", "FP16", "FP64", "STRING")
KINDS = {
    "types": "\n".join(
        f'input [ {{ name: "X{n}" data_type: TYPE_{each} dims: [3] }} ]'
        f' output [ {{ name: "Y{n}" data_type: TYPE_{each} dims: [3] }} ]'
        for n, each in enumerate(TYPES)
    ),
    "stream": "model_transaction_policy { decoupled: true }",
    "sequence": "sequence_batching { }",
    "versions": "version_policy: { specific { versions: [1, 3] } }",
}
ECHO = """
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb.InferenceResponse(
                [pb.Tensor("Y" + x.name()[1:], x.as_numpy()) for x in request.inputs()]
            )
            for request in requests
        ]
"""
ONE = """
input [ { name: "X" data_type: TYPE_FP32 dims: [2] },
        { name: "X2" data_type: TYPE_FP32 dims: [-1] optional: true } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [2] } ]
"""
PROGRAM = """
import time
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb.get_input_tensor_by_name(request, "{input}").as_numpy()
            y = {code}
            answers.append(pb.InferenceResponse([pb.Tensor("{output}", y)]))
        return answers
"""
# Name, input, its shape, output, its shape, what is computed.
FIRST = "np.ascontiguousarray(x.reshape(len(x), -1)[:, :10])"
MODELS = (
    (RN50, "input", "224, 224, 3", "output", "10", FIRST),
    ("echo", "INPUT__0", "-1", "OUTPUT__0", "-1", "x"),
    ("nan", "INPUT__0", "4", "OUTPUT__0", "4", "x * np.float32('nan')"),
    ("short", "INPUT__0", "4", "OUTPUT__0", "4", "np.ascontiguousarray(x[:, :3])"),
)  # fmt: skip


def write_models(folder: Path) -> None:
    for name, given, dims, output, out, code in MODELS:
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(
            CONFIG.format(name=name, input=given, dims=dims, output=output, out=out)
        )
        program = PROGRAM.format(input=given, output=output, code=code)
        (folder / name / "1" / "model.py").write_text(program)


def write_kinds(folder: Path) -> None:
    for name, kind in KINDS.items():
        for version in ("1", "2", "3") if name == "versions" else ("1",):
            (folder / name / version).mkdir(parents=True)
            (folder / name / version / "model.py").write_text(ECHO)
        head = f'name: "{name}" backend: "python" max_batch_size: 8 '
        rest = kind if name == "types" else f"{kind} {ONE}"
        (folder / name / "config.pbtxt").write_text(head + rest)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("served")
    write_models(folder / "models")
    write_kinds(folder / "models")
    wanted = ServerSpec(str(triton_lab.installed().launcher), str(folder / "models"))
    with server.running(wanted, folder / "server") as found:
        yield found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as ``--install_dir`` puts it somewhere, without this repository."""
    folder = tmp_path_factory.mktemp("installed")
    home = triton_lab.installed().home
    home.cm("run", "script", "--tags=bench,triton-client", f"--install_dir={folder}").ok()
    return folder / "triton-http-client.py"


def client(program: Path, line: str, **more: object) -> Finished:
    # Not of this process's packages: it needs nothing but Python.
    words = [sys.executable, "-I", str(program), *line.split()]
    return run(words, cwd=program.parent, timeout=HANG_S, **more)


def abandoned() -> list[str]:
    """Names of shared memory whose process has ended: those of other tests may live."""
    names = [name for name in os.listdir("/dev/shm") if name.startswith("kserve-")]
    return [name for name in names if not Path("/proc", name.split("-")[2]).exists()]


NUMBER = r"\d+(\.\d+)?(e-\d+)?"
GUIDE = rf"""PASS: {RN50}
##### Model inference time in ms: {NUMBER}
##### WARMUP COMPLETE, NOW DO BENCHMARK #####
##### Model name: {RN50}, Batch size: 16
RUN Thread 0 for 0:00:02 seconds
RUN Thread 1 for 0:00:02 seconds
>>> Running 2 threads
Thread 0: Completed \d+ http requests in {NUMBER} seconds.
Thread 0 Throughput per second: {NUMBER}
Thread 0 Latency p50 in ms: {NUMBER}
Thread 0 Latency p75 in ms: {NUMBER}
Thread 0 Latency p95 in ms: {NUMBER}
Thread 0 Latency p99 in ms: {NUMBER}
Thread 1: Completed \d+ http requests in {NUMBER} seconds.
Thread 1 Throughput per second: {NUMBER}
Thread 1 Latency p50 in ms: {NUMBER}
Thread 1 Latency p75 in ms: {NUMBER}
Thread 1 Latency p95 in ms: {NUMBER}
Thread 1 Latency p99 in ms: {NUMBER}
"""


def test_the_guide_line_by_line(served: RunningServer, program: Path) -> None:
    line = f"--model_name {RN50} --batch_size 16 \u2014-benchmark --limit 2 \u2014-num_threads 2"
    done = client(program, f"{line} --url {served.url}").ok()
    lines = done.stdout.splitlines()
    for wanted, is_ in zip(GUIDE.splitlines(), lines, strict=False):
        assert re.fullmatch(wanted, is_), f"{is_!r} in place of {wanted!r}"
    assert "\u2014-benchmark has a typographic dash; it is read as --benchmark" in done.stderr
    alone = client(
        program,
        f"--model_name {RN50} --batch_size 16 --limit 30 --num_threads 1 --url {served.url}",
    ).ok()
    first, second, third = alone.stdout.splitlines()
    assert (first, second) == (f"Model name = {RN50}, batch size = 16", f"PASS: {RN50}")
    assert re.fullmatch(rf"##### Model inference time in ms: {NUMBER}", third)


@pytest.mark.parametrize("memory", ["none", "system"])
def test_texts_and_empty_tensors_lie_in_shared_memory_too(
    served: RunningServer, program: Path, memory: str
) -> None:
    line = f"--url {served.url} --shared_memory {memory} --count 20 -b 2"
    client(program, f"-m types {line}").ok()
    client(program, f"-m echo --shape INPUT__0:0 {line}").ok()


def test_models_of_every_kind_are_asked_or_explained(served: RunningServer, program: Path) -> None:
    client(program, f"-m versions --model_version 3 --url {served.url}").ok()
    lines = {
        "-m versions --model_version 2": "next: it has --model_version=1, 3",
        "-m stream": "answers in a stream (decoupled)",
        "-m sequence": "wants sequences of requests",
    }
    for line, words in lines.items():
        done = client(program, f"{line} --url {served.url}")
        assert done.status == 1
        assert words in done.stderr, done.stderr


@pytest.mark.parametrize("memory", ["none", "system"])
@pytest.mark.parametrize("load", ["--concurrency 2", "--rate 100 --distribution poisson"])
def test_figures_are_those_of_the_server(
    served: RunningServer, program: Path, tmp_path: Path, memory: str, load: str
) -> None:
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "markdown")}
    line = f"-m echo -b 4 --shape INPUT__0:100 --duration 1 --shared_memory {memory} {load}"
    words = " ".join(f"--{kind} {path}" for kind, path in files.items())
    client(program, f"{line} {words} --url {served.url}").ok()
    told = json.loads(files["json"].read_text())
    (point,) = told["points"]
    assert point["requests"] == point["server"]["requests"] == point["latency"]["count"] > 0
    assert point["server"]["samples"] == 4 * point["requests"]
    assert [batch["size"] for batch in point["server"]["batches"]] == [4]
    assert point["server"]["total_ms"] < point["latency"]["mean"]
    assert not point["failures"]
    assert point["costs"]["server"] > 0
    assert len(files["csv"].read_text().splitlines()) == 2
    assert "| server: queue |" in files["markdown"].read_text()
    wait_for(lambda: not abandoned())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-m nan", "no finite"),
        ("-m short", "shape [1, 3], not [1, 4]"),
        ("-m echo", "--shape=INPUT__0:N"),
        ("-m echoo", "did you mean echo?"),
        ("-m echo -b 65 --shape INPUT__0:1", "at most 64"),
        ("-m echo --model_version 7 --shape INPUT__0:1", "7"),
    ],
)
def test_a_model_that_is_not_right_is_no_pass(
    served: RunningServer, program: Path, line: str, words: str
) -> None:
    done = client(program, f"{line} --url {served.url} --benchmark --limit 1")
    assert done.status == 1
    assert words in done.stderr
    assert "WARMUP" not in done.stdout


def test_the_highest_rate_under_a_bound_is_found(
    served: RunningServer, program: Path, tmp_path: Path
) -> None:
    line = f"-m echo --shape INPUT__0:10 --search_p99_ms 500 --duration 0.3 --url {served.url}"
    done = client(program, f"{line} --json {tmp_path / 'out.json'} --connections 4")
    told = json.loads((tmp_path / "out.json").read_text())
    assert len(told["tries"]) > 1, done.stderr
    # On a busy host it may be that no rate keeps it, which is said as well.
    rate = told["highest_rate"]
    # A rate that was not confirmed is below those that were tried last.
    assert rate is None or rate <= max(each["qps"] for each in told["tries"])
    begin = "Highest rate with" if rate else "No rate keeps"
    assert f"{begin} p99 below 500 ms" in done.stdout


def test_a_killed_client_leaves_no_shared_memory(served: RunningServer, program: Path) -> None:
    line = "-m echo -b 64 --shape INPUT__0:20000 --shared_memory system --duration 30"
    words = [sys.executable, str(program), *line.split(), "--url", served.url]
    count = int(os.environ.get("CMBENCH_KILLS", "6"))
    for number in range(count):
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        # A Python that is just starting may lose a Ctrl-C; this one has asked the model.
        assert process.stdout.readline() == "PASS: echo\n"
        time.sleep(0.6 * number / count)
        process.send_signal(signal.SIGKILL if number % 2 else signal.SIGINT)
        process.communicate(timeout=HANG_S)
        assert process.returncode in (-signal.SIGKILL, 130)
    wait_for(lambda: not abandoned())
    with connect(served.url) as connection:
        # The next one to make a region has the server forget those of the dead.
        Region(connection, 4096).close()
        assert not connection.regions()


def test_models_are_loaded_described_and_refused(served: RunningServer) -> None:
    with connect(served.url) as connection:
        assert connection.server().name == "triton"
        assert connection.live()
        assert connection.ready("echo")
        assert not connection.ready("none")
        assert {each.name for each in connection.index()} == {
            *(model[0] for model in MODELS),
            *KINDS,
        }
        assert connection.model(RN50).inputs[0].shape == (-1, 224, 224, 3)
        assert connection.config("echo")["max_batch_size"] == 64
        with pytest.raises(KserveError) as caught:
            connection.load("none")
    assert caught.value.kind == "status"


def test_a_server_that_dies_is_counted(program: Path, tmp_path: Path) -> None:
    write_models(tmp_path / "models")
    for name in (RN50, "nan", "short"):
        shutil.rmtree(tmp_path / "models" / name)
    wanted = ServerSpec(str(triton_lab.installed().launcher), str(tmp_path / "models"))
    line = f"-m echo --shape INPUT__0:10 --concurrency 2 --duration 4 --json {tmp_path}/o.json"
    with server.running(wanted, tmp_path / "server") as found:
        words = [sys.executable, str(program), *line.split(), "--url", found.url]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        while "WARMUP" not in process.stdout.readline():
            pass
        with connect(found.url) as connection:
            warm = connection.statistics("echo").inferences
            wait_for(lambda: connection.statistics("echo").inferences > warm + 10)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    told = json.loads((tmp_path / "o.json").read_text())["points"][0]
    assert told["requests"] > 0
    assert set(told["failures"]) <= {"refused", "reset", "status"}
    assert told["failures"]["refused"] > 0
    assert "requests failed" in err


@pytest.mark.parametrize("memory", ["none", "system"])
def test_grpc_gives_the_same(served: RunningServer, tmp_path: Path, memory: str) -> None:
    out = tmp_path / "out.json"
    words = ["--tags=bench,triton-client", "--protocol=grpc", f"--url={served.grpc_url}"]
    words += ["--model_name=echo", "--batch_size=4", "--shape=INPUT__0:100", "--concurrency=2"]
    words += ["--duration=1", f"--shared_memory={memory}", f"--json={out}"]
    triton_lab.installed().home.cm("run", "script", *words).ok()
    (point,) = json.loads(out.read_text())["points"]
    assert point["requests"] == point["server"]["requests"] > 0
    assert point["server"]["samples"] == 4 * point["requests"]
    assert not point["failures"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tls_by_an_authority_of_ones_own(
    served: RunningServer, tmp_path: Path, protocol: str
) -> None:
    known, out = tls_lab.authority(tmp_path), tmp_path / "out.json"
    plain = served.url if protocol == "http" else served.grpc_url
    with tls_lab.relay(int(plain.rpartition(":")[2]), known) as port:
        words = ["--tags=bench,triton-client", f"--protocol={protocol}", "--model_name=echo"]
        words += [f"--url=https://localhost:{port}", "--shape=INPUT__0:1000", "--duration=0.5"]
        home = triton_lab.installed().home
        home.cm("run", "script", *words, f"--tls_ca={known.ca}", f"--json={out}").ok()
        (point,) = json.loads(out.read_text())["points"]
        assert point["requests"] > 0
        assert not point["failures"]
        replace(home, extra_env={"SSL_CERT_FILE": str(known.ca)}).cm("run", "script", *words).ok()
        strange = home.cm("run", "script", *words)
        assert strange.status != 0
        assert "certificate" in strange.stderr.lower()
        missing = home.cm("run", "script", *words, "--tls_ca=nowhere.pem")
        assert missing.status != 0
        assert "nowhere.pem" in missing.stderr


def test_one_command_from_a_model_to_a_page(tmp_path: Path) -> None:
    home, page = triton_lab.installed().home, tmp_path / "page.html"
    words = ["--tags=bench,triton-client,_resnet50,_tiny", "--duration=1", f"--html={page}"]
    # The server that the tests have installed already.
    words.append("--adr.triton-server.tags=_wheel,_onnxruntime,_openvino")
    words.append(f"--model_repository={tmp_path / 'models'}")
    env = home.cm("run", "script", *words, "--out=json").ok().json["new_env"]
    assert float(env["CM_TRITON_BENCH_RESULT_RATE"]) > 0
    assert "resnet50_tiny under load" in page.read_text(encoding="utf-8")
    assert not remains_of(tmp_path)


def remains_of(folder: Path) -> list[str]:
    """Processes that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(words.decode(errors="replace"))
    return found
