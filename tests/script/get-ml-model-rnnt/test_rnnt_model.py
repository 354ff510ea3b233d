"""The shipped tiny transducer is what its facts say; the loss it was trained with is right."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from typing import Any

import numpy as np
import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from support import LIB

SCRIPT = forms.SCRIPT / "get-ml-model-rnnt"
FACTS: dict[str, Any] = json.loads((SCRIPT / "tiny" / "model.json").read_text())


def test_both_files_are_small_and_are_those_that_were_trained() -> None:
    for graph in (FACTS, *FACTS["parts"]):
        data = (SCRIPT / "tiny" / graph["file"]).read_bytes()
        assert len(data) == graph["bytes"] <= 300_000
        assert hashlib.sha256(data).hexdigest() == graph["sha256"]


def test_it_was_scored_on_the_data_that_the_scripts_make() -> None:
    held_out = json.loads((forms.speech_arrays() / "dataset.json").read_text())
    stated = FACTS["training"]["held_out"]["sha256"]
    assert stated == held_out["files"]["samples.npy"]["sha256"]
    target = FACTS["accuracy"]["reference"] * 0.99
    assert FACTS["accuracy"]["target"] == pytest.approx(target, abs=1e-3)


@pytest.mark.parametrize("count", [1, 3])
def test_padding_on_the_right_changes_nothing_before_it(count: int) -> None:
    session = onnxruntime.InferenceSession(
        str(SCRIPT / "tiny" / FACTS["file"]), providers=["CPUExecutionProvider"]
    )
    features = np.random.default_rng(1).normal(size=(count, 12, 240)).astype(np.float32)
    (states,) = session.run(None, {"features": features})
    features[:, 9:] = 0
    (padded,) = session.run(None, {"features": features})
    assert states.shape[:2] == (count, 12)
    np.testing.assert_allclose(states[:, :8], padded[:, :8], atol=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="training needs torch")
def test_the_loss_sums_over_all_alignments() -> None:
    import torch

    network = lab.module_of(LIB / "modelzoo/rnnt" / "network.py")
    torch.manual_seed(0)
    scores = torch.randn(2, 3, 3, network.BLANK + 1)
    labels, frames, letters = torch.tensor([[4, 7], [2, 0]]), [3, 2], [2, 1]

    def total(row: int, t: int, u: int) -> float:
        """The probability of everything from this frame and letter on."""
        logs = torch.log_softmax(scores[row, t, u], dim=0)
        onward = logs[network.BLANK].exp().item()
        last = t == frames[row] - 1
        stay = onward * (1.0 if last and u == letters[row] else 0.0)
        if not last:
            stay = onward * total(row, t + 1, u)
        if u == letters[row]:
            return stay
        return stay + logs[labels[row, u]].exp().item() * total(row, t, u + 1)

    expected = np.mean([-np.log(total(row, 0, 0)) / letters[row] for row in (0, 1)])
    found = network.transducer_loss(scores, labels, torch.tensor(frames), torch.tensor(letters))
    assert found.item() == pytest.approx(expected, rel=1e-4)
