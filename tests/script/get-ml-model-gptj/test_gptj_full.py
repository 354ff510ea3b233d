"""GPT-J from a checkpoint of its layout: every name and shape, and what the graph computes.

The real checkpoint (24 GB) cannot be had here; these have its names and files and are narrower. The
reference below is written from the network's definition; against Hugging Face's own class it was
compared by hand (logits within 5e-6, beam search token by token).
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from cmbench.lib.host import machine
from modelzoo import hugging_face
from modelzoo.gptj import decoder
from support import LIB

SCRIPT = forms.SCRIPT / "get-ml-model-gptj"
customize = lab.module_of(SCRIPT / "customize.py")

ml_models = lab.hooks("ml_models")

convert = lab.module_of(LIB / "modelzoo/gptj" / "convert.py")
synthetic = lab.module_of(LIB / "modelzoo/gptj" / "synthetic.py")

NARROW = decoder.Size(
    vocabulary=30, width=24, heads=3, layers=2, inner=96, rotary=4, places=64, epsilon=1e-5
)
CONFIG = {
    "model_type": "gptj",
    "activation_function": "gelu_new",
    "vocab_size": 30,
    "n_embd": 24,
    "n_head": 3,
    "n_layer": 2,
    "n_inner": None,
    "rotary_dim": 4,
    "n_positions": 64,
    "layer_norm_epsilon": 1e-5,
    "eos_token_id": 2,
}
TORCH = importlib.util.find_spec("torch") is not None


def weights() -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {
        name: (generator.normal(size=shape, scale=0.4) + ("ln_" in name)).astype(np.float32)
        for name, shape in decoder.shapes(NARROW).items()
    }


def safetensors(path: Path, arrays: dict[str, Any], dtype: str = "F32") -> None:
    """A file as the format's description has it."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blocks, begin = [], 0
    for name, array in arrays.items():
        if dtype == "BF16":
            raw = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            raw = array.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()
        place = [begin, begin + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": place}
        blocks.append(raw)
        begin += len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))


def sharded(folder: Path, arrays: dict[str, Any], config: dict[str, Any] | None = None) -> Path:
    """A checkpoint in two files with an index, and a mask that is no weight."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    arrays = {**arrays, "transformer.h.0.attn.bias": np.zeros((1, 1, 4, 4), np.float32)}
    names = list(arrays)
    places = {}
    for number, part in enumerate((names[:9], names[9:]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        safetensors(folder / file, {name: arrays[name] for name in part})
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def normalized(found: dict[str, Any], name: str, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + NARROW.epsilon)
    return centred / spread * found[f"{name}.weight"] + found[f"{name}.bias"]


def turned(x: Any) -> Any:
    """Queries or keys [s, heads, head width] with neighbours turned by their place."""
    x = x.copy()
    for pair in range(NARROW.rotary // 2):
        angle = np.arange(len(x)) * 10000.0 ** (-2 * pair / NARROW.rotary)
        one, two = x[:, :, 2 * pair].copy(), x[:, :, 2 * pair + 1].copy()
        sine, cosine = np.sin(angle)[:, None], np.cos(angle)[:, None]
        x[:, :, 2 * pair] = one * cosine - two * sine
        x[:, :, 2 * pair + 1] = two * cosine + one * sine
    return x


def reference(found: dict[str, Any], ids: Any) -> Any:
    """Scores after the last of ``ids``, by the definition of the network."""
    x = found["transformer.wte.weight"][ids]
    shape = (len(ids), NARROW.heads, NARROW.head_width)
    for layer in range(NARROW.layers):
        name = f"transformer.h.{layer}"
        y = normalized(found, f"{name}.ln_1", x)
        q, k, v = (
            (y @ found[f"{name}.attn.{part}_proj.weight"].T).reshape(shape) for part in "qkv"
        )
        scores = np.einsum("ihd,jhd->hij", turned(q), turned(k)) / np.sqrt(NARROW.head_width)
        scores[:, ~np.tri(len(ids), dtype=bool)] = -np.inf
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        mixed = np.einsum("hij,jhd->ihd", share, v).reshape(len(ids), -1)
        inner = y @ found[f"{name}.mlp.fc_in.weight"].T + found[f"{name}.mlp.fc_in.bias"]
        inner *= 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        ahead = inner @ found[f"{name}.mlp.fc_out.weight"].T + found[f"{name}.mlp.fc_out.bias"]
        x = x + mixed @ found[f"{name}.attn.out_proj.weight"].T + ahead
    x = normalized(found, "transformer.ln_f", x)[-1]
    return found["lm_head.weight"] @ x + found["lm_head.bias"]


def run(folder: Path, ids: Any, mask: Any, past: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(
        str(folder / decoder.FILE), providers=["CPUExecutionProvider"]
    )
    found: list[Any] = session.run(
        ["logits", "present"], {"input_ids": ids, "attention_mask": mask, "past": past}
    )
    return found


def empty(count: int) -> Any:
    shape = (count, 2 * NARROW.layers, NARROW.heads, 0, NARROW.head_width)
    return np.zeros(shape, dtype=np.float32)


def converted(source: Path, out: Path) -> Path:
    out.mkdir()
    assert convert.main(["--checkpoint", str(source), "--out", str(out), "--other-size"]) == 0
    return out


def test_the_graph_computes_the_network_with_padding_and_with_a_cache(tmp_path: Path) -> None:
    found = weights()
    out = converted(sharded(tmp_path / "checkpoint", found), tmp_path / "out")
    ids = np.random.default_rng(0).integers(0, 30, (2, 9))
    mask = np.ones_like(ids)
    mask[1, :3] = 0
    logits, _ = run(out, ids, mask, empty(2))
    np.testing.assert_allclose(logits[0, -1], reference(found, ids[0]), atol=1e-3)
    np.testing.assert_allclose(logits[1, -1], reference(found, ids[1, 3:]), atol=1e-3)
    _, past = run(out, ids[:, :6], mask[:, :6], empty(2))
    rest, _ = run(out, ids[:, 6:], mask, past)
    np.testing.assert_allclose(rest, logits, atol=1e-4)


def test_the_facts_are_those_of_the_rules_and_the_files_are_verified(tmp_path: Path) -> None:
    out = converted(sharded(tmp_path / "checkpoint", weights()), tmp_path / "out")
    env: dict[str, Any] = {}
    facts = ml_models.offer(env, str(out))
    assert facts["options"]["eos_token_id"] == facts["options"]["pad_token_id"] == 2
    assert facts["options"]["reduced"].startswith("another size")
    bounds = {each["metric"]: each["target"] for each in facts["accuracy"]["further"]}
    assert bounds["gen_len"] == pytest.approx(3615190.2)
    assert facts["accuracy"]["target"] == pytest.approx(42.556635)
    data = bytearray((out / facts["data"]["file"]).read_bytes())
    data[5000] ^= 1
    (out / facts["data"]["file"]).write_bytes(data)
    with pytest.raises(Error, match="expected"):
        ml_models.offer(env, str(out))


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_smaller_numbers_are_widened(tmp_path: Path, dtype: str) -> None:
    values = np.asarray([[1.5, -2.0], [0.25, 96.0]], dtype=np.float32)
    safetensors(tmp_path / "model.safetensors", {"a": values}, dtype)
    np.testing.assert_array_equal(hugging_face.HuggingFaceCheckpoint(tmp_path).array("a"), values)


@pytest.mark.parametrize("content", [b"", b"no header at all", None])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "model.safetensors"
    safetensors(path, {"a": np.ones((3, 4), np.float32)})
    path.write_bytes(path.read_bytes()[:-5] if content is None else content)
    with pytest.raises(hugging_face.ProgramError, match=r"model\.safetensors is not a file"):
        hugging_face.HuggingFaceCheckpoint(tmp_path).array("a")


@pytest.mark.skipif(not TORCH, reason="reading PyTorch's files needs torch")
@pytest.mark.parametrize("zipped", [False, True])
def test_files_of_pytorch_give_the_same(tmp_path: Path, zipped: bool) -> None:
    import torch

    found = weights()
    tensors = {name: torch.from_numpy(array) for name, array in found.items()}
    path = tmp_path / "pytorch_model.bin"
    torch.save(tensors, str(path), _use_new_zipfile_serialization=zipped)
    source = hugging_face.HuggingFaceCheckpoint(tmp_path)
    assert source.names() == set(found)
    for name, array in found.items():
        np.testing.assert_array_equal(source.array(name), array)


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        ({"lm_head.bias": None}, {}, "no lm_head.bias in it (1 weights are missing)"),
        ({"adapter.weight": np.zeros(3)}, {}, "the network has no adapter.weight"),
        ({"lm_head.weight": np.zeros((31, 24))}, {}, "lm_head.weight is [31, 24], expected"),
        ({}, {"model_type": "gpt2"}, "config.json is of a gpt2, not of a gptj"),
        ({}, {"activation_function": "relu"}, "activation relu is not supported"),
        ({}, {"eos_token_id": 30}, "eos_token_id 30 is none of 30 tokens"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    config: dict[str, Any],
    message: str,
) -> None:
    arrays = {name: array for name, array in (weights() | change).items() if array is not None}
    folder = sharded(tmp_path / "checkpoint", arrays, config)
    words = ["--checkpoint", str(folder), "--out", str(tmp_path), "--other-size"]
    assert convert.main(words) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model.json").exists()


def test_another_size_has_to_be_allowed_and_a_missing_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sharded(tmp_path / "checkpoint", weights())
    words = ["--checkpoint", str(folder), "--out", str(tmp_path)]
    assert convert.main(words) == 1
    assert "not that of MLPerf's model" in capsys.readouterr().err
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert convert.main(words) == 1
    assert "lacks model-00002-of-00002.safetensors" in capsys.readouterr().err


def test_the_sizes_that_are_asked_for_are_those_of_the_network(tmp_path: Path) -> None:
    layer = decoder.weight_bytes(decoder.Size(layers=2)) - decoder.weight_bytes(
        decoder.Size(layers=1)
    )
    outside = decoder.weight_bytes(decoder.Size(layers=1)) - layer
    assert layer == pytest.approx(customize.LAYER, rel=1e-3)
    assert outside == pytest.approx(customize.OUTSIDE, rel=1e-3)
    found = synthetic.RandomGptjWeights(NARROW).array("transformer.h.1.ln_1.weight")
    np.testing.assert_array_equal(found, np.ones(24, np.float32))


def test_a_synthetic_model_that_does_not_fit_is_refused_with_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "memory_facts", lambda: machine.MemoryFacts(16 * 10**9, 10**9, 0))
    env = {"CM_ML_MODEL_FORM": "synthetic", "CM_GPTJ_LAYERS": "28"}
    with pytest.raises(Error, match="28 layers needs about 47 GB of memory, this machine has 16"):
        customize.preprocess({"env": env})
    with pytest.raises(Error, match="--layers=0"):
        customize.preprocess({"env": {**env, "CM_GPTJ_LAYERS": "0"}})


def test_torch_is_installed_only_for_files_of_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(b"")
    env: dict[str, Any] = {
        "CM_ML_MODEL_FRAMEWORK": "onnx",
        "CM_GPTJ_RETRAIN": "no",
        "GPTJ_CHECKPOINT_PATH": str(tmp_path),
    }
    customize.preprocess({"env": env})
    assert (env["CM_GPTJ_CONVERT"], env["CM_GPTJ_TORCH"]) == ("yes", "no")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    customize.preprocess({"env": env})
    assert env["CM_GPTJ_TORCH"] == "yes"
