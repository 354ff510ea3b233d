"""compile-neuron-model: in place of the SDK's process one that writes, speaks or fails as it does.

The artefact for the processor is a real one; it needs PyTorch beside the project's own packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aws_neuron import artifact
from cmbench import api
from cmbench.errors import Error
from cmbench.plan.planned_step import walk
from common.python_path import VARIABLE
from steps import Step
from support import LIB, ROOT, python_env, run, wait_for

SCRIPT = ROOT / "script" / "compile-neuron-model"
PROGRAM = LIB / "aws_neuron/compiling/sdk/compile.py"

MODELS = {"resnet50": "get-ml-model-resnet50", "bert": "get-ml-model-bert-large-squad"}
# What torch-neuron and neuron-cc print in a compilation that works; names and sizes differ.
LINES = (
    "INFO:Neuron:There are 3 ops of 1 different types in the TorchScript that are not compiled",
    "INFO:Neuron:Number of arithmetic operators (post-compilation) before = 175, compiled = 175",
    "Compiler status PASS",
)
HEAD = f"""#!{sys.executable}
import json, os, sys, time
from common.python_path import VARIABLE
asked = json.load(open(sys.argv[2]))
shape = [asked["batch_size"], 11] if asked["benchmark"] == "resnet50" else [1, 384, 2]
def finish(dtype="float32", shape=shape, content=b"compiled"):
    open(asked["artefact"], "wb").write(content)
    told = {{"sdk": "torch-neuron", "versions": {{"torch-neuron": "1.13.1"}}}}
    told["output"] = {{"dtype": dtype, "shape": shape}}
    json.dump(told, open(asked["answer"], "w"))
"""
WORKS = f"print({chr(10).join(LINES)!r})\nfinish()\n"


def model(folder: Path, benchmark: str = "resnet50") -> Path:
    """The facts of a tiny model as ``_pytorch`` gives it, with a file of no content."""
    shipped = ROOT / "script" / MODELS[benchmark] / "tiny" / "model.json"
    facts = json.loads(shipped.read_text())
    facts |= {"file": "m.pt", "sha256": hashlib.sha256(b"").hexdigest(), "bytes": 0}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "m.pt").write_bytes(b"")
    (folder / "model.json").write_text(json.dumps(facts))
    return folder / "model.json"


def sdk(folder: Path, code: str) -> Path:
    """A program in place of the SDK's Python."""
    path = folder / "sdk-python"
    path.write_text(HEAD + code)
    path.chmod(0o755)
    return path


def step(folder: Path, code: str = WORKS, benchmark: str = "resnet50", **env: str) -> Step:
    given = {
        "CM_ML_MODEL_FACTS_FILE_WITH_PATH": str(model(folder / "model", benchmark)),
        "CM_NEURON_MODELS_PATH": str(folder / "compiled"),
        "CM_NEURON_MODEL_BATCH_SIZE": "5",
        "CM_NEURON_MODEL_BENCHMARK": benchmark,
        "CM_NEURON_MODEL_TARGET": "inf1",
        "CM_NEURON_SDK_PYTHON": str(sdk(folder, code)),
        "CM_PYTHON_BIN_WITH_PATH": sys.executable,
        "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT),
        "CM_TMP_RUN_DIR": str(folder),
    }
    made = Step(SCRIPT.name, folder / "cwd", {**given, **env})
    made.call("preprocess")
    return made


def compiled(made: Step) -> Step:
    """The native program and the last hook."""
    words = ["bash", str(SCRIPT / "run.sh")]
    run(words, env={**os.environ, **{k: str(v) for k, v in made.env.items()}}).ok()
    made.call("postprocess")
    return made


def left(folder: Path) -> list[str]:
    """All files below the folder of artefacts."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---------------------------------------------------------------- what comes out


@pytest.mark.parametrize(
    ("benchmark", "name", "dynamic", "inputs", "output"),
    [
        (
            "resnet50",
            "resnet50/resnet50-pytorch-bs5/resnet50_neuron_bs5_dynamic.pt",
            True,
            [("INPUT__0", "float32", (3, 28, 28))],
            ("OUTPUT__0", "float32", (11,)),
        ),
        (
            "bert",
            "bert/bert-pytorch-bs5/bert-large-int32-bs5-concat.pt",
            False,
            [(f"INPUT__{k}", "int32", (384,)) for k in range(3)],
            ("OUTPUT__0", "float32", (384, 2)),
        ),
    ],
)
def test_an_artefact_lies_where_the_guide_has_it_and_says_what_it_is(
    benchmark: str, name: str, dynamic: bool, inputs: Any, output: Any, tmp_path: Path
) -> None:
    made = compiled(
        step(tmp_path, benchmark=benchmark, CM_NEURON_COMPILER_FLAGS="--fast-math none -O2")
    )
    path = tmp_path / "compiled" / name
    assert left(tmp_path / "compiled") == [name, f"{name}.json"]
    told = artifact.read(path)
    assert (told.neuron.target, told.neuron.batch_size, told.neuron.dynamic_batch) == (
        "inf1",
        5,
        dynamic,
    )
    assert [(t.name, t.dtype, t.shape) for t in told.inputs] == inputs
    assert [(t.name, t.dtype, t.shape) for t in told.outputs] == [output]
    assert told.neuron.compiler_flags == ("--fast-math", "none", "-O2")
    assert (told.neuron.sdk, dict(told.neuron.versions)) == (
        "torch-neuron",
        {"torch-neuron": "1.13.1"},
    )
    assert told.neuron.model.sha256 == hashlib.sha256(b"").hexdigest()
    assert made.env["CM_ML_MODEL_FILE_WITH_PATH"] == str(path)
    assert made.env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"] == f"{path}.json"
    assert made.env["CM_NEURON_MODEL_DYNAMIC_BATCH"] == ("yes" if dynamic else "no")


def test_the_same_is_compiled_once_and_another_again(tmp_path: Path) -> None:
    count = "open(os.environ['COUNT'], 'a').write('x')\n" + WORKS
    counted = tmp_path / "count"

    def times(**env: str) -> int:
        compiled(step(tmp_path, count, COUNT=str(counted), **env))
        return len(counted.read_text())

    assert [times(), times()] == [1, 1]
    assert times(CM_NEURON_COMPILER_FLAGS="-O2") == 2
    assert times(CM_NEURON_COMPILER_FLAGS="-O2", CM_NEURON_MODEL_TARGET="inf2") == 3
    (artefact,) = (tmp_path / "compiled").rglob("*.pt")
    artefact.write_bytes(b"other")
    assert times(CM_NEURON_COMPILER_FLAGS="-O2", CM_NEURON_MODEL_TARGET="inf2") == 4


def test_a_trial_does_not_replace_what_a_device_runs(tmp_path: Path) -> None:
    compiled(step(tmp_path))
    before = left(tmp_path / "compiled")
    with pytest.raises(Error, match="is for inf1, and one for cpu has the same name") as caught:
        compiled(step(tmp_path, CM_NEURON_MODEL_TARGET="cpu"))
    assert "--dir=/folder" in caught.value.hint
    assert left(tmp_path / "compiled") == before


# ---------------------------------------------------------------- what fails

TORN = "open(asked['artefact'], 'wb').write(b'half'); sys.stdout.flush()\n"


# What PyTorch does where the disk is full, as seen with 2.15.
ABORTS = """
print("terminate called after throwing an instance of 'c10::Error'")
print("  what():  [enforce fail at inline_container.cc:671] . unexpected pos 135488 vs 135376")
print("\\n".join(f"frame #{k}: <unknown function>" for k in range(40)), flush=True)
os.abort()
"""


@pytest.mark.parametrize(
    ("code", "error", "says", "hint"),
    [
        (
            "sys.exit('ERROR:Neuron:neuron-cc failed with the following command line call')\n",
            "script-failed",
            "failed with status 1",
            "operator",
        ),
        (
            "sys.exit('RuntimeError: [enforce fail] PytorchStreamWriter failed writing file')\n",
            "no-space",
            "out of disk space",
            "--dir=",
        ),
        (
            ABORTS,
            "no-space",
            "out of disk space",
            "--dir=",
        ),
        ("import torch_of_another_time\n", "import-failed", "lacks a package", "neuron-sdk"),
        ("os.kill(os.getpid(), 9)\n", "script-failed", "signal 9", "memory"),
        ("finish(dtype='float16')\n", "model-file", "gives float16", "facts"),
        ("finish(shape=[5, 1000])\n", "model-file", r"float32 \[1000\]", "facts"),
        ("pass\n", "script-failed", "ended well and made no", ""),
    ],
)
def test_a_compiler_that_fails_leaves_nothing_and_one_error(
    code: str, error: str, says: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(Error, match=says) as caught:
        compiled(step(tmp_path, (TORN if code != "pass\n" else "") + code))
    assert caught.value.code == error
    assert hint in caught.value.hint
    assert left(tmp_path / "compiled") == []


def test_a_failure_leaves_the_artefact_of_before(tmp_path: Path) -> None:
    compiled(step(tmp_path))
    before = left(tmp_path / "compiled")
    with pytest.raises(Error, match="status 3"):
        compiled(step(tmp_path, TORN + "sys.exit(3)\n", CM_NEURON_COMPILER_FLAGS="-O2"))
    assert left(tmp_path / "compiled") == before
    (artefact,) = (tmp_path / "compiled").rglob("*.pt")
    assert artifact.read(artefact).neuron.compiler_flags == ()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_one_that_is_ended_takes_the_compiler_along(number: int, tmp_path: Path) -> None:
    """The real program of ours in the SDK's place, so that its own end is tried too."""
    waits = (
        f"import runpy\nours = runpy.run_path({str(PROGRAM)!r})\n"
        "ours['end_with_owner']()\n"
        "open(os.environ['PID'], 'w').write(str(os.getpid()))\n" + TORN + "time.sleep(600)\n"
    )
    made = step(tmp_path, waits, PID=str(tmp_path / "pid"))
    env = {**os.environ, **{k: str(v) for k, v in made.env.items()}}
    process = subprocess.Popen(["bash", str(SCRIPT / "run.sh")], env=env)
    pid = int(wait_for(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text()))
    wait_for(lambda: left(tmp_path / "compiled"))
    process.send_signal(number)
    process.wait()
    wait_for(lambda: not is_alive(pid))
    folder = tmp_path / "compiled"
    assert not [name for name in left(folder) if not Path(name).parts[-2].startswith(".")]
    if number != signal.SIGKILL:
        assert left(folder) == []
    compiled(step(tmp_path))
    assert len(left(folder)) == 2, "what a killed one leaves is removed by the next"


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_of_two_at_once_the_second_waits_and_takes_what_is_there(tmp_path: Path) -> None:
    slow = "open(os.environ['COUNT'], 'a').write('x')\ntime.sleep(1)\n" + WORKS
    made = step(tmp_path, slow, COUNT=str(tmp_path / "count"))
    env = {**os.environ, **{k: str(v) for k, v in made.env.items()}}
    both = [subprocess.Popen(["bash", str(SCRIPT / "run.sh")], env=env) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert (tmp_path / "count").read_text() == "x"


def test_what_does_not_fit_is_told_before_anything_runs(tmp_path: Path) -> None:
    made = step(tmp_path)
    facts = Path(made.env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"])
    facts.write_text(facts.read_text().replace("m.pt", "m.onnx"))
    with pytest.raises(Error, match=r"m\.onnx is not a model of PyTorch"):
        compiled(made)
    facts.unlink()
    with pytest.raises(Error, match=r"model\.json") as caught:
        compiled(made)
    assert caught.value.code == "model-facts"
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(Error, match="cannot make the folder") as caught:
        compiled(step(tmp_path, CM_NEURON_MODELS_PATH=str(blocked)))
    assert "--dir=" in caught.value.hint
    with pytest.raises(Error, match="cannot be started"):
        compiled(step(tmp_path, CM_NEURON_SDK_PYTHON="/none/python"))


# ---------------------------------------------------------------- the processor


@pytest.mark.parametrize("benchmark", MODELS)
def test_the_artefact_for_the_processor_answers_as_the_model(
    benchmark: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx2torch")
    onnxruntime = pytest.importorskip("onnxruntime")
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "script" / MODELS[benchmark] / "tiny", folder)
    (onnx,) = folder.glob("*.onnx")
    session = onnxruntime.InferenceSession(str(onnx))
    env = python_env()
    run([sys.executable, "-m", "modelzoo.torchscript", "--out", str(folder)], env=env).ok()
    given = {"CM_NEURON_MODEL_TARGET": "cpu", VARIABLE: env[VARIABLE]}
    made = step(tmp_path / "run", benchmark=benchmark, **given)
    made.env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"] = str(folder / "model.json")
    made.call("preprocess")
    compiled(made)
    artefact = artifact.read(Path(made.env["CM_NEURON_MODEL_FILE_WITH_PATH"]))
    assert (artefact.neuron.target, artefact.neuron.sdk) == ("cpu", "torch")
    module = torch.jit.load(made.env["CM_NEURON_MODEL_FILE_WITH_PATH"])
    noise = np.random.default_rng(1)
    for batch in (5, 3) if artefact.neuron.dynamic_batch else (5,):
        arrays = [
            100 * noise.random((batch, *t.shape), dtype=np.float32)
            if t.dtype == "float32"
            else noise.integers(0, 2, (batch, *t.shape), dtype=np.int32)
            for t in artefact.inputs
        ]
        with torch.inference_mode():
            found = module(*map(torch.from_numpy, arrays)).numpy()
        real = zip(session.get_inputs(), arrays, strict=True)
        wide = {i.name: a if a.dtype == np.float32 else a.astype(np.int64) for i, a in real}
        first, second = session.run(None, wide)
        wanted = second if benchmark == "resnet50" else np.stack([first, second], axis=-1)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("benchmark", MODELS)
def test_the_model_is_that_of_a_line_that_knows_nothing_of_compiling(
    benchmark: str, tmp_path: Path
) -> None:
    workspace = api.Workspace.open(tmp_path, [ROOT])
    flags = {"target": "cpu", "batch_size": "5", "dir": str(tmp_path / "models")}
    tags = f"compile,neuron-model,_{benchmark},_tiny"
    planned = api.plan(api.request(workspace, tags=tags, **flags)).plan
    (step_run,) = (s.step_run for s in walk(planned.root) if s.script == MODELS[benchmark])
    assert step_run is not None
    assert [key for key in dict.keys(step_run.env) if key.startswith("CM_NEURON_")] == []
