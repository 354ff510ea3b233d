"""MLPerf's transducer from a checkpoint of its layout: every name and shape, and what it computes.

The real checkpoint cannot be had here; these have its names and are narrower.
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
from modelzoo.rnnt import graphs
from support import LIB

SCRIPT = forms.SCRIPT / "get-ml-model-rnnt"
customize = lab.module_of(SCRIPT / "customize.py")

convert = lab.module_of(LIB / "modelzoo/rnnt" / "convert.py")
synthetic = lab.module_of(LIB / "modelzoo/rnnt" / "synthetic.py")

NARROW = graphs.Size(encoder=12, prediction=7, joint=9)
TORCH = importlib.util.find_spec("torch") is not None


def weights(size: Any = NARROW) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {
        name: generator.normal(size=shape, scale=0.4).astype(np.float32)
        for name, shape in graphs.shapes(size).items()
    }


def as_in_a_checkpoint(found: dict[str, Any]) -> dict[str, Any]:
    """The names of the published file: ``joint_net``, whose layers are number 0 and 3."""
    return {
        name.replace("joint.net.last", "joint_net.3").replace("joint.net", "joint_net"): array
        for name, array in found.items()
    }


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def memory(found: dict[str, Any], name: str, layer: int, x: Any, state: Any = None) -> Any:
    """An LSTM layer over [t, width] as PyTorch defines it (gates i, f, g, o)."""
    matrices = [found[f"{name}.weight_{kind}_l{layer}"] for kind in ("ih", "hh")]
    bias = found[f"{name}.bias_ih_l{layer}"] + found[f"{name}.bias_hh_l{layer}"]
    width = matrices[1].shape[1]
    hidden, cell = state if state is not None else (np.zeros(width), np.zeros(width))
    outputs = []
    for row in x:
        gates = np.split(matrices[0] @ row + matrices[1] @ hidden + bias, 4)
        cell = sigmoid(gates[1]) * cell + sigmoid(gates[0]) * np.tanh(gates[2])
        hidden = sigmoid(gates[3]) * np.tanh(cell)
        outputs.append(hidden)
    return np.asarray(outputs), (hidden, cell)


def joint(found: dict[str, Any], state: Any, text: Any) -> Any:
    both = np.concatenate([state, text])
    inner = found["joint.net.0.weight"] @ both + found["joint.net.0.bias"]
    return found["joint.net.last.weight"] @ np.maximum(inner, 0) + found["joint.net.last.bias"]


def encoded(found: dict[str, Any], features: Any) -> Any:
    """The states of one utterance, as the reference computes them."""
    x = features
    for layer in range(2):
        x, _ = memory(found, graphs.BEFORE, layer, x)
    if len(x) % 2:
        x = np.concatenate([x, np.zeros((1, x.shape[1]))])
    x = x.reshape(len(x) // 2, -1)
    for layer in range(3):
        x, _ = memory(found, graphs.AFTER, layer, x)
    return x


def session(model: Any) -> Any:
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def test_padding_of_a_batch_changes_no_state_of_a_shorter_utterance() -> None:
    found = weights()
    features = np.random.default_rng(5).normal(size=(3, 7, 240)).astype(np.float32)
    lengths = np.asarray([7, 5, 2])
    (states,) = session(graphs.encoder_graph(found, NARROW)).run(
        None, {"features": features, "lengths": lengths}
    )
    assert states.shape == (3, 4, NARROW.joint)
    own = found["joint.net.0.weight"][:, : NARROW.encoder]
    for row, length in enumerate(lengths):
        expected = encoded(found, features[row, :length]) @ own.T + found["joint.net.0.bias"]
        np.testing.assert_allclose(states[row, : len(expected)], expected, atol=1e-4)


def test_a_step_is_the_references_prediction_and_joint() -> None:
    found = weights()
    step = session(graphs.step_graph(found, NARROW))
    generator = np.random.default_rng(6)
    state = generator.normal(size=NARROW.encoder)
    own = found["joint.net.0.weight"][:, : NARROW.encoder] @ state + found["joint.net.0.bias"]
    rows: Any = np.zeros((1, 2 * NARROW.prediction), np.float32)
    hidden, cell, memories = rows, rows, [None, None]
    for letter in (graphs.BLANK, 4, 27):
        feeds = {"state": own[None].astype(np.float32), "letter": np.asarray([letter])}
        scores, hidden, cell = step.run(None, {**feeds, "hidden": hidden, "cell": cell})
        nothing = np.zeros(NARROW.prediction)
        text: Any = nothing if letter == graphs.BLANK else found[graphs.LETTERS][letter]
        for layer in range(2):
            out, memories[layer] = memory(
                found, graphs.PREDICTION, layer, text[None], memories[layer]
            )
            text = out[0]
        np.testing.assert_allclose(scores[0], joint(found, state, text), atol=1e-4)


def test_the_names_of_a_checkpoint_are_understood_and_its_size_is_found() -> None:
    found = weights()
    again = convert.renamed(as_in_a_checkpoint(found))
    assert set(again) == set(found)
    assert convert.size_of(again) == NARROW
    convert.check(again, NARROW, other_size=True)
    with pytest.raises(convert.ProgramError, match=r"not that of MLPerf's model: Size\(feat"):
        convert.check(again, NARROW, other_size=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder.post_rnn.lstm.bias_hh_l2": None}, "no encoder.post_rnn.lstm.bias_hh_l2 in it"),
        ({"encoder.dense.weight": np.zeros(3)}, r"has no encoder.dense.weight \(1 are unknown\)"),
        ({"prediction.embed.weight": np.zeros((30, 7))}, r"is \[30, 7\], expected \[28, 7\]"),
        ({"joint_net.3.weight": None}, "no joint network of two layers"),
    ],
)
def test_a_weight_too_few_too_many_or_of_another_shape_is_named(
    change: dict[str, Any], message: str
) -> None:
    state = {**as_in_a_checkpoint(weights()), **change}
    state = {name: value for name, value in state.items() if value is not None}
    with pytest.raises(convert.ProgramError, match=message):
        found = convert.renamed(state)
        convert.check(found, convert.size_of(found), other_size=True)


def test_features_of_another_training_are_refused() -> None:
    from mlperf.harness.benchmarks.features import Extractor, FeatureSpec

    ours = Extractor(FeatureSpec(style="mlperf"))
    convert.check_features({convert.FILTERS: ours.bank.T[None], convert.WINDOW: ours.window})
    plain = Extractor(FeatureSpec())
    with pytest.raises(convert.ProgramError, match="fb has other numbers"):
        convert.check_features({convert.FILTERS: plain.bank.T[None]})
    with pytest.raises(convert.ProgramError, match=r"fb is \[64, 257\], expected \[80, 257\]"):
        convert.check_features({convert.FILTERS: plain.bank.T[None, :64]})


def checkpoint(path: Path, size: Any = NARROW, zipped: bool = False) -> Path:
    """A file as the reference's training writes it, with the tables of its features."""
    import torch

    from mlperf.harness.benchmarks.features import Extractor, FeatureSpec

    ours = Extractor(FeatureSpec(style="mlperf"))
    state = {
        **as_in_a_checkpoint(weights(size)),
        convert.FILTERS: ours.bank.T[None].copy(),
        convert.WINDOW: ours.window,
    }
    tensors = {name: torch.from_numpy(array) for name, array in state.items()}
    whole = {"epoch": 100, "state_dict": tensors, "optimizer": {"lr": 0.004}}
    torch.save(whole, str(path), _use_new_zipfile_serialization=zipped)
    return path


@pytest.mark.skipif(not TORCH, reason="reading a checkpoint needs torch")
@pytest.mark.parametrize("zipped", [False, True])
def test_a_checkpoint_becomes_a_model_that_the_benchmark_takes(
    tmp_path: Path, zipped: bool
) -> None:
    from mlperf.catalog import benchmark as rules_of
    from mlperf.harness import records
    from mlperf.harness.backends.registry import create
    from mlperf.harness.benchmarks import speech
    from mlperf.harness.pipeline.inference import solvers
    from mlperf.harness.settings import ModelSpec, WorkerShape

    path = checkpoint(tmp_path / "rnnt.pt", zipped=zipped)
    words = ["--checkpoint", str(path), "--out", str(tmp_path)]
    assert convert.main([*words, "--other-size"]) == 0
    facts = json.loads((tmp_path / "model.json").read_text())
    assert facts["accuracy"]["target"] == 91.62252
    assert facts["source"]["file"] == "rnnt.pt"
    assert facts["options"]["reduced"].startswith("another size")
    model = records.decode(ModelSpec, forms.model(tmp_path))
    benchmark = speech.SpeechRecognition(forms.speech_arrays(), model, rules_of("rnnt"))
    backend = create("onnxruntime", "cpu", "float32")
    found = []
    for batch in (1, 3):
        (solver,) = solvers(backend, model, benchmark, WorkerShape(1, 1, batch))
        benchmark.load(range(6))
        rows, sizes = benchmark.result.rows(6), np.zeros(6, np.int64)
        for begin in range(0, 6, batch):
            part = slice(begin, begin + batch)
            solver.solve(list(range(6))[part], rows[part], sizes[part])
        found.append([row.tobytes()[:size] for row, size in zip(rows, sizes, strict=True)])
    assert found[0] == found[1]


@pytest.mark.skipif(not TORCH, reason="reading a checkpoint needs torch")
def test_what_is_no_checkpoint_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "rnnt.pt"
    broken.write_bytes(b"<html>not found</html>")
    words = ["--checkpoint", str(broken), "--out", str(tmp_path)]
    assert convert.main(words) == 1
    assert f"convert: {broken} is not a file of PyTorch's weights" in capsys.readouterr().err
    assert not (tmp_path / "model.json").exists()


def test_the_synthetic_model_has_the_real_size() -> None:
    expected = graphs.shapes(graphs.Size())
    count = sum(int(np.prod(shape)) for shape in expected.values())
    assert 45_000_000 < count < 46_000_000
    narrow = synthetic.weights(NARROW)
    assert {name: array.shape for name, array in narrow.items()} == graphs.shapes(NARROW)


def test_a_checkpoint_that_is_not_there_is_reported_before_anything_is_fetched(
    tmp_path: Path,
) -> None:
    env = {"CM_RNNT_RETRAIN": "no", "CM_ML_MODEL_FRAMEWORK": "onnx"}
    with pytest.raises(Error, match="is not a file"):
        customize.preprocess({"env": {**env, "CM_RNNT_CHECKPOINT": str(tmp_path / "none.pt")}})
    there = tmp_path / "rnnt.pt"
    there.write_bytes(b"weights")
    full: dict[str, Any] = {**env, "CM_RNNT_CHECKPOINT": str(there)}
    assert customize.preprocess({"env": full})["relies_on"] == [str(there)]
    assert "CM_RNNT_DOWNLOAD" not in full
    assert customize.preprocess({"env": env}) == {"return": 0}
    assert (env["CM_RNNT_DOWNLOAD"], env["CM_RNNT_CONVERT"]) == ("yes", "yes")
