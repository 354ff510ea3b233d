"""MLPerf's transducer as two ONNX graphs, from weights named as its PyTorch checkpoint names them.

The encoder is two LSTM layers, a stacking of neighbouring frames, and three more; the prediction
network two LSTM layers over letters. The joint's first layer adds a part of the encoder's state
and a part of the prediction's: the encoder's part is computed once per state in the encoder's
graph, which is the same sum. (Facts: mlcommons/inference, speech_recognition/rnnt.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from modelzoo import models
from modelzoo.graph import Array, OnnxGraph, checked, value

LABELS = " abcdefghijklmnopqrstuvwxyz'"
BLANK = len(LABELS)
OPSET = 17
REFERENCE_ACCURACY = 92.548
ENCODER_FILE, STEP_FILE = "rnnt_encoder.onnx", "rnnt_step.onnx"
BEFORE, AFTER = "encoder.pre_rnn.lstm", "encoder.post_rnn.lstm"
PREDICTION = "prediction.dec_rnn.lstm"
LETTERS = "prediction.embed.weight"
JOIN, SCORES = "joint.net.0", "joint.net.last"
# Row blocks of an LSTM's matrices: input, forget, cell, output in PyTorch; ONNX wants i, o, f, c.
GATES = (0, 3, 1, 2)

Weights = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Size:
    """Widths and numbers of layers; the defaults are those of MLPerf's model."""

    features: int = 240
    encoder: int = 1024
    before: int = 2
    after: int = 3
    stack: int = 2
    prediction: int = 320
    prediction_layers: int = 2
    joint: int = 512
    classes: int = BLANK + 1


def shapes(size: Size) -> dict[str, tuple[int, ...]]:
    """Every weight of a model of this size, by the name that a checkpoint has for it."""
    wide = size.stack * size.encoder
    return {
        **_memory(BEFORE, size.before, size.features, size.encoder),
        **_memory(AFTER, size.after, wide, size.encoder),
        LETTERS: (size.classes - 1, size.prediction),
        **_memory(PREDICTION, size.prediction_layers, size.prediction, size.prediction),
        f"{JOIN}.weight": (size.joint, size.encoder + size.prediction),
        f"{JOIN}.bias": (size.joint,),
        f"{SCORES}.weight": (size.classes, size.joint),
        f"{SCORES}.bias": (size.classes,),
    }


def _memory(name: str, layers: int, into: int, width: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(layers):
        shapes |= {
            f"{name}.weight_ih_l{layer}": (4 * width, width if layer else into),
            f"{name}.weight_hh_l{layer}": (4 * width, width),
            f"{name}.bias_ih_l{layer}": (4 * width,),
            f"{name}.bias_hh_l{layer}": (4 * width,),
        }
    return shapes


class Transducer(OnnxGraph):
    """One of the two graphs in the making."""

    def __init__(self) -> None:
        super().__init__(first="_0")

    def memory(
        self, weights: Weights, name: str, layer: int, x: str, state: tuple[str, str] | None = None
    ) -> tuple[str, str, str]:
        """An LSTM layer over ``x`` [t, n, in]: its outputs [t, n, width] and last state."""
        width = weights[f"{name}.weight_hh_l{layer}"].shape[1]
        biases = [_gates(weights[f"{name}.bias_{kind}_l{layer}"]) for kind in ("ih", "hh")]
        inputs = [
            x,
            self.const(_gates(weights[f"{name}.weight_ih_l{layer}"])[None]),
            self.const(_gates(weights[f"{name}.weight_hh_l{layer}"])[None]),
            self.const(np.concatenate(biases)[None]),
        ]
        inputs += ["", *state] if state else []
        y, hidden, cell = self.ops("LSTM", *inputs, outputs=3, hidden_size=width)
        return self.op("Squeeze", y, self.ints(1)), hidden, cell


def _gates(array: Array) -> Array:
    """The four row blocks in ONNX's order."""
    blocks = np.split(np.asarray(array, dtype=np.float32), 4)
    return np.concatenate([blocks[place] for place in GATES])


def encoder_graph(weights: Weights, size: Size) -> Any:
    """``features`` [n, t, 240] and true ``lengths`` [n] in; ``states`` [n, t / stack, joint] out.

    What the first layers give beyond an utterance's length is set to zero before the stacking, so
    that padding changes no state of a shorter utterance in the batch.
    """
    graph = Transducer()
    x = graph.op("Transpose", "features", perm=[1, 0, 2])
    for layer in range(size.before):
        x, _, _ = graph.memory(weights, BEFORE, layer, x)
    x = graph.op("Mul", x, _real(graph, x))
    x = _stacked(graph, x, size.stack)
    for layer in range(size.after):
        x, _, _ = graph.memory(weights, AFTER, layer, x)
    x = graph.op("Transpose", x, perm=[1, 0, 2])
    own = weights[f"{JOIN}.weight"][:, : size.encoder]
    x = graph.op("MatMul", x, graph.const(own.T))
    graph.name(graph.op("Add", x, graph.const(weights[f"{JOIN}.bias"])), "states")
    features = value("features", "float32", "N", "T", size.features)
    inputs = [features, value("lengths", "int64", "N")]
    states = value("states", "float32", "N", "S", size.joint)
    return _model(graph, "rnnt_encoder", inputs, [states])


def _real(graph: Transducer, x: str) -> str:
    """One where ``x`` [t, n, width] belongs to an utterance, zero where it is padding."""
    frames = graph.op("Gather", graph.op("Shape", x), graph.ints(0))
    frames = graph.op("Squeeze", frames, graph.ints(0))
    zero = graph.ints(0)
    one = graph.ints(1)
    places = graph.op("Unsqueeze", graph.op("Range", zero, frames, one), graph.ints(1))
    lengths = graph.op("Unsqueeze", "lengths", graph.ints(0))
    real = graph.op("Cast", graph.op("Less", places, lengths), to=TensorProto.FLOAT)
    return graph.op("Unsqueeze", real, graph.ints(2))


def _stacked(graph: Transducer, x: str, factor: int) -> str:
    """Every ``factor`` frames of ``x`` [t, n, width] side by side, with zeros at the end."""
    padding = graph.ints(0, 0, 0, factor - 1, 0, 0)
    padded = graph.op("Pad", x, padding, mode="constant")
    parts = []
    for place in range(factor):
        # The last part ends with the array; the ones before it one frame earlier.
        end = place + 1 - factor if place + 1 < factor else np.iinfo(np.int64).max
        bounds = (graph.ints(place), graph.ints(end), graph.ints(0))
        parts.append(graph.op("Slice", padded, *bounds, graph.ints(factor)))
    return graph.op("Concat", *parts, axis=2)


def step_graph(weights: Weights, size: Size) -> Any:
    """One step of the decoder; the states of all layers lie side by side in one row."""
    graph = Transducer()
    # At the beginning nothing was said: the reference feeds zeros then, here it is letter BLANK.
    table = np.concatenate([weights[LETTERS], np.zeros((1, size.prediction), np.float32)])
    x = graph.op("Gather", graph.const(table), "letter")
    x = graph.op("Unsqueeze", x, graph.ints(0))
    hidden = _layers_of(graph, "hidden", size)
    cell = _layers_of(graph, "cell", size)
    after: list[tuple[str, str]] = []
    for layer in range(size.prediction_layers):
        state = (hidden[layer], cell[layer])
        x, new_hidden, new_cell = graph.memory(weights, PREDICTION, layer, x, state)
        after.append((new_hidden, new_cell))
    text = weights[f"{JOIN}.weight"][:, size.encoder :]
    y = graph.op("MatMul", graph.op("Squeeze", x, graph.ints(0)), graph.const(text.T))
    y = graph.op("Relu", graph.op("Add", "state", y))
    scores = (
        graph.const(weights[f"{SCORES}.weight"]),
        graph.const(weights[f"{SCORES}.bias"]),
    )
    graph.name(graph.op("Gemm", y, *scores, transB=1), "scores")
    for number, name in enumerate(("new_hidden", "new_cell")):
        parts = [graph.op("Squeeze", states[number], graph.ints(0)) for states in after]
        graph.name(graph.op("Concat", *parts, axis=1), name)
    tensors = step_tensors(size)
    infos = {
        key: [value(tensor["name"], tensor["dtype"], "N", *tensor["shape"]) for tensor in tensors_]
        for key, tensors_ in tensors.items()
    }
    return _model(graph, "rnnt_step", infos["inputs"], infos["outputs"])


def _layers_of(graph: Transducer, name: str, size: Size) -> list[str]:
    """Split a row of states into those of the layers [1, n, width]."""
    bounds = graph.ints(*[size.prediction] * size.prediction_layers)
    parts = graph.ops("Split", name, bounds, outputs=size.prediction_layers, axis=1)
    return [graph.op("Unsqueeze", part, graph.ints(0)) for part in parts]


def _model(graph: OnnxGraph, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
    return checked(graph.model(name, inputs, outputs, OPSET, producer_name="cmbench"))


def step_tensors(size: Size) -> dict[str, list[dict[str, Any]]]:
    """Inputs and outputs of the step, as model.json has them."""
    wide = size.prediction_layers * size.prediction
    return {
        "inputs": [
            models.tensor("state", size.joint),
            models.tensor("letter", dtype="int64"),
            models.tensor("hidden", wide),
            models.tensor("cell", wide),
        ],
        "outputs": [
            models.tensor("scores", size.classes),
            models.tensor("new_hidden", wide),
            models.tensor("new_cell", wide),
        ],
    }


def write(weights: Weights, size: Size, name: str, out: Path, **more: Any) -> None:
    """Write both graphs and model.json, to which ``more`` is added, into ``out``."""
    facts = {
        "name": name,
        **models.saved(out / ENCODER_FILE, encoder_graph(weights, size)),
        "precision": "fp32",
        "inputs": [
            models.tensor("features", -1, size.features),
            models.tensor("lengths", dtype="int64"),
        ],
        "outputs": [models.tensor("states", -1, size.joint)],
        "parts": [
            {
                "name": "step",
                **models.saved(out / STEP_FILE, step_graph(weights, size)),
                **step_tensors(size),
            }
        ],
        "options": {
            "labels": LABELS,
            "blank": BLANK,
            "most_letters_per_frame": 30,
            "stride": size.stack,
            "style": "mlperf",
            **({} if size == Size() else models.OTHER_SIZE),
        },
        **more,
    }
    models.write_facts(out, facts)
