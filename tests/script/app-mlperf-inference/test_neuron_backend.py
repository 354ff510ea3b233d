"""The neuron backend: artefacts for cpu run for real; a device that is not there is told.

What computes needs PyTorch and onnx2torch beside the project's own packages.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
import neuron_lab
from common.problems import Problem
from mlperf import catalog
from mlperf.catalog.run_inputs import CatalogError
from mlperf.catalog.run_inputs import backend as asked_backend
from mlperf.harness import records
from mlperf.harness.backends import neuron_cores
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import GraphSpec, ModelSpec, SessionSettings, WorkerShape

ONE = WorkerShape(1, 1, 8)


def spec(name: str, batch: int = 0) -> ModelSpec:
    return records.decode(ModelSpec, neuron_lab.model(name, batch))


def graph(name: str) -> GraphSpec:
    return spec(name).graphs()[0]


def create(device: str = "cpu", **options: Any) -> Any:
    pytest.importorskip("torch")
    return backends.create("neuron", device, "float32", options)


# ---------------------------------------------------------------- without PyTorch


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0-3", [0, 1, 2, 3]), ("0;2", [0, 2]), ("1,1", [1]), ("3", [3]), ("a", []), ("", [])],
)
def test_cores_are_named_as_the_runtime_has_them(text: str, cores: list[int]) -> None:
    assert neuron_cores.numbers(text) == cores


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of /dev, without devices."""
    monkeypatch.setattr(neuron_cores, "DEV", tmp_path)
    monkeypatch.delenv(neuron_cores.VISIBLE, raising=False)
    return tmp_path


def test_cores_are_counted_by_devices(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match=r"no Neuron device.*to run on inf1") as caught:
        neuron_cores.visible_cores("inf1")
    assert "detect,neuron" in caught.value.hint
    for name in ("neuron0", "neuron1", "neuron_other", "neuron1x"):
        (devices / name).touch()
    assert neuron_cores.visible_cores("inf1") == 8
    assert neuron_cores.visible_cores("inf2") == 4
    monkeypatch.setenv(neuron_cores.VISIBLE, "2-3")
    assert neuron_cores.visible_cores("inf2") == 2
    monkeypatch.setenv(neuron_cores.VISIBLE, "2-4")
    with pytest.raises(HarnessError, match="=2-4, and there are the NeuronCores 0-3"):
        neuron_cores.visible_cores("inf2")
    monkeypatch.setenv(neuron_cores.VISIBLE, "all")
    with pytest.raises(HarnessError, match="=all, and"):
        neuron_cores.visible_cores("inf2")


def test_the_placeholder_of_the_public_index_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HarnessError, match="torch-neuron, which opens models compiled for inf1"):
        neuron_cores.sdk_version("inf1")
    package = tmp_path / "torch_neuronx"
    package.mkdir()
    (package / "__init__.py").write_text('raise ImportError("WRONG PACKAGE. Please install")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(HarnessError, match=r"torch-neuronx, .* WRONG PACKAGE") as caught:
        neuron_cores.sdk_version("inf2")
    assert "get,neuron-sdk" in caught.value.hint


def test_it_runs_two_models_and_others_are_refused_early() -> None:
    assert catalog.backend("neuron").devices == ("cpu", "inf1", "inf2", "trn1")
    env = {"CM_MLPERF_BACKEND": "neuron", "CM_MLPERF_MODEL": "retinanet"}
    with pytest.raises(CatalogError, match=r"neuron does not run retinanet: it runs resnet50, b"):
        asked_backend(env)
    assert asked_backend({**env, "CM_MLPERF_MODEL": "bert-99"}).name == "neuron"
    rnnt = {"CM_MLPERF_BACKEND": "triton", "CM_MLPERF_MODEL": "rnnt"}
    with pytest.raises(CatalogError, match="does not run rnnt: its model consists of several"):
        asked_backend(rnnt)


# ---------------------------------------------------------------- the artefact for cpu


def test_without_a_device_it_ends_before_anything_is_measured(devices: Path) -> None:
    with pytest.raises(HarnessError, match="this machine has no Neuron device"):
        create("inf1")


@pytest.mark.parametrize("count", [1, 3, 5, 8])
def test_images_get_the_labels_of_the_onnx_file(count: int) -> None:
    (predictor,) = create().open(graph("resnet50"), ["OUTPUT__0"], 1, 1)
    (scores,) = predictor.predict({"INPUT__0": neuron_lab.samples(count)})
    facts = records.decode(ModelSpec, lab.model()).graphs()[0]
    (reference,) = backends.create("onnxruntime", "cpu", "float32").open(
        facts, ["ArgMax:0", "softmax_tensor:0"], 1, 1
    )
    labels, wanted = reference.predict({"input_tensor:0": neuron_lab.samples(count)})
    assert scores.shape == (count, 11)
    np.testing.assert_array_equal(scores.argmax(1), labels)
    np.testing.assert_allclose(scores, wanted, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 3])
def test_questions_are_filled_up_cut_and_answered_as_by_the_onnx_file(batch: int) -> None:
    model, data = spec("bert", batch), forms.features()
    made = benchmarks.create("bert-99", data, model)
    solver = solvers(create(), model, made, ONE)[0]
    figure = made.accuracy(forms.answers(made, solver, 8), np.arange(made.sample_count))
    plain = records.decode(
        ModelSpec, forms.model(lab.SCRIPT / "get-ml-model-bert-large-squad" / "tiny")
    )
    usual = benchmarks.create("bert-99", data, plain)
    onnx = backends.create("onnxruntime", "cpu", "float32")
    answers = forms.answers(usual, solvers(onnx, plain, usual, ONE)[0], 8)
    assert figure.value == usual.accuracy(answers, np.arange(usual.sample_count)).value


def test_another_target_or_file_is_refused(tmp_path: Path, devices: Path) -> None:
    path = Path(graph("resnet50").path)
    for each in path.parent.iterdir():
        shutil.copy(each, tmp_path)
    moved = replace(graph("resnet50"), path=str(tmp_path / path.name))
    beside = tmp_path / f"{path.name}.json"
    told = beside.read_text()
    beside.write_text(told.replace('"target": "cpu"', '"target": "inf1"'))
    with pytest.raises(Problem, match="was compiled for inf1, and cpu is to run it") as caught:
        create().open(moved, ["OUTPUT__0"], 1, 1)
    assert "--target=cpu" in caught.value.hint
    beside.unlink()
    with pytest.raises(Problem, match="nothing tells what"):
        create().open(moved, ["OUTPUT__0"], 1, 1)
    beside.write_text(told)
    with pytest.raises(Problem, match="is not the model that the session was given"):
        create().open(replace(moved, sha256="0" * 64), ["OUTPUT__0"], 1, 1)


def test_a_model_of_another_length_than_the_features_is_refused() -> None:
    model = spec("bert")
    shorter = tuple(replace(each, shape=(128,)) for each in model.inputs)
    with pytest.raises(HarnessError, match="takes 128 tokens, and the features"):
        benchmarks.create("bert-99", forms.features(), replace(model, inputs=shorter))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert-99"])
def test_loadgen_measures_it_and_says_cpu(name: str, tmp_path: Path) -> None:
    data = lab.arrays() if name == "resnet50" else forms.features()
    asked = lab.settings(
        tmp_path,
        benchmark=name,
        backend="neuron",
        model=neuron_lab.model(name.removesuffix("-99")),
        dataset=str(data),
        scenarios=["Offline"],
        # However fast the host is at this moment.
        overrides={"min_duration": 1, "min_query_count": 1},
    )
    results = sessions.MeasurementSession(records.decode(SessionSettings, asked)).run()
    (offline,) = results.results
    assert (results.backend, results.device) == ("neuron", "cpu")
    assert offline.performance_run is not None
    assert offline.accuracy_run is not None
    assert offline.validity == "VALID"
    assert offline.accuracy_run.value > 98
    configuration = offline.performance_run.circumstances.configuration
    assert configuration["device computes on"].startswith("the processor, with TorchScript")
