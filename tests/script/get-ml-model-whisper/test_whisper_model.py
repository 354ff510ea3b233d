"""Whisper: the graphs are the network, and a checkpoint is refused unless it is one.

By hand the graphs of a random network were compared with Hugging Face's class, and the features
with its extractor: they differ by less than 1e-5.
"""

from __future__ import annotations

import hashlib
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
from lab import Lab
from modelzoo.program import ProgramError
from modelzoo.whisper import convert, graphs
from modelzoo.whisper.size import KEYS, WhisperSize, size_of

SCRIPT = forms.SCRIPT / "get-ml-model-whisper"
FACTS: dict[str, Any] = json.loads((SCRIPT / "tiny" / "model.json").read_text())
customize = lab.module_of(SCRIPT / "customize.py")
NARROW = WhisperSize(
    width=8,
    heads=2,
    encoder_layers=1,
    decoder_layers=2,
    inner=12,
    bands=40,
    places=10,
    texts=12,
    vocabulary=30,
)
WORDS = (convert.END_WORD, *convert.START_WORDS)


def arrays(size: WhisperSize = NARROW) -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {
        name: random.normal(scale=0.5, size=shape).astype(np.float32)
        for name, shape in size.shapes().items()
    }


class Weights:
    def __init__(self, weights: dict[str, Any]) -> None:
        self.array = weights.__getitem__


def config(size: WhisperSize, **changes: Any) -> dict[str, Any]:
    values = {KEYS[name]: getattr(size, name) for name in KEYS}
    return {"model_type": "whisper", **values, **changes}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A narrow checkpoint with the real names and files."""
    numpy_file = pytest.importorskip("safetensors.numpy")
    source = tmp_path / "checkpoint"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(config(NARROW)))
    numpy_file.save_file(arrays(), source / "model.safetensors")
    added = [{"id": n, "content": word, "special": True} for n, word in enumerate(WORDS)]
    vocabulary = {"Ġthe": 5, "é": 6} | {chr(97 + n): 7 + n for n in range(20)}
    document = {"added_tokens": added, "model": {"type": "BPE", "vocab": vocabulary}}
    (source / "tokenizer.json").write_text(json.dumps(document))
    return source


def test_the_real_shape_has_the_published_number_of_weights() -> None:
    weights = sum(int(np.prod(shape)) for shape in WhisperSize().shapes().values())
    assert weights == 1_543_490_560
    assert WhisperSize().window_s == 30


def test_the_shipped_files_are_small_and_are_those_that_were_trained() -> None:
    for graph in (FACTS, *FACTS["parts"]):
        data = (SCRIPT / "tiny" / graph["file"]).read_bytes()
        assert len(data) == graph["bytes"] <= 600_000
        assert hashlib.sha256(data).hexdigest() == graph["sha256"]
    held_out = json.loads((forms.speech_arrays() / "dataset.json").read_text())
    stated = FACTS["training"]["held_out"]["sha256"]
    assert stated == held_out["files"]["samples.npy"]["sha256"]


def test_a_checkpoint_becomes_two_graphs_and_what_its_tokens_spell(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    words = ["--checkpoint", str(checkpoint), "--out", str(out)]
    assert convert.main([*words, "--other-size"]) == 0
    facts = json.loads((out / "model.json").read_text())
    assert facts["options"]["start_tokens"] == [1, 2, 3, 4]
    assert (facts["options"]["end_token"], facts["options"]["max_new_tokens"]) == (0, 200)
    assert "another size" in facts["options"]["reduced"]
    assert facts["accuracy"]["target"] == pytest.approx(96.9536, abs=1e-4)
    pieces = json.loads((out / "pieces.json").read_text())
    assert (pieces[5], pieces[6], pieces[0], len(pieces)) == (" the", "\xe9", "", 30)


def test_weights_in_a_file_of_their_own_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for limit, name in ((10**9, "one"), (0, "two")):
        monkeypatch.setattr(graphs, "LARGEST_GRAPH", limit)
        out = tmp_path / name
        out.mkdir()
        facts = graphs.write(Weights(arrays()), NARROW, out)
        assert [file["file"] for file in facts.get("data", [])] == [
            f"{file}.data" for file in (graphs.ENCODER_FILE, graphs.STEP_FILE) if not limit
        ]
        session = onnxruntime.InferenceSession(str(out / graphs.ENCODER_FILE))
        features = np.random.default_rng(1).normal(size=(2, 40, 20)).astype(np.float32)
        outputs.append(session.run(None, {"features": features}))
    for one, other in zip(*outputs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"model_type": "llama"}, "of a llama, not of a whisper"), ({"d_model": None}, "no d_model")],
)
def test_another_network_is_refused(changes: dict[str, Any], message: str) -> None:
    document = {key: value for key, value in config(NARROW, **changes).items() if value is not None}
    with pytest.raises(ProgramError, match=message):
        size_of(document)


def test_mlperf_runs_need_the_real_size(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="not that of MLPerf's model"):
        convert.convert(checkpoint, tmp_path, other_size=False)


def test_a_tokenizer_without_the_words_of_the_benchmark_is_refused(checkpoint: Path) -> None:
    document = json.loads((checkpoint / "tokenizer.json").read_text())
    document["added_tokens"].pop()
    (checkpoint / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ProgramError, match="has no token <|notimestamps|>".replace("|", r"\|")):
        convert.tokens_of(checkpoint, 30)


def test_a_download_that_is_left_to_the_user_is_refused_in_the_plan(tmp_path: Path) -> None:
    env: dict[str, Any] = {"CM_DOWNLOAD_SRC": "mlcommons"}
    with pytest.raises(Error, match="no --checkpoint=FOLDER"):
        customize.refuse({"env": env})
    env["CM_ML_MODEL_WHISPER_PATH"] = str(tmp_path)
    assert customize.refuse({"env": env}) == {"return": 0}
    with pytest.raises(Error, match=r"there is no .*config\.json"):
        customize.preprocess({"env": env})


def test_a_plan_of_the_tiny_form_fetches_nothing(tmp_path: Path) -> None:
    planned = Lab.of_checkout(tmp_path).plan("get,ml-model,whisper,_tiny", quiet=True)
    assert "get-ml-model-whisper,_tiny" in planned.out
    assert "nothing to fetch from the network" in planned.out


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="training needs torch")
def test_the_graphs_are_the_network_that_was_trained(tmp_path: Path) -> None:
    import torch

    from modelzoo.whisper.network import Whisper

    network = Whisper(NARROW)
    network.load_state_dict({name: torch.from_numpy(a) for name, a in arrays().items()})
    graphs.write(Weights(arrays()), NARROW, tmp_path)
    features = np.random.default_rng(1).normal(size=(2, 40, 20)).astype(np.float32)
    tokens = np.asarray([[3, 9, 4], [7, 7, 1]])
    with torch.no_grad():
        sound = network.model["encoder"](torch.from_numpy(features))
        expected = network.model["decoder"](torch.from_numpy(tokens), sound).numpy()
    sessions = [
        onnxruntime.InferenceSession(str(tmp_path / file))
        for file in (graphs.ENCODER_FILE, graphs.STEP_FILE)
    ]
    keys, values = sessions[0].run(None, {"features": features})
    cache = np.zeros((2, 4, 2, 0, 4), np.float32)
    for place in range(3):
        feeds = {"token": tokens[:, place], "cache": cache, "keys": keys, "values": values}
        scores, cache = sessions[1].run(None, feeds)
        np.testing.assert_allclose(scores, expected[:, place], atol=1e-4)
