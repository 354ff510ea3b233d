"""LoadGen over a real Triton: the same answers as in process, runs of all scenarios, and faults."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
import network_lab
import tls_lab
import triton_lab
from aws_neuron import artifact
from common.files import sha256
from common.problems import Problem
from common.python_path import VARIABLE, child_env
from mlperf import catalog
from mlperf.catalog import run_inputs
from mlperf.catalog.run_inputs import CatalogError
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends import triton_service
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import (
    GraphSpec,
    ModelSpec,
    SessionSettings,
    Setup,
    TensorSpec,
    WorkerShape,
)
from serving.repository import refusals, writing
from serving.server import remains
from support import HANG_S, wait_for

MODELS = lab.SCRIPT
ONE = WorkerShape(1, 1, 1)


def setup(**given: Any) -> Setup:
    options = {name: each.default for name, each in catalog.backend("triton").options.items()}
    return Setup("cpu", "float32", {**options, "threads": 1, **given})


def tiny(folder: str) -> ModelSpec:
    return records.decode(ModelSpec, forms.model(MODELS / folder))


def spec(folder: str) -> ModelSpec:
    return tiny(f"{folder}/tiny")


# ---------------------------------------------------------------- without a server


def test_the_specification_is_one_of_the_catalogue() -> None:
    found = catalog.backend("triton")
    assert found.chosen({"instances": "2"}) == {"instances": 2}
    with pytest.raises(CatalogError, match="did you mean protocol"):
        found.chosen({"protocoll": "http"})
    assert [step.tags for step in found.steps] == ["get,triton-server"]


def test_what_is_to_be_served_is_named_after_the_file_and_says_how() -> None:
    graph = spec("get-ml-model-resnet50").graphs()[0]
    one = triton_service.plan(setup(preferred_batch=8, instances=2, backend="openvino"), graph)
    assert one.name == "m-86166ec3d9b429eb"
    assert (one.label, one.instances) == ("openvino (python-based)", 2)
    assert one.batching is not None
    assert one.batching.preferred == (8,)
    assert {Path(each).name for each in one.helpers} == {"fixed_batch.py", "int8_signed.py"}
    assert all(Path(each).is_file() for each in one.helpers)
    assert triton_service.plan(setup(backend="onnxruntime"), graph).helpers == ()


def asks(**given: str) -> dict[str, str]:
    names = {"options": "BACKEND_OPTIONS", "precision": "MODEL_PRECISION"}
    env = {"CM_MLPERF_BACKEND": "triton", "CM_MLPERF_MODEL": "resnet50"}
    return env | {f"CM_MLPERF_{names.get(k, k.upper())}": value for k, value in given.items()}


@pytest.mark.parametrize(
    ("given", "says", "hint"),
    [
        ({"model": "rnnt"}, "triton does not run rnnt: its model consists of several graphs", ""),
        ({"model": "retinanet", "triton_backend": "pytorch"},
         "triton --triton_backend=pytorch does not run retinanet: it runs resnet50, bert-99", ""),
        ({"precision": "bfloat16"}, "--precision=bfloat16: triton does not compute so", "openvino"),
        ({"precision": "int8", "triton_backend": "neuron"}, "--precision=int8: triton --t", ""),
        ({"device": "inf2"}, "--device=inf2: triton does not compute so", "--backend=neuron"),
        ({"options": "backend=openvino"}, "backend of triton has a flag", "--triton_backend=open"),
        ({"options": "instances"}, "instances has no value", "name=value"),
        ({"triton_backend": "pytorh"}, "is none of: onnxruntime, openvino, pytorch, neuron", ""),
    ],
)  # fmt: skip
def test_what_the_server_cannot_serve_is_refused_before_anything_is_installed(
    given: dict[str, str], says: str, hint: str
) -> None:
    with pytest.raises(CatalogError) as caught:
        run_inputs.backend(asks(**given))
    assert says in str(caught.value)
    assert hint in caught.value.hint


def test_what_the_server_computes_with_decides_which_files_it_is_given() -> None:
    onnx, torch = run_inputs.backend(asks()), run_inputs.backend(asks(triton_backend="pytorch"))
    assert (onnx.model_tag, onnx.data_tag, onnx.compiles) == ("_onnx", "", False)
    assert (torch.model_tag, torch.data_tag, torch.compiles) == ("_pytorch", "_pytorch", False)
    run_inputs.backend(asks(triton_backend="openvino", precision="bfloat16"))
    for device in ("cpu", "inf2"):
        found = run_inputs.backend(asks(triton_backend="neuron", device=device))
        assert found.compiles
        assert found.named == "neuron-triton"
    names = {
        run_inputs.backend(asks(triton_backend=each)).named for each in ("onnxruntime", "pytorch")
    }
    assert names == {"onnxruntime-triton", "pytorch-triton"}, "results lie in folders of their own"


def test_a_compiled_model_is_served_on_a_core_for_each_instance(tmp_path: Path) -> None:
    tensors = (artifact.ArtefactTensor("INPUT__0", "int32", (4,)),)
    path = tmp_path / "m.pt"
    path.write_bytes(b"x")
    digest = sha256(path)
    artifact.write(path, artifact.NeuronArtefact(
        "m", path.name, digest, 1, "fp32", tensors, tensors,
        artifact.NeuronCompilation(
            "bert", "cpu", 3, False, "torch", {}, artifact.SourceModel("m", "m.pt", digest)
        ),
    ))  # fmt: skip
    inputs = (TensorSpec("INPUT__0", "int32", (4,)),)
    graph = GraphSpec("main", str(path), digest, inputs, inputs)
    found = triton_service.plan(setup(backend="neuron", instances=2), graph)
    assert found.cores is not None
    assert (found.cores.count, found.cores_of_instance, found.fixed_batch) == (2, 1, 3)
    assert found.all_parameters()["LEAST_BATCH"] == "1"
    assert refusals.check(found) == []
    with pytest.raises(HarnessError, match=r"no Neuron device|compiled for cpu"):
        triton_service.plan(replace(setup(backend="neuron"), device="inf2"), graph)
    one = catalog.backend("triton").where({"backend": "neuron"})
    assert one.named == "neuron-triton", "so checks know the processor in a device's place"


def test_a_model_of_several_graphs_is_refused() -> None:
    with (
        pytest.raises(HarnessError, match="consists of several graphs"),
        backends.service("triton", "cpu", "float32", {}, [spec("get-ml-model-rnnt")]),
    ):
        pass


def test_without_a_server_the_next_command_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(triton_service.LAUNCHER, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(HarnessError, match="no tritonserver") as caught,
        backends.service("triton", "cpu", "float32", {}),
    ):
        pass
    assert "get,triton-server" in caught.value.hint


def test_nobody_at_the_address_is_told() -> None:
    with pytest.raises(HarnessError, match=r"there is no server to ask.*refused"):
        backends.create("triton", "cpu", "float32", {"url": "127.0.0.1:9"})
    options = {"url": "192.0.2.1:8000", "shared_memory": "system"}
    with pytest.raises(HarnessError, match="is another machine"):
        backends.create("triton", "cpu", "float32", options)


# ---------------------------------------------------------------- the real server


@pytest.fixture(scope="module")
def launcher() -> Iterator[Path]:
    """The real server, where sessions look for it."""
    found = triton_lab.installed()
    triton_lab.describe_configurations()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(triton_service.LAUNCHER, str(found.launcher))
        patch.setenv(triton_service.PYTHON, found.python)
        patch.setenv(VARIABLE, child_env(*sites())[VARIABLE])
        yield found.launcher


def sites() -> tuple[Path, Path]:
    return lab.LIB, triton_lab.site()


@contextlib.contextmanager
def served(*models: ModelSpec, **given: Any) -> Iterator[dict[str, Any]]:
    """The options that find a server with these models."""
    options = {"threads": 1, **given}
    with backends.service("triton", "cpu", "float32", options, models) as more:
        yield {**options, **more}


def test_every_benchmark_is_compared_or_refused() -> None:
    """Those with a "-99.9" are the same models."""
    backend = catalog.backend("triton")
    able = [name for name in catalog.runnable() if not catalog.benchmark(name).generates]
    known = {name.removesuffix(".9") for name in able}
    assert known == forms.TINY.keys()
    assert backend.refuses.keys() < known


@pytest.mark.slow
@pytest.mark.needs_index
@pytest.mark.parametrize(
    "given", [{}, {"shared_memory": "system"}], ids=["in the request", "in shared memory"]
)
def test_the_first_answers_are_those_in_process_bit_by_bit(
    launcher: Path, given: dict[str, Any]
) -> None:
    refused = catalog.backend("triton").refuses
    asked = {name: form for name, form in forms.TINY.items() if name not in refused}
    models = [tiny(folder) for folder, _, _ in asked.values()]
    alone = backends.create("onnxruntime", "cpu", "float32")
    with served(*models, **given) as options:
        over = backends.create("triton", "cpu", "float32", options)
        for (name, (_, data, count)), model in zip(asked.items(), models, strict=True):
            benchmark = benchmarks.create(name, data(), model)
            answers = [
                forms.first(benchmark, solvers(backend, model, benchmark, ONE)[0], count)
                for backend in (alone, over)
            ]
            assert answers[0] == answers[1], name
        facts = over.device_facts()
    assert facts["instances"] == "1"
    assert facts["served by"].startswith("onnxruntime (python-based) 1.")
    assert len(facts["repository"]) >= 64
    assert over.versions()["triton"] == "2.51.0"


@pytest.mark.slow
@pytest.mark.needs_index
def test_a_session_owns_its_server(
    launcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"threads": None, "num_workers": 2, "batch_size": 8, "min_duration": 200}
    wanted = lab.settings(
        tmp_path,
        backend="triton",
        backend_options={"shared_memory": "system"},
        overrides=free,
        attempts=1,
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = set(descendants(os.getpid()))
    results = sessions.MeasurementSession(records.decode(SessionSettings, wanted)).run()
    assert set(descendants(os.getpid())) <= before
    assert not list(scratch.glob("triton-session-*"))
    assert {each.scenario for each in results.results} == {
        "SingleStream", "MultiStream", "Server", "Offline",
    }  # fmt: skip
    for each in results.results:
        assert each.performance_run is not None
        assert each.accuracy_run is not None
        assert each.accuracy_run.value == pytest.approx(99.07, abs=0.01)
    configuration = results.results[0].performance_run.circumstances.configuration
    assert configuration["triton"] == "2.51.0"
    assert configuration["device preferred batch"] == "none"
    assert "url" not in json.dumps(records.encode(results.backend_options))


@pytest.mark.slow
@pytest.mark.needs_index
def test_a_server_of_somebody_else_is_asked_and_left_alone(
    launcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = spec("get-ml-model-resnet50")
    with served(model, shared_memory="system") as options:
        with served(url=options["url"]) as mine:
            assert mine["url"] == options["url"]
        graph = model.graphs()[0]
        over = backends.create("triton", "cpu", "float32", {"url": options["url"]})
        wrong = replace(graph, inputs=(replace(graph.inputs[0], dtype="uint8"),))
        with pytest.raises(HarnessError, match=r"is float32 \[N, 3, 28, 28\], but uint8"):
            over.open(wrong, [graph.outputs[0].name], 1, 1)
        named = backends.create("triton", "cpu", "float32", {"url": options["url"], "model": "x"})
        with pytest.raises(HarnessError, match="no model x; those that are ready: m-86166"):
            named.open(graph, [graph.outputs[0].name], 1, 1)
        openvino = backends.create(
            "triton", "cpu", "float32", {"url": options["url"], "backend": "openvino"}
        )
        with pytest.raises(HarnessError, match="with onnxruntime, and openvino was asked") as told:
            openvino.open(graph, [graph.outputs[0].name], 1, 1)
        assert told.value.hint == "use --triton_backend=onnxruntime"
        other = replace(graph, sha256="0" * 64)
        assert over.open(other, [graph.outputs[0].name], 1, 1), "the only model there is"
        known, port = tls_lab.authority(tmp_path), int(options["url"].rpartition(":")[2])
        monkeypatch.setenv("SSL_CERT_FILE", str(known.ca))
        with tls_lab.relay(port, known) as behind:
            secure = {"url": f"https://localhost:{behind}"}
            safe = backends.create("triton", "cpu", "float32", secure)
            assert safe.open(graph, [graph.outputs[0].name], 1, 1)


FAULTY = """
from served import BatchingModel

import numpy as np


class TritonPythonModel(BatchingModel):
    def compute(self, feeds):
        count = len(next(iter(feeds.values())))
        return [np.zeros((count, 1)), np.{made}]
"""


@pytest.mark.slow
@pytest.mark.needs_index
@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("full((count, 11), np.nan)", "values that are no numbers"),
        ("zeros((count, 12))", "12"),
        ("zeros((count + 1, 11))", "2, 11"),
    ],
)
def test_a_model_that_answers_nonsense_is_told_before_anything_is_measured(
    launcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, says: str
) -> None:
    model = spec("get-ml-model-resnet50")
    graph = model.graphs()[0]
    programs = tmp_path / "programs"
    shutil.copytree(writing.PROGRAMS, programs)
    (programs / "onnxruntime.py").write_text(FAULTY.format(made=made))
    monkeypatch.setattr(writing, "PROGRAMS", programs)
    with served(model) as options:
        backend = backends.create("triton", "cpu", "float32", options)
        with pytest.raises(HarnessError, match=says):
            backend.open(graph, [graph.outputs[1].name], 1, 1)


@pytest.mark.needs_index
def test_a_server_that_does_not_start_is_told_without_files_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    triton_lab.describe_configurations()
    program = tmp_path / "tritonserver"
    program.write_text("#!/bin/sh\necho no stub for this Python\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv(triton_service.LAUNCHER, str(program))
    with (
        pytest.raises(Problem, match="ended no stub for this Python") as caught,
        served(spec("get-ml-model-resnet50")),
    ):
        pass
    assert "server.log" not in caught.value.hint


@pytest.mark.slow
@pytest.mark.needs_index
def test_a_server_that_is_killed_ends_the_run_with_one_error(launcher: Path) -> None:
    model = spec("get-ml-model-resnet50")
    graph = model.graphs()[0]
    with served(model) as options:
        backend = backends.create("triton", "cpu", "float32", options)
        (predictor,) = backend.open(graph, [graph.outputs[0].name], 1, 1)
        feeds = {graph.inputs[0].name: np.zeros((1, 3, 28, 28), np.float32)}
        assert len(predictor.predict(feeds)[0]) == 1
        kill_servers(launcher)
        with pytest.raises(HarnessError, match=r"the server did not answer.*(refused|reset)"):
            predictor.predict(feeds)


KILLS = int(os.environ.get("CMBENCH_KILLS", "3"))
SIGN = "CMBENCH_TEST_SIGN"


@pytest.mark.slow
@pytest.mark.needs_index
def test_a_harness_that_is_killed_leaves_nothing_running(launcher: Path, tmp_path: Path) -> None:
    """``CMBENCH_KILLS=200`` for the long run: the session, its runs, or Ctrl-C for all of them."""
    chance = random.Random(int(os.environ.get("CMBENCH_SEED", "1")))
    config, scratch = tmp_path / "session.json", tmp_path / "scratch"
    scratch.mkdir()
    more = {"overrides": {"min_duration": 100}, "attempts": 1, "scenarios": ["Offline"]}
    options = {"shared_memory": "system", "threads": 1}
    wanted = lab.settings(tmp_path / "results", backend="triton", backend_options=options, **more)
    records.write(config, {**wanted, "modes": ["performance"], "reuse": True})
    for number in range(KILLS):
        sign = f"{os.getpid()}-{number}"
        env = {**lab.harness_environment(), SIGN: sign, "TMPDIR": str(scratch)}
        env = child_env(*sites(), base=env)
        log = (tmp_path / "log").open("w+")
        process = subprocess.Popen(
            lab.harness_command("session", config), env=env, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        wait_for(lambda sign=sign: marks(sign))
        time.sleep(chance.uniform(0, 4))
        names, pids = marks(sign), [*signed(sign)]
        if number % 2:
            os.killpg(process.pid, signal.SIGINT)
        else:
            victim = chance.choice([process.pid, *pids])
            print(f"kill -9 {name_of(victim)}", file=log, flush=True)
            os.kill(victim, signal.SIGKILL)
        # A part that was killed ends its session by an error, or was not needed any more. Python
        # that has done all its work and ends hears no Ctrl-C any more, and dies of it.
        try:
            assert process.wait(HANG_S) in (0, 1, 130, -signal.SIGKILL, -signal.SIGINT)
        finally:
            print((tmp_path / "log").read_text()[-2000:])
        wait_for(lambda sign=sign: not [*signed(sign)])
        left = [each for each in os.listdir("/dev/shm") if each.startswith(tuple(names))]
        left += [e for e in os.listdir("/dev/shm") if any(f"-{pid}-" in e for pid in pids)]
        # ONNX Runtime keeps a number there, whoever uses it.
        left += [each for each in os.listdir(scratch) if each != ".ses"]
        assert not left, number
    done = subprocess.run(
        lab.harness_command("session", config), env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert len([*tmp_path.glob("results/*/*/*/offline/performance/result.json")]) == 1


def signed(sign: str) -> Iterator[int]:
    """The processes that were started under a sign, which all below a session inherit."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{SIGN}={sign}".encode() in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def marks(sign: str) -> set[str]:
    """The names of the servers of a session, with which their regions begin."""
    found = set()
    for pid in signed(sign):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            keys = [word for word in words if word.startswith(f"{remains.KEY}=".encode())]
            found |= {key.partition(b"=")[2].decode() for key in keys}
    return found


def kill_servers(launcher: Path) -> None:
    """Kill the servers of this installation that this process owns."""
    mine = {pid for pid in descendants(os.getpid()) if name_of(pid) == "tritonserver"}
    assert mine
    for pid in mine:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(name_of(pid) == "tritonserver" for pid in mine))


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for word in task.read_text().split():
            yield int(word)
            with contextlib.suppress(OSError):
                yield from descendants(int(word))


@pytest.mark.slow
@pytest.mark.parametrize("shared", ["none", "system"])
def test_a_node_of_the_network_division_asks_a_server(
    launcher: Path, tmp_path: Path, shared: str
) -> None:
    """LoadGen's side is as for every node: the server's answers come back bit by bit."""
    model, data = spec("get-ml-model-resnet50"), lab.arrays()
    with served(model, shared_memory=shared) as options:
        session = {"hw_name": "far", "backend": "triton", "backend_options": options}
        with network_lab.node(tmp_path / "node", session) as (address, _):
            asked = {"servers": address, "backend": "triton"}
            over = backends.create("network", "cpu", "float32", asked)
            alone = backends.create("onnxruntime", "cpu", "float32")
            found = []
            for backend in (over, alone):
                benchmark = benchmarks.create("resnet50", data, model)
                (solver,) = solvers(backend, model, benchmark, ONE)
                found.append(forms.first(benchmark, solver, 50))
            assert found[0] == found[1]
            assert over.versions()["triton"]
            assert over.device_facts()["served by"].startswith("onnxruntime")
