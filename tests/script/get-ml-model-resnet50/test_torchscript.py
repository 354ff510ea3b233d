"""``_pytorch``: TorchScript with the weights of the ONNX file, and bare weights of PyTorch.

What computes needs PyTorch and onnx2torch beside the project's own packages.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import benchmark_lab as lab
from steps import Step
from support import python_env, run, served

RESNET50, BERT = (lab.SCRIPT / f"get-ml-model-{name}" for name in ("resnet50", "bert-large-squad"))
PATHS = str(lab.LIB)
FORMS: dict[str, tuple[Path, tuple[str, ...]]] = {
    "resnet50 tiny": (RESNET50, ()),
    "resnet50 synthetic": (RESNET50, ("--width", "8")),
    "bert tiny": (BERT, ()),
    "bert synthetic": (BERT, ("--layers", "2", "--width", "128")),
}


def path() -> dict[str, str]:
    """The environment of a program that finds all that this process does."""
    return python_env()


def made(folder: Path, script: Path, words: tuple[str, ...]) -> None:
    """The ONNX form in ``folder``: the shipped one, or one without knowledge."""
    if not words:
        shutil.copytree(script / "tiny", folder)
        return
    folder.mkdir()
    program = script / "src" / "synthetic.py"
    run([sys.executable, str(program), "--out", str(folder), *words], env=path()).ok()


def fed(tensors: list[dict[str, Any]], batch: int, length: int) -> dict[str, Any]:
    """Images of noise; or tokens, a mask and segments of ``length``."""
    noise = np.random.default_rng(batch)
    found = {}
    for number, tensor in enumerate(tensors):
        shape = [batch, *(length if size == -1 else size for size in tensor["shape"])]
        if tensor["dtype"] == "float32":
            found[tensor["name"]] = 100 * noise.random(shape, dtype=np.float32)
        else:
            found[tensor["name"]] = noise.integers(0, 2 if number else 200, shape)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_torchscript_answers_as_its_onnx_file(form: str, tmp_path: Path) -> None:
    """Of any batch and length, though it was traced with one of each."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx2torch")
    made(tmp_path / "onnx", *FORMS[form])
    shutil.copytree(tmp_path / "onnx", tmp_path / "torch")
    words = [sys.executable, "-m", "modelzoo.torchscript", "--out", str(tmp_path / "torch")]
    run(words, env=path()).ok()
    before, after = (
        json.loads((tmp_path / kind / "model.json").read_text()) for kind in ("onnx", "torch")
    )
    assert not list((tmp_path / "torch").glob("*.onnx"))
    of_file = ("file", "sha256", "bytes")
    assert {k: v for k, v in after.items() if k not in of_file} == {
        k: v for k, v in before.items() if k not in of_file
    }
    content = (tmp_path / "torch" / after["file"]).read_bytes()
    assert after["sha256"] == hashlib.sha256(content).hexdigest()
    session = onnxruntime.InferenceSession(str(tmp_path / "onnx" / before["file"]))
    module = torch.jit.load(str(tmp_path / "torch" / after["file"]))
    for batch, length in ((1, 384), (3, 200)):
        feeds = fed(before["inputs"], batch, length)
        wanted = session.run([tensor["name"] for tensor in before["outputs"]], feeds)
        with torch.inference_mode():
            found = module(*map(torch.from_numpy, feeds.values()))
        for tensor, one, other in zip(before["outputs"], wanted, found, strict=True):
            assert str(other.numpy().dtype) == tensor["dtype"]
            np.testing.assert_allclose(other.numpy(), one, rtol=1e-4, atol=1e-4)


def test_bare_weights_are_downloaded_and_described(home: Any, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "resnet50.pth").write_bytes(b"weights")
    checksum = hashlib.md5(b"weights").hexdigest()
    with served(site) as url:
        words = (f"--env.CM_PACKAGE_URL={url}/resnet50.pth", "--quiet", "--out=json")
        tags = "--tags=get,ml-model,resnet50,raw,_pytorch"
        pin = f"--env.CM_RESNET50_CHECKSUM={checksum}"
        done = home.cm("run", "script", tags, *words, pin).json
    assert done["return"] == 0, done
    env = done["new_env"]
    told = json.loads(Path(env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"]).read_text())
    full = json.loads((RESNET50 / "full-pytorch" / "model.json").read_text())
    assert {key: told[key] for key in full} == full
    assert Path(env["CM_ML_MODEL_FILE_WITH_PATH"]).read_bytes() == b"weights"


def test_bare_weights_of_bert_are_described(tmp_path: Path) -> None:
    weights = tmp_path / "model.pytorch"
    weights.write_bytes(b"weights")
    env = {"CM_BERT_DOWNLOAD": "yes", "CM_BERT_DOWNLOADED": str(weights)}
    env |= {"CM_ML_MODEL_FRAMEWORK": "pytorch", "CM_ML_MODEL_PRECISION": "fp32"}
    step = Step(BERT.name, tmp_path / "entry", env)
    step.call("postprocess")
    told = json.loads((tmp_path / "entry" / "model.json").read_text())
    assert (told["architecture"], told["file"]) == (
        "transformers.bert-large-uncased",
        "model.pytorch",
    )
    assert step.env["CM_ML_MODEL_INPUT_MASK_NAME"] == "input_mask"


def test_both_forms_are_judged_alike() -> None:
    for script in (RESNET50, BERT):
        one, other = (
            json.loads((script / folder / "model.json").read_text())
            for folder in ("full", "full-pytorch")
        )
        assert one["accuracy"] == other["accuracy"]
        assert "architecture" in other
