"""gen-triton-model-repository: what is written, what is refused, and what the real server does."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triton_lab
from aws_neuron import artifact
from cmbench.errors import Error
from common.files import sha256
from common.problems import Problem
from common.python_path import child_env
from serving.kserve import KserveError, connect
from serving.kserve.stand_ins import stand_in
from serving.repository import config_text, onnx_signature, planner, refusals, writing
from serving.repository.plan import (
    Batching,
    Cores,
    ModelArtefact,
    ModelTensor,
    RepositoryPlan,
    helpers_of,
)
from serving.server import server
from serving.server.server_spec import ServerSpec
from steps import Step
from support import LIB, ROOT, python_env, run

MODEL = ROOT / "script" / "get-ml-model-resnet50" / "tiny" / "resnet50_tiny.onnx"
INPUTS = (ModelTensor("input_tensor:0", "float32", (3, 28, 28)),)
OUTPUTS = (ModelTensor("ArgMax:0", "int64", ()), ModelTensor("softmax_tensor:0", "float32", (11,)))
PLAN = RepositoryPlan(
    "r50", "onnxruntime", INPUTS, OUTPUTS, ModelArtefact(str(MODEL)), max_batch=16
)
ECHO = RepositoryPlan("e", "echo", INPUTS, INPUTS, max_batch=8)
FLAGS: dict[str, Any] = {
    "compiled_model": str(MODEL),
    "device": "cpu",
    "disable_batch_requests_to_neuron": False,
    "enable_dynamic_batching": False,
    "max_batch_size": "16",
    "max_queue_delay_microseconds": "0",
    "model_version": "3",
    "parameters": {"TAG_SET": "serve", "THREADS": None},
    "runtime": "pytorch",
    "target": "inf1",
    "threads_per_core": "1",
    "triton_input": "a,FP32,3x28x28; b,TYPE_INT32,384",
    "triton_model_dir": "/m/r50",
    "triton_model_instance_count": "4",
    "triton_output": "OUTPUT__0,FP32,1000",
}


def changed(plan: RepositoryPlan, **changes: Any) -> RepositoryPlan:
    return replace(plan, **changes)


# ---------------------------------------------------------------- flags


def test_the_flags_of_the_known_generator_mean_what_they_do_there() -> None:
    plan, place = planner.plan({**FLAGS, "neuron_core_range": "0:15"})
    assert (str(place), plan.name, plan.runtime, plan.device) == ("/m", "r50", "neuron", "inf1")
    assert plan.inputs[1] == ModelTensor("b", "int32", (384,))
    assert (plan.cores, plan.instances, plan.version) == (Cores(0, 15), 4, 3)
    assert plan.kind == "KIND_MODEL"
    assert plan.all_parameters()["NEURON_CORE_END_INDEX"] == "15"
    more = {"enable_dynamic_batching": True, "preferred_batch_size": "4,8"}
    plan, _ = planner.plan({**FLAGS, **more, "max_queue_delay_microseconds": "50"})
    assert (plan.runtime, plan.batching) == ("pytorch", Batching((4, 8), 50))
    assert "THREADS" not in plan.parameters


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"triton_input": "a,FP32"}, "is not a tensor"),
        ({"triton_input": "a,FLOAT,3"}, "types are BOOL"),
        ({"triton_input": "a,FP32,3x"}, "is not a tensor"),
        ({"neuron_core_range": "0-15"}, "FIRST:LAST"),
        ({"max_batch_size": "many"}, "--max_batch_size=many"),
        ({"enable_dynamic_batching": True, "preferred_batch_size": "4;8"}, "preferred_batch_size"),
        ({"preferred_batch_size": "many"}, "--preferred_batch_size=many"),
        ({"preferred_batch_size": "8"}, "says nothing without --enable_dynamic_batching"),
        ({"max_queue_delay_microseconds": "9"}, "leave out --max_queue_delay_microseconds"),
        ({"compiled_model": "", "facts": "/none/model.json"}, "No such file"),
    ],
)
def test_flags_that_mean_nothing_are_told(change: dict[str, Any], says: str) -> None:
    with pytest.raises(Problem) as caught:
        planner.plan({**FLAGS, **change})
    assert says in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("given", ["", "/", "."])
def test_without_a_model_file_the_flags_alone_say_what_is_served(given: str) -> None:
    """Echo computes nothing: it has no file, and neither has a model that is asked for wrongly."""
    flags = {**FLAGS, "runtime": "echo", "compiled_model": given, "target": ""}
    plan, _ = planner.plan(flags)
    assert [tensor.name for tensor in plan.inputs] == ["a", "b"]
    with pytest.raises(Problem, match="is not a tensor"):
        planner.plan({**flags, "triton_input": "x"})


def test_the_facts_of_a_model_give_its_tensors(tmp_path: Path) -> None:
    facts = MODEL.with_name("model.json")
    asks = {**FLAGS, "compiled_model": "", "triton_input": "", "triton_output": ""}
    plan, _ = planner.plan({**asks, "facts": str(facts), "runtime": "onnxruntime"})
    assert (plan.inputs, plan.outputs) == (INPUTS, OUTPUTS)
    assert plan.artefact is not None
    assert plan.artefact.sha256.startswith("86166ec3")
    told = json.loads(facts.read_text())
    several = tmp_path / "model.json"
    several.write_text(json.dumps({**told, "parts": [{}]}))
    with pytest.raises(Problem, match="consists of several graphs"):
        planner.plan({**asks, "facts": str(several)})


def test_the_script_hands_its_inputs_on(tmp_path: Path) -> None:
    env = {
        "CM_TRITON_RUNTIME": "openvino",
        "CM_ML_MODEL_PRECISION": "int8",
        "CM_TRITON_INF2": "yes",
    }
    env |= {"CM_TRITON_MODEL_REPOSITORY": "/m", "CM_ML_MODEL_FILE": "r50.onnx"}
    env |= {"CM_TMP_CURRENT_SCRIPT_PATH": str(ROOT / "script/gen-triton-model-repository")}
    step = Step("gen-triton-model-repository", tmp_path / "entry", dict(env))
    step.call("preprocess")
    request = json.loads(Path(step.env["CM_TRITON_SERVER_REQUEST"]).read_text())
    assert (request["triton_model_dir"], request["target"]) == ("/m/r50", "inf2")
    helpers = helpers_of("openvino")
    assert helpers
    assert all(Path(each).is_file() for each in helpers)
    del env["CM_TRITON_MODEL_REPOSITORY"]
    with pytest.raises(Error, match="where the model is to go"):
        Step("gen-triton-model-repository", tmp_path / "two", env).call("preprocess")


# ---------------------------------------------------------------- refusals


def test_the_signature_of_an_onnx_file_is_read_without_its_library(tmp_path: Path) -> None:
    assert onnx_signature.read(MODEL) == (INPUTS, OUTPUTS)
    whole = MODEL.read_bytes()
    for name, data in (("empty", b""), ("text", b"hello, world" * 9), ("cut", whole[:5000])):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(Problem, match="is not an ONNX model"):
            onnx_signature.read(path)


def test_the_signatures_of_all_shipped_models_are_those_of_their_facts() -> None:
    models = sorted((ROOT / "script").glob("get-ml-model-*/tiny*/model.json"))
    assert len(models) > 5
    for path in models:
        facts = json.loads(path.read_text())
        if not facts["file"].endswith(".onnx"):
            continue
        for graph in (facts, *facts.get("parts", ())):
            inputs, outputs = onnx_signature.read(path.with_name(graph["file"]))
            known = {each["name"]: each["dtype"] for each in graph["inputs"]}
            assert {each.name: each.dtype for each in inputs} == known
            assert {each["name"] for each in graph["outputs"]} <= {o.name for o in outputs}


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (changed(PLAN, inputs=(ModelTensor("x", "float32", (3,)),)), "the model has no input x"),
        (
            changed(PLAN, inputs=(replace(INPUTS[0], dtype="int32"),)),
            "input input_tensor:0 int32 [N, 3, 28, 28] is input_tensor:0 float32",
        ),
        (changed(PLAN, inputs=(replace(INPUTS[0], shape=(3, 28, 29)),)), "3, 28, 29"),
        (changed(PLAN, outputs=(ModelTensor("y", "float32", ()),)), "the model has no output y"),
        (changed(PLAN, inputs=()), "no input is named"),
        (changed(PLAN, inputs=INPUTS * 2), "is named twice"),
        (changed(PLAN, artefact=None), "no model file is named"),
        (changed(PLAN, artefact=ModelArtefact("/none.onnx")), "/none.onnx does not exist"),
        (changed(PLAN, name="../x"), "letters, digits"),
        (changed(PLAN, runtime="onnx"), "no runtime onnx"),
        (changed(PLAN, device="cuda"), "no device cuda"),
        (changed(PLAN, version=0), "counted from 1"),
        (changed(PLAN, instances=0), "at least one is needed"),
        (changed(PLAN, batching=Batching((32,))), "preferred batches [32]"),
        (changed(PLAN, max_batch=0, batching=Batching()), "the largest batch is 0"),
        (
            changed(ECHO, batching=Batching(), inputs=(ModelTensor("t", "int64", (-1,)),)),
            "may differ in shape",
        ),
        (changed(ECHO, cores=Cores(0, 15), instances=3), "16 cores cannot be shared out to 3"),
        (changed(ECHO, cores=Cores(4, 3)), "cores 4 to 3"),
        (changed(PLAN, runtime="neuron", device="inf1"), "no cores are named"),
        (
            changed(ECHO, runtime="neuron", device="cpu", cores=Cores(0, 15), instances=1),
            "requests of at most 8 samples are shared out to the 16 cores",
        ),
    ],
)
def test_what_would_not_work_is_refused_before_anything_is_written(
    tmp_path: Path, plan: RepositoryPlan, says: str
) -> None:
    with pytest.raises(Problem) as caught:
        writing.write(plan, tmp_path)
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def compiled(
    folder: Path, target: str = "inf2", content: bytes = b"x", dynamic: bool = True
) -> Path:
    """A compiled model with the file beside it; its tensor is that of ``ECHO``."""
    path = folder / "resnet50_neuron_bs4_dynamic.pt"
    path.write_bytes(content)
    tensors = tuple(artifact.ArtefactTensor(t.name, t.dtype, t.shape) for t in INPUTS)
    digest = sha256(path)
    source = artifact.SourceModel("resnet50_tiny", "m.pt", digest)
    neuron = artifact.NeuronCompilation("resnet50", target, 4, dynamic, "torch", {}, source)
    about = artifact.NeuronArtefact(
        "m", path.name, digest, len(content), "fp32", tensors, tensors, neuron
    )
    artifact.write(path, about)
    return path


def test_the_json_beside_a_compiled_model_is_its_signature(tmp_path: Path) -> None:
    artefact = compiled(tmp_path)
    plan = changed(
        ECHO,
        runtime="neuron",
        device="inf2",
        cores=Cores(0, 1),
        artefact=ModelArtefact(str(artefact)),
    )
    assert "not verified on hardware" in refusals.check(plan)[0]
    with pytest.raises(Problem, match="the model has no input other"):
        refusals.check(changed(plan, inputs=(ModelTensor("other", "float32", (3,)),)))
    artifact.sidecar_of(artefact).unlink()
    assert "not verified on hardware" in refusals.check(plan)[0]


@pytest.mark.parametrize("runtime", ["neuron", "pytorch"])
def test_a_compiled_model_tells_its_tensors_and_its_device(runtime: str, tmp_path: Path) -> None:
    """By the file beside it, whether that is the compiled model of a flag or of a step before."""
    artefact = compiled(tmp_path, "trn1")
    asks = {**FLAGS, "runtime": runtime, "target": "", "triton_input": "", "triton_output": ""}
    asks |= {"neuron_core_range": "0:3"}
    sidecar = str(artifact.sidecar_of(artefact))
    for more in ({"compiled_model": str(artefact)}, {"compiled_model": "", "facts": sidecar}):
        plan, _ = planner.plan({**asks, **more})
        assert (plan.runtime, plan.device) == ("neuron", "trn1")
        assert plan.inputs == plan.outputs == INPUTS
        assert (plan.fixed_batch, "FIXED_BATCH" in plan.all_parameters()) == (0, False)
        assert plan.artefact == ModelArtefact(str(artefact), sha256(artefact))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"target": "inf1", "neuron_core_range": "0:3"}, "compiled for inf2, and inf1 is to run"),
        ({"target": "", "runtime": "pytorch"}, "compiled for inf2, and cpu is to run it"),
    ],
)
def test_an_artefact_for_another_device_is_refused(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    artefact = compiled(tmp_path)
    with pytest.raises(Problem, match=says) as caught:
        planner.plan({**FLAGS, "compiled_model": str(artefact), **change})
    assert "compile,neuron-model" in caught.value.hint


def test_an_artefact_that_was_changed_is_refused(tmp_path: Path) -> None:
    artefact = compiled(tmp_path)
    artefact.write_bytes(b"y")
    with pytest.raises(Problem, match="is not the file that was compiled"):
        planner.plan({**FLAGS, "compiled_model": str(artefact), "target": ""})


# ---------------------------------------------------------------- what is written


def test_a_text_says_what_the_plan_does() -> None:
    text = config_text.write(
        changed(PLAN, batching=Batching((4, 8), 100), cores=Cores(0, 3), parameters={"Q": 'a"\\b'})
    )
    assert 'key: "Q"\n  value { string_value: "a\\"\\\\b" }' in text
    assert "dims: [ 1 ]\n  reshape { shape: [ ] }" in text
    assert "preferred_batch_size: [ 4, 8 ]\n  max_queue_delay_microseconds: 100" in text
    assert "kind: KIND_MODEL" in text
    assert PLAN.label == "onnxruntime (python-based)"
    assert ECHO.label == "echo"
    assert changed(PLAN, device="gpu").kind == "KIND_GPU"


@pytest.mark.slow
@pytest.mark.needs_index
def test_the_configuration_is_read_back_and_compared(tmp_path: Path) -> None:
    triton_lab.describe_configurations()
    written = writing.write(changed(PLAN, version=7, batching=Batching((4,), 9)), tmp_path)
    assert {path.name for path in (tmp_path / "r50").iterdir()} == {"7", "config.pbtxt"}
    names = {path.name for path in (tmp_path / "r50/7").iterdir()}
    assert names == {"model.py", "served.py", MODEL.name}
    again = writing.write(changed(PLAN, version=7, batching=Batching((4,), 9)), tmp_path)
    assert again.sha256 == written.sha256
    other = writing.write(changed(PLAN, instances=2), tmp_path)
    assert other.sha256 != written.sha256
    assert [path.name for path in tmp_path.iterdir()] == ["r50"], "nothing of the old one is left"
    text = config_text.write(PLAN)
    config_text.check(PLAN, text)
    for wrong, says in (
        (text.replace("TYPE_FP32", "TYPE_FP16"), "in place of"),
        (text.replace("count: 1", "count: 2"), "instance_group"),
        (text + "sequence_batching {}\n", "sequence_batching"),
        (text.replace("dims:", "dimensions:"), "cannot be read"),
    ):
        with pytest.raises(Problem, match=says):
            config_text.check(PLAN, wrong)


def images(count: int) -> Any:
    return np.random.default_rng(1).random((count, 3, 28, 28), dtype=np.float32)


def test_a_model_of_one_batch_says_so(tmp_path: Path) -> None:
    given = {**FLAGS, "compiled_model": str(compiled(tmp_path, "cpu", dynamic=False)), "target": ""}
    plan, _ = planner.plan({**given, "triton_input": "", "triton_output": ""})
    assert plan.all_parameters()["FIXED_BATCH"] == "4"


# Answers with the size of the batch that it was called with, for each sample.
SIZES = """
import numpy as np
from served import BatchingModel


class TritonPythonModel(BatchingModel):
    def compute(self, feeds):
        (array,) = feeds.values()
        return [np.full((len(array), 1), len(array)), array]
"""


@pytest.mark.slow
@pytest.mark.needs_index
def test_the_real_server_answers_as_the_runtimes_do_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    triton_lab.describe_configurations()
    for plan in (
        changed(PLAN, name="one", batching=Batching((8,), 2000), parameters={"THREADS": "1"}),
        changed(PLAN, name="two", runtime="openvino", instances=2, parameters={"THREADS": "1"},
                helpers=helpers_of("openvino")),
        changed(ECHO, outputs=(ModelTensor("y", "float32", (5, 4)), ModelTensor("z", "int32", ()))),
    ):  # fmt: skip
        writing.write(plan, tmp_path / "models")
    shutil.copytree(writing.PROGRAMS, tmp_path / "programs")
    (tmp_path / "programs" / "echo.py").write_text(SIZES)
    monkeypatch.setattr(writing, "PROGRAMS", tmp_path / "programs")
    outputs = (ModelTensor("size", "int64", ()), *INPUTS)
    writing.write(changed(ECHO, name="f", outputs=outputs, fixed_batch=3), tmp_path / "models")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(MODEL), options)
    launcher = str(triton_lab.installed().launcher)
    asked_for = ServerSpec(launcher, str(tmp_path / "models"))
    with server.running(asked_for, tmp_path / "f") as found, connect(found.url) as connection:
        for count in (1, 16):
            batch = images(count)
            expected = session.run(["ArgMax:0", "softmax_tensor:0"], {"input_tensor:0": batch})
            for name in ("one", "two"):
                told = connection.infer(name, {"input_tensor:0": batch})
                top = np.frombuffer(told["ArgMax:0"].data, "int64")
                share = np.frombuffer(told["softmax_tensor:0"].data, "float32")
                assert np.array_equal(top, expected[0]), name
                assert np.abs(share - expected[1].ravel()).max() < 1e-5, name
                assert name != "one" or np.array_equal(share, expected[1].ravel())
        only = connection.infer("one", {"input_tensor:0": images(2)}, ["ArgMax:0"])
        assert list(only) == ["ArgMax:0"]
        made = connection.infer("e", {"input_tensor:0": images(3)})
        assert made["y"].shape == (3, 5, 4)
        for count in (1, 3, 7):
            told = connection.infer("f", {"input_tensor:0": images(count)})
            assert np.frombuffer(told["size"].data, "int64").tolist() == count * [3]
            assert bytes(told["input_tensor:0"].data) == images(count).tobytes()
        with pytest.raises(KserveError, match="batch-size must be <= 16"):
            connection.infer("one", {"input_tensor:0": images(17)})
        with pytest.raises(KserveError, match="shape"):
            connection.infer("one", {"input_tensor:0": images(1)[:, :2]})
        assert connection.config("one")["parameters"]["RUNTIME"] == {
            "string_value": "onnxruntime (python-based)"
        }


SERVED = """
import os, sys, types
class Seen(types.ModuleType):
    def __getattr__(self, name):
        return Seen(name)
for name in ("numpy", "triton_python_backend_utils"):
    sys.modules[name] = Seen(name)
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("torch:", os.environ.get("OMP_WAIT_POLICY"))
            sys.exit()
sys.meta_path.insert(0, Watch())
program = __import__(sys.argv[1]).TritonPythonModel()
program.threads, program.parameters = 1, {"DEVICE": "cpu"}
program.open()
"""


@pytest.mark.parametrize("runtime", ["pytorch", "neuron"])
@pytest.mark.parametrize("given", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}], ids=["ours", "theirs"])
def test_threads_of_openmp_wait_without_the_core_that_others_want(
    runtime: str, given: dict[str, str]
) -> None:
    env = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | given
    words = [sys.executable, "-c", SERVED, runtime]
    told = run(words, env=child_env(writing.PROGRAMS, base=env)).ok().stdout
    assert told == f"torch: {given.get('OMP_WAIT_POLICY', 'PASSIVE')}\n"


@pytest.mark.slow
@pytest.mark.needs_index
def test_instances_claim_their_cores_and_refuse_a_batch_below_them(tmp_path: Path) -> None:
    """The code that a device would run. ``CMBENCH_TORCH`` names a Triton whose Python has torch:
    with it, on what compile-neuron-model makes for the processor."""
    triton_lab.describe_configurations()
    launcher = os.environ.get("CMBENCH_TORCH", "")
    plan = changed(ECHO, name="n", device="cpu", instances=4, cores=Cores(0, 15))
    if launcher:
        artefact = for_the_processor(Path(launcher), tmp_path)
        asks = {**FLAGS, "compiled_model": str(artefact), "neuron_core_range": "0:15", "target": ""}
        asks |= {"triton_input": "", "triton_output": "", "triton_model_dir": "/m/n"}
        plan, _ = planner.plan(asks)
        assert (plan.runtime, plan.device, plan.instances) == ("neuron", "cpu", 4)
    writing.write(plan, tmp_path / "models")
    given, wanted_output = plan.inputs[0].name, plan.outputs[0].name
    wanted = ServerSpec(launcher or str(triton_lab.installed().launcher), str(tmp_path / "models"))
    with server.running(wanted, tmp_path / "f") as found, connect(found.url) as connection:
        claims = [line for line in found.log().splitlines() if "NEURON_RT_VISIBLE_CORES" in line]
        assert sorted(claims) == [
            f"n_0_{k}: NEURON_RT_VISIBLE_CORES={4 * k}-{4 * k + 3}, device cpu" for k in range(4)
        ]
        batch = images(4)
        answer = connection.infer("n", {given: batch})
        told = np.frombuffer(answer[wanted_output].data, "f4").reshape(4, -1)
        expected = 2 * batch.reshape(4, -1).mean(1, keepdims=True) if launcher else batch
        assert np.allclose(told, expected.reshape(4, -1), atol=1e-6)
        with pytest.raises(KserveError, match="a batch of 3 cannot be shared out to the 4 cores"):
            connection.infer("n", {given: images(3)})


NET = """
import sys, torch
class Net(torch.nn.Module):
    def forward(self, x):
        return 2 * x.flatten(1).mean(1, keepdim=True)
torch.jit.trace(Net(), torch.rand(2, 3, 28, 28)).save(sys.argv[1])
"""


def for_the_processor(launcher: Path, folder: Path) -> Path:
    """A model of one layer, compiled by the real program with the Python of the server's models."""
    python = launcher.parents[1] / "environment/bin/python3"
    path, answer = folder / "m.pt", folder / "answer.json"
    run([str(python), "-c", NET, str(path)]).ok()
    tensors = {"inputs": [{"name": "x", "dtype": "float32", "shape": [3, 28, 28]}]}
    tensors["outputs"] = [{"name": "y", "dtype": "float32", "shape": [1]}]
    facts = {"name": "net", "file": path.name, "sha256": sha256(path)}
    facts |= {"precision": "fp32", "accuracy": {}}
    (folder / "model.json").write_text(json.dumps({**facts, **tensors}))
    request = {"answer": str(answer), "batch_size": 4, "benchmark": "resnet50"}
    request |= {"compiler_flags": [], "facts": str(folder / "model.json"), "target": "cpu"}
    request |= {"models": str(folder / "compiled"), "python": str(python)}
    (folder / "request.json").write_text(json.dumps(request))
    words = [sys.executable, "-m", "aws_neuron.compiling", str(folder / "request.json")]
    run(words, env=python_env(LIB)).ok()
    return Path(json.loads(answer.read_text())["path"])


def test_a_processor_in_place_of_a_neuron_device_is_said_of_the_repository(tmp_path: Path) -> None:
    whole = changed(PLAN, runtime="neuron", device="cpu")
    assert "stands in for a Neuron device" in whole.stand_in
    for other in ({"device": "inf1"}, {"runtime": "pytorch"}):
        assert changed(whole, **other).stand_in == ""
    # The server and the client read it from the configuration that the server tells.
    told = {key: {"string_value": value} for key, value in whole.all_parameters().items()}
    assert "stands in for a Neuron device" in stand_in({"parameters": told})
    assert stand_in({"parameters": {**told, "DEVICE": {"string_value": "inf1"}}}) == ""
    assert stand_in({}) == stand_in({"parameters": None}) == ""
