"""The shipped tiny decoder is what its facts say; a cache changes nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from cmbench.lib import capacity

SCRIPT = forms.SCRIPT / "get-ml-model-gptj"
FACTS: dict[str, Any] = json.loads((SCRIPT / "tiny" / "model.json").read_text())
customize = lab.module_of(SCRIPT / "customize.py")


def logits(ids: np.ndarray, mask: np.ndarray, past: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        str(SCRIPT / "tiny" / FACTS["file"]), providers=["CPUExecutionProvider"]
    )
    found: list[np.ndarray] = session.run(
        ["logits", "present"], {"input_ids": ids, "attention_mask": mask, "past": past}
    )
    return found


def empty(count: int) -> np.ndarray:
    layers, heads, _, width = FACTS["inputs"][2]["shape"]
    return np.zeros((count, layers, heads, 0, width), dtype=np.float32)


def test_the_file_is_small_and_was_scored_on_the_data_that_the_scripts_make() -> None:
    data = (SCRIPT / "tiny" / FACTS["file"]).read_bytes()
    assert len(data) == FACTS["bytes"] <= 600_000
    assert hashlib.sha256(data).hexdigest() == FACTS["sha256"]
    held_out = json.loads((forms.articles() / "dataset.json").read_text())
    stated = FACTS["training"]["held_out"]["sha256"]
    assert stated == held_out["files"]["prompts.npy"]["sha256"]
    assert held_out["largest_prompt"] <= FACTS["options"]["largest_prompt"]


def test_the_cache_gives_what_the_whole_text_gives() -> None:
    ids = np.random.default_rng(0).integers(3, 162, (2, 9))
    mask = np.ones_like(ids)
    whole, _ = logits(ids, mask, empty(2))
    _, past = logits(ids[:, :6], mask[:, :6], empty(2))
    rest, _ = logits(ids[:, 6:], mask, past)
    np.testing.assert_allclose(rest, whole[:, 6:], atol=1e-4)


def test_padding_on_the_left_changes_nothing() -> None:
    ids = np.random.default_rng(1).integers(3, 162, (1, 7))
    whole, _ = logits(ids, np.ones_like(ids), empty(1))
    padded = np.concatenate([np.zeros((1, 4), dtype=np.int64), ids], axis=1)
    mask = (padded > 0).astype(np.int64)
    found, _ = logits(padded, mask, empty(1))
    np.testing.assert_allclose(found[:, 4:], whole, atol=1e-4)


def test_what_the_full_model_needs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain: dict[str, Any] = {"CM_ML_MODEL_FRAMEWORK": "pytorch", "CM_GPTJ_RETRAIN": "no"}
    env = {**plain, "GPTJ_CHECKPOINT_PATH": str(tmp_path)}
    with pytest.raises(Error, match="there is no"):
        customize.preprocess({"env": env})
    (tmp_path / "config.json").write_text("{}")
    assert customize.preprocess({"env": env})["relies_on"] == [str(tmp_path / "config.json")]
    customize.postprocess({"env": env})
    assert env["CM_ML_MODEL_FILE_WITH_PATH"] == env["CM_ML_MODEL_TOKENIZER_PATH"] == str(tmp_path)
    monkeypatch.setattr(
        capacity.shutil, "disk_usage", lambda path: SimpleNamespace(free=60 * 10**9)
    )
    customize.preprocess({"env": plain})
    assert plain["CM_GPTJ_DOWNLOAD"] == "yes"
    with pytest.raises(Error, match=r"needs about 73 GB on the disk .* which has 60 GB free"):
        customize.preprocess({"env": {**plain, "CM_ML_MODEL_FRAMEWORK": "onnx"}})
