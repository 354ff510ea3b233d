"""``--engine_path``: an engine that is there, opened in the place of one built for the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from cmbench.errors import Error
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.engines import existing_engine, generate, sidecar
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import ModelSpec

RUN = lab.module_of(lab.SCRIPT / "run-mlperf-inference-app/customize.py")
APP = lab.module_of(lab.SCRIPT / "app-mlperf-inference/customize.py")
ENV = {
    "CM_MLPERF_MODEL": "resnet50",
    "CM_MLPERF_MODEL_PRECISION": "float32",
    "CM_MLPERF_DEVICE": "cpu",
    "CM_MLPERF_BACKEND": "stand-in",
    "CM_ML_MODEL_FACTS_FILE_WITH_PATH": str(lab.MODEL / "model.json"),
    "CM_ML_MODEL_STARTING_WEIGHTS_FILENAME": "",
    "CM_ML_MODEL_RETRAINING": "no",
    "CM_ML_MODEL_WEIGHT_TRANSFORMATIONS": "",
}
TRT = {"CM_MLPERF_BACKEND": "tensorrt", "CM_MLPERF_DEVICE": "cuda"}


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """The stand-in of the tiny ResNet-50, as generate,engine,nvidia makes it."""
    told = {"product": "stand-in", "facts": str(lab.MODEL / "model.json"), "folder": str(tmp_path)}
    config = tmp_path / "engine.json"
    config.write_text(json.dumps({**told, "benchmark": "resnet50", "precision": "float32"}))
    assert generate.main(config) == 0
    (made,) = tmp_path.glob("*.onnx")
    return made


def as_plan(engine: Path, **changes: Any) -> Path:
    """The same file under the name of a plan, with what a builder would say of it."""
    plan = engine.rename(engine.with_suffix(".plan"))
    beside = sidecar.path_of(engine)
    told = json.loads(beside.read_text()) | {
        "builder": "tensorrt-rtx",
        "profiles": {"x": [[1, 3], [8, 3], [16, 3]]},
        **changes,
    }
    beside.unlink()
    sidecar.path_of(plan).write_text(json.dumps(told))
    facts = json.loads(plan.with_name("model.json").read_text())
    plan.with_name(f"{plan.name}.model.json").write_text(json.dumps(facts | {"file": plan.name}))
    plan.with_name("model.json").unlink()
    return plan


def taken(engine: Path | str, **changes: str) -> dict[str, Any]:
    """The environment after a run has looked at its engine."""
    env = {**ENV, **changes, "CM_MLPERF_ENGINE_PATH": str(engine)}
    RUN.take_engine(env)
    return env


def test_the_run_opens_the_very_file(engine: Path, tmp_path: Path) -> None:
    told = APP.model(taken(engine))
    assert told["path"] == str(engine)
    model = records.decode(ModelSpec, told)
    backend = backends.create("stand-in", "cpu", "float32")
    (graph,) = model.graphs()
    assert backend.build(graph, tmp_path / "elsewhere").path == str(engine)
    assert backend.open(graph, ["ArgMax:0"], 1, 1)


def test_an_engine_of_tensorrt_tells_its_greatest_batch(engine: Path) -> None:
    env = taken(as_plan(engine), **TRT, CM_MLPERF_TENSORRT_PRODUCT="tensorrt-rtx")
    options = APP.backend_options(env)["backend_options"]
    assert options == {"batch": "16", "product": "tensorrt-rtx"}
    env["CM_MLPERF_BACKEND_OPTIONS"] = "batch=4"
    assert APP.backend_options(env)["backend_options"]["batch"] == "4"
    assert APP.model(env)["path"].endswith(".plan")


def test_what_does_not_open_it_is_told_before_anything_is_installed(engine: Path) -> None:
    with pytest.raises(Error, match="is of stand-in, and tensorrt is to open it"):
        taken(engine, **TRT)
    with pytest.raises(Error, match="--backend=tensorrt or stand-in opens, not onnxruntime"):
        taken(engine, CM_MLPERF_BACKEND="onnxruntime")
    with pytest.raises(Error, match="there is no engine"):
        taken(engine.with_name("none.onnx"))
    engine.with_name("model.json").write_text('{"file": "another.onnx"}')
    with pytest.raises(Error, match="nothing describes the model"):
        taken(engine)
    plan = engine.with_suffix(".plan")
    plan.write_bytes(b"x")
    with pytest.raises(Error, match="its builder is unknown"):
        taken(plan, **TRT)


def test_an_engine_of_another_model_is_refused(engine: Path, tmp_path: Path) -> None:
    other = lab.SCRIPT / "get-ml-model-ssd-mobilenet/tiny/model.json"
    with pytest.raises(Error, match="was built of another model than ssd_mobilenet") as caught:
        APP.model(taken(engine) | {"CM_ML_MODEL_FACTS_FILE_WITH_PATH": str(other)})
    assert caught.value.code == "engine-missing"
    engine.write_bytes(b"cut off")
    with pytest.raises(HarnessError, match="is not the file that"):
        existing_engine.check_engine(engine, "stand-in", "")
