"""generate-nvidia-engine: names, shapes, what lies beside an engine, and real builds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as bench
from cmbench.errors import Error
from lab import Lab
from mlperf.harness import records
from mlperf.harness.engines import builder, generate, names, profiles, sidecar
from mlperf.harness.engines.names import EngineName
from mlperf.harness.engines.profiles import OpenInput, Span
from mlperf.harness.errors import HarnessError
from support import LIB, ROOT, python_env

HARNESS = ROOT / "lib"
TINY = ROOT / "script/get-ml-model-resnet50/tiny"
customize = bench.module_of(ROOT / "script/generate-nvidia-engine/customize.py")


def asked(folder: Path, **changes: Any) -> Path:
    """The request for a stand-in of the tiny ResNet-50."""
    words = {
        "product": "stand-in",
        "facts": str(TINY / "model.json"),
        "folder": str(folder),
        "benchmark": "resnet50",
        "precision": "float32",
    }
    config = folder / "engine.json"
    config.write_text(json.dumps(words | changes), encoding="utf-8")
    return config


# ---------------------------------------------------------------- names and shapes


@pytest.mark.parametrize(
    ("named", "graph", "name"),
    [
        (
            EngineName("resnet50", "Offline", "int8", 256),
            "main",
            "resnet50-Offline-gpu-b256-int8.default",
        ),
        (
            EngineName("bert", "Server", "float16", 64, "gpu", "custom_k_99_9_MaxP", 2),
            "main",
            "bert-Server-gpu-fp16_S_384_B_64_P_2_vs.custom_k_99_9_MaxP",
        ),
        (
            EngineName("bert", "Offline", "int8", 1024, interleaved=True),
            "main",
            "bert-Offline-gpu-int8_S_384_B_1024_P_1_vs_il.default",
        ),
        (
            EngineName("rnnt", "Offline", "float16", 8),
            "step",
            "rnnt-step-Offline-gpu-b8-fp16.default",
        ),
    ],
)
def test_names_are_those_that_nvidias_harness_looks_for(
    named: EngineName, graph: str, name: str
) -> None:
    assert names.stem(named, graph) == name


def test_sizes_of_one_name_are_one_size() -> None:
    inputs = [
        OpenInput("dense", (-1, 13), ("N", "")),
        OpenInput("offsets", (26, -1), ("", "N")),
        OpenInput("indices", (26, -1), ("", "looked_up")),
        OpenInput("fixed", (4, 4), ("", "")),
    ]
    found = profiles.of_graph(inputs, Span(1, 4, 8), {"looked_up": Span(2, 6, 64)})
    assert found == {
        "dense": ((1, 13), (4, 13), (8, 13)),
        "offsets": ((26, 1), (26, 4), (26, 8)),
        "indices": ((26, 2), (26, 6), (26, 64)),
    }


def test_a_batch_without_a_name_is_the_first_dimension() -> None:
    inputs = [OpenInput("a", (-1, -1), ("", "")), OpenInput("b", (-1, 3), ("", ""))]
    found = profiles.of_graph(inputs, Span(1, 2, 3), profiles.lengths("8:16:32"))
    assert found["a"] == ((1, 8), (2, 16), (3, 32))
    assert found["b"] == ((1, 3), (2, 3), (3, 3))


def test_an_open_size_that_nobody_knows_is_asked_for() -> None:
    with pytest.raises(HarnessError, match="seq") as caught:
        profiles.of_graph([OpenInput("ids", (-1, -1), ("N", "seq"))], Span(1, 1, 1), {})
    assert "--lengths=seq=1:128:384" in caught.value.hint


@pytest.mark.parametrize("text", ["", "x", "1:2", "8:4:2", "0", "-1", "1:2:3:4", "1.5"])
def test_what_is_no_range_is_one_error(text: str) -> None:
    with pytest.raises(HarnessError, match="not a range of sizes"):
        profiles.span(text)


def test_fp8_is_refused_where_the_gpu_has_none() -> None:
    builder.check_capabilities("fp8", ["8.9", "9.0", "12.0"])
    builder.check_capabilities("float16", ["7.5"])
    with pytest.raises(HarnessError, match=r"8\.6 has no fp8"):
        builder.check_capabilities("fp8", ["8.9", "8.6"])


# ---------------------------------------------------------------- beside an engine


def stand_in(folder: Path, **changes: Any) -> Path:
    assert generate.main(asked(folder, **changes)) == 0
    return folder / str(records.read_json(folder / "model.json")["file"])


def test_a_stand_in_says_so_and_is_no_plan(tmp_path: Path) -> None:
    made = stand_in(tmp_path)
    assert made.suffix == ".onnx"
    assert made.read_bytes() == (TINY / "resnet50_tiny.onnx").read_bytes()
    found = sidecar.read(made)
    assert found.is_stand_in
    facts = records.read_json(tmp_path / "model.json")
    assert facts["engine"]["builder"] == "stand-in"
    assert "stand-in" in facts["weight_transformations"]
    assert not list(tmp_path.glob("*.plan"))


def test_float16_is_written_for_the_builder(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    made = stand_in(tmp_path, precision="float16")
    weights = onnx.load(made).graph.initializer
    kinds = {tensor.data_type for tensor in weights}
    assert onnx.TensorProto.FLOAT16 in kinds
    assert onnx.TensorProto.FLOAT not in {t.data_type for t in weights if len(t.dims) > 1}
    assert {path.suffix for path in tmp_path.iterdir()} == {".onnx", ".json"}, "nothing is left"


def test_what_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    made = stand_in(tmp_path)
    wanted = {"builder": "tensorrt", "version": "10.9.0", "precision": "float16"}
    with pytest.raises(HarnessError, match="builder stand-in, not tensorrt") as caught:
        sidecar.check(made, wanted)
    for said in ("version", "precision float32, not float16"):
        assert said in str(caught.value)
    facts = json.loads(sidecar.path_of(made).read_text("utf-8"))
    facts["compute_capabilities"] = ["8.6"]
    sidecar.path_of(made).write_text(json.dumps(facts), "utf-8")
    sidecar.check(made, {"compute_capability": "8.6"})
    with pytest.raises(HarnessError, match=r"capability 8\.6, and this GPU has 7\.5"):
        sidecar.check(made, {"compute_capability": "7.5"})


def test_an_engine_that_is_missing_changed_or_nobodys_is_refused(tmp_path: Path) -> None:
    made = stand_in(tmp_path)
    plan = made.with_suffix(".plan")
    with pytest.raises(HarnessError, match="there is no engine"):
        sidecar.read(plan)
    plan.write_bytes(made.read_bytes())
    with pytest.raises(HarnessError, match="its builder is unknown"):
        sidecar.read(plan)
    sidecar.path_of(plan).write_bytes(sidecar.path_of(made).read_bytes())
    with pytest.raises(HarnessError, match="which writes no such file"):
        sidecar.read(plan)
    made.write_bytes(made.read_bytes()[:-1])
    with pytest.raises(HarnessError, match="is not the file"):
        sidecar.read(made)


def test_a_full_disk_leaves_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HarnessError, match="No space left on device"):
        generate.main(asked(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["engine.json"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"precision": "int8"}, "int8 is asked for"),
        ({"precision": "fp8", "compute_capabilities": ["7.5"]}, "7.5 has no fp8"),
        ({"precision": "fp8", "compute_capabilities": ["8.9"]}, "has nothing in fp8"),
        ({"batch": "8:4:2", "product": "tensorrt-rtx"}, "not a range of sizes"),
        ({"product": "tensorrt", "facts": str(TINY / "model.json")}, "TensorRT cannot be used"),
    ],
)
def test_what_cannot_be_built_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(HarnessError, match=said):
        generate.main(asked(tmp_path, **changes))
    assert not list(tmp_path.glob("*.plan*"))
    assert not (tmp_path / "model.json").exists()


# ---------------------------------------------------------------- the script


def env(**changes: str) -> dict[str, str]:
    known = {
        "CM_MLPERF_MODEL": "bert-99.9",
        "CM_ENGINE_PRODUCT": "tensorrt-rtx",
        "CM_ENGINE_PRECISION": "float16",
        "CM_ENGINE_FORM": "_tiny",
    }
    return known | changes


def test_the_model_and_its_samples_are_asked_for_by_their_tags() -> None:
    model, samples = customize.model_tags(env())
    assert model == "get,ml-model,language-processing,bert-large,_tiny,_onnx,_fp32"
    assert samples == ""
    assert customize.vendor_word(env()) == "bert"
    _, samples = customize.model_tags(env(CM_ENGINE_PRECISION="int8"))
    assert samples == "get,preprocessed,dataset,squad,_training,_tiny"
    with pytest.raises(Error, match="rnnt"):
        customize.model_tags(env(CM_ENGINE_PRECISION="int8", CM_MLPERF_MODEL="rnnt"))
    assert customize.model_tags(env(CM_ML_MODEL_FACTS_FILE_WITH_PATH="/x")) == ("", "")


def test_without_a_gpu_the_compute_capability_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(customize.nvidia, "kinds", lambda: ())
    with pytest.raises(Error, match="no NVIDIA GPU here"):
        customize.capabilities(env())
    assert customize.capabilities(env(CM_ENGINE_COMPUTE_CAPABILITY="7.5,8.6")) == ["7.5", "8.6"]
    assert customize.capabilities(env(CM_ENGINE_PRODUCT="stand-in")) == []
    with pytest.raises(Error, match="sm_86 is not one"):
        customize.capabilities(env(CM_ENGINE_COMPUTE_CAPABILITY="sm_86"))
    kinds = ({"compute_cap": "8.0"}, {"compute_cap": "[N/A]"}, {"compute_cap": "8.0"})
    monkeypatch.setattr(customize.nvidia, "kinds", lambda: kinds)
    assert customize.capabilities(env()) == ["8.0"]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.of_checkout(tmp_path)


def test_a_stand_in_from_the_command_and_again_from_the_cache(lab: Lab) -> None:
    words = {"model": "bert-99", "batch_size": "4", "quiet": True}
    got = lab.run("generate,engine,nvidia,_stand-in,_tiny", **words)
    made = Path(got.env["CM_ENGINE_FILE_WITH_PATH"])
    assert made.name == "bert-Offline-gpu-fp32_S_384_B_4_P_1_vs.default.onnx"
    assert got.env["CM_ENGINE_BUILDER"] == "stand-in"
    again = lab.run("generate,engine,nvidia,_stand-in,_tiny", **words)
    assert again.env["CM_ENGINE_FILE_WITH_PATH"] == str(made)
    assert "cached" in again.status.values()


@pytest.mark.parametrize(
    ("tags", "licences"),
    [
        (
            "generate,engine,nvidia,_rtx,_tiny",
            ["NVIDIA's, of TensorRT-RTX, which is fetched and never part of this repository"],
        ),
        ("generate,engine,nvidia,_tensorrt,_tiny", ["NVIDIA's, of TensorRT"]),
        ("generate,engine,nvidia,_stand-in,_tiny", []),
        ("get,tensorrt,_lean", ["NVIDIA's, of TensorRT"]),
    ],
)
def test_a_plan_names_the_licence_of_what_is_fetched(
    lab: Lab, tags: str, licences: list[str]
) -> None:
    known = {"compute_capability": "8.6"} if "engine" in tags else {}
    planned = lab.plan(tags, quiet=True, **known)
    assert planned.answer["plan"]["totals"]["licences"] == licences


def test_a_plan_refuses_a_tensorrt_that_is_not_there_and_names_no_licence(lab: Lab) -> None:
    planned = lab.plan("get,tensorrt", quiet=True)
    assert planned.answer["return"] != 0
    assert "[not-detected]" in planned.err
    assert "licence" not in planned.out


# ---------------------------------------------------------------- the real builder


def venv(lab: Lab) -> dict[str, Any]:
    assert lab.run("install,python-venv", name="trt", quiet=True).answer["return"] == 0
    return {"adr": {"python": {"name": "trt"}}, "quiet": True, "compute_capability": "8.6"}


@pytest.mark.slow
@pytest.mark.needs_index
def test_true_engines_are_built_without_a_gpu(lab: Lab, tmp_path: Path) -> None:
    flags = venv(lab)
    tags = "generate,engine,nvidia,_rtx,_tiny"
    for precision in ("float32", "float16"):
        got = lab.run(tags, model="resnet50", precision=precision, **flags)
        made = Path(got.env["CM_ENGINE_FILE_WITH_PATH"])
        assert made.read_bytes()[:4] == b"vtrt"
        found = sidecar.read(made)
        assert (found.builder, found.precision) == ("tensorrt-rtx", precision)
        assert found.profiles["input_tensor:0"][2] == (16, 3, 28, 28)
    wheels = lab.run("get,tensorrt,_rtx", quiet=True, adr=flags["adr"])
    assert wheels.env["CM_TENSORRT_VERSION"].count(".") == 3, "told without a GPU"
    assert Path(wheels.env["CM_TENSORRT_LIB_WITH_PATH"]).is_relative_to(lab.home)
    again = lab.run(tags, model="resnet50", precision=precision, **flags)
    assert again.env["CM_ENGINE_FILE_WITH_PATH"] == str(made)
    refused = lab.run(tags, model="retinanet", **flags)
    assert refused.answer["return"] != 0
    assert "parser refuses retinanet_tiny.onnx: NonZero" in " ".join(refused.err.split())
    hopper = lab.run(tags, model="resnet50", **{**flags, "compute_capability": "9.0"})
    assert "no target for compute capability 9.0" in " ".join(hopper.err.split())
    turing = lab.run(tags, model="resnet50", **{**flags, "compute_capability": "7.5"})
    assert "FP32 GEMM is not supported" in " ".join(turing.err.split())
    (python,) = lab.home.glob("**/trt/bin/python3") or lab.home.glob("**/bin/python3")
    killed_while_building(python, tmp_path)


def killed_while_building(python: Path, tmp_path: Path) -> None:
    """An end in the middle of a build leaves no engine and no description."""
    folder = tmp_path / "killed"
    folder.mkdir()
    facts = str(ROOT / "script/get-ml-model-3d-unet-brats19/tiny/model.json")
    words = {"product": "tensorrt-rtx", "facts": facts, "benchmark": "3d-unet"}
    config = asked(folder, **words, compute_capabilities=["8.6"])
    command = [str(python), "-m", "mlperf.harness.engines", str(config)]
    program = subprocess.Popen(command, env=python_env(LIB))
    time.sleep(2.5)
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert program.returncode == 0 or not (folder / "model.json").exists()
    for plan in folder.glob("*.plan"):
        assert sidecar.read(plan).builder == "tensorrt-rtx", "under its name it is whole"


def test_the_program_tells_one_error(tmp_path: Path) -> None:
    config = asked(tmp_path, product="tensorrt-rtx", facts=str(tmp_path / "none.json"))
    words = [sys.executable, "-m", "mlperf.harness.engines", str(config)]
    ended = subprocess.run(words, env=python_env(LIB), capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") <= 2
    assert "cannot read" in ended.stderr
