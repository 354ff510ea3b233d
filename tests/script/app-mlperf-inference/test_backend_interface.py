"""A backend of somebody's own: what it says of itself, and what is done with that."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from common.problems import Problem
from mlperf.catalog import SINGLE_STREAM
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import SessionSettings

SPEC = """
from mlperf.catalog import BackendSpec, Option

SPECS = [
    BackendSpec(
        name="card",
        title="a card that is none",
        module="card_backend:Card",
        devices=("card",),
        options={
            "lanes": Option(2, "requests in flight at most"),
            "protocol": Option("http", "how it is asked", ("http", "grpc")),
            "graphs": Option(False, "whether batches are captured"),
            "server": Option("", "where it listens"),
        },
        builds=True,
        service="card_backend:serve",
    )
]
"""

BACKEND = """
import mmap
import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.base import Backend, Predictor

NOTES = Path(__file__).with_name("notes.txt")


def note(text):
    with NOTES.open("a") as file:
        file.write(text + "\\n")


@contextmanager
def serve(setup, models):
    assert len(models) >= 1
    note(f"server up for {setup.options['protocol']}")
    try:
        yield {"server": "localhost:1"}
    finally:
        note("server down")


class Mine(Predictor):
    def __init__(self, inner):
        self.inner = inner
        self.room = mmap.mmap(-1, 1 << 20)

    def buffer(self, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.room, np.uint8, size).view(dtype).reshape(shape)

    def predict(self, feeds):
        return self.inner.predict(feeds)


class Card(Backend):
    largest_batch = 4
    library_bytes = 1000

    def open(self, graph, outputs, workers, threads):
        assert self.setup.options["server"] == "localhost:1", "each run is told of the server"
        assert (workers, threads) in self.layouts(8)
        assert Path(graph.path).name == "engine.onnx", "what was built is opened"
        inner = backends.create("onnxruntime", "cpu", "float32")
        return [Mine(each) for each in inner.open(graph, outputs, workers, threads)]

    def versions(self):
        return {"card": "3.1"}

    def device_facts(self):
        return {"name": "card of a test", "driver": "7"}

    def build(self, graph, folder):
        note(f"build {Path(graph.path).name}")
        shutil.copyfile(graph.path, folder / "engine.onnx")
        return replace(graph, path=str(folder / "engine.onnx"))

    def layouts(self, cores, workers=None, threads=None):
        most = workers or self.setup.options["lanes"]
        return [(count, 1) for count in range(1, most + 1)]

    def stream_threads(self, cores):
        return (1,)

    def copies(self, workers, threads):
        return 0
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the specification and the module of a backend."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "card_spec.py").write_text(SPEC, encoding="utf-8")
    (folder / "card_backend.py").write_text(BACKEND, encoding="utf-8")
    monkeypatch.setenv("CM_MLPERF_PLUGINS", str(folder))
    return folder


def session(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """The results of a session with that backend, which keeps what it learns of the system."""
    given = {"backend": "card", "device": "card", "sut_dir": str(tmp_path / "sut")}
    shape = changes.pop("shape", {"batch_size": 4})
    asked = lab.settings(tmp_path / "results", overrides=shape, **given, **changes)
    results = sessions.MeasurementSession(records.decode(SessionSettings, asked)).run()
    path = Path(results.folder) / "results.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_a_backend_in_one_module_is_measured(plugins: Path, tmp_path: Path) -> None:
    options = {"protocol": "grpc", "lanes": "3"}
    free = {"threads": None, "num_workers": None, "batch_size": None}
    found = session(tmp_path, scenarios=["Offline"], backend_options=options, shape=free)
    assert found["backend_options"] == {"protocol": "grpc", "lanes": 3}
    assert found["device_facts"] == {"name": "card of a test", "driver": "7"}
    (result,) = found["results"]
    assert result["accuracy_reached"]
    shapes = [point["shape"] for point in found["calibration"]["points"]]
    assert {(shape["workers"], shape["threads"]) for shape in shapes} == {(1, 1), (2, 1), (3, 1)}
    assert max(shape["batch"] for shape in shapes) == 4
    told = result["performance_run"]["circumstances"]["configuration"]
    assert told["option protocol"] == "grpc"
    assert told["device driver"] == "7"
    assert "server" not in str(told), "where a server listens changes from call to call"
    notes = (plugins / "notes.txt").read_text(encoding="utf-8").splitlines()
    assert notes == ["server up for grpc", "build resnet50_tiny.onnx", "server down"]


def test_a_model_is_built_and_tuned_once_for_equal_options(plugins: Path, tmp_path: Path) -> None:
    for protocol in ("http", "http", "grpc"):
        asked = {"scenarios": ["Offline"], "modes": ["performance"], "reuse": True}
        session(tmp_path, **asked, backend_options={"protocol": protocol})
    notes = (plugins / "notes.txt").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("build") for line in notes) == 2
    assert notes[-1] == "server down"


def test_a_scenario_may_have_a_file_of_its_own(plugins: Path, tmp_path: Path) -> None:
    original = Path(lab.model()["path"])
    other = tmp_path / "for_streams.onnx"
    # Another file of the same model: a message may hold a field twice, and the last one counts.
    other.write_bytes(original.read_bytes() + b"\x28\x00")
    own = lab.model(path=str(other), sha256=hashlib.sha256(other.read_bytes()).hexdigest())
    found = session(
        tmp_path,
        scenarios=["Offline", "SingleStream"],
        modes=["performance"],
        scenario_models={SINGLE_STREAM: own},
    )
    assert found["scenario_models"] == {"SingleStream": own["sha256"]}
    models = {
        each["scenario"]: each["performance_run"]["circumstances"]["configuration"]["model"]
        for each in found["results"]
    }
    assert models == {"SingleStream": own["sha256"], "Offline": found["model"]["sha256"]}
    notes = (plugins / "notes.txt").read_text(encoding="utf-8").splitlines()
    built = {line for line in notes if line.startswith("build")}
    assert built == {"build resnet50_tiny.onnx", "build for_streams.onnx"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocl": "http"}, "card has no option protocl, .*; did you mean protocol"),
        ({"protocol": "smoke"}, "card: protocol=smoke is none of: http, grpc"),
        ({"lanes": "many"}, "card: lanes=many is none of: int"),
        ({"graphs": "perhaps"}, "card: graphs=perhaps is none of: bool"),
    ],
)
def test_an_unknown_option_is_refused(options: dict[str, str], message: str, plugins: Path) -> None:
    with pytest.raises(Problem, match=message):
        backends.create("card", "card", "float32", options)  # type: ignore[arg-type]


def test_options_have_defaults_and_types(plugins: Path) -> None:
    made = backends.create("card", "card", "float32", {"graphs": "yes"})
    assert made.setup.options == {"lanes": 2, "protocol": "http", "graphs": True, "server": ""}


def test_nothing_is_written_of_options_that_nobody_gave(tmp_path: Path) -> None:
    asked = records.decode(SessionSettings, lab.settings(tmp_path))
    assert not {"backend_options", "scenario_models"} & set(records.encode(asked))


def test_an_edited_plugin_is_tuned_built_and_measured_again(plugins: Path, tmp_path: Path) -> None:
    def measured() -> str:
        asked = {"scenarios": ["Offline"], "modes": ["performance"], "reuse": True}
        (result,) = session(tmp_path, **asked)["results"]
        return str(result["performance_run"]["circumstances"]["measured_at"])

    first = measured()
    with open(plugins / "card_backend.py", "a", encoding="utf-8") as file:
        file.write("\n# Another way to do it.\n")
    assert measured() != first
    notes = (plugins / "notes.txt").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("build") for line in notes) == 2


@pytest.mark.parametrize(("given", "found"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_of_openmp_wait_without_their_core_unless_the_user_says_so(
    monkeypatch: pytest.MonkeyPatch, given: str | None, found: str
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    backends.create("null", "cpu", "float32")
    assert os.environ["OMP_WAIT_POLICY"] == found
