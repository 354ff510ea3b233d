"""MLPerf's transducer as two ONNX graphs, from weights named as its PyTorch checkpoint names them.

The encoder is two LSTM layers, a stacking of neighbouring frames, and three more; the prediction
network two LSTM layers over letters. The joint's first layer adds a part of the encoder's state
and a part of the prediction's: the encoder's part is computed once for each state in the encoder's
graph, which is the same sum. (Facts: mlcommons/inference, speech_recognition/rnnt.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

LABELS = " abcdefghijklmnopqrstuvwxyz'"
BLANK = len(LABELS)
OPSET = 17
IR_VERSION = 8
REFERENCE_ACCURACY = 92.548
TARGET_SHARE = 0.99
ENCODER_FILE, STEP_FILE = "rnnt_encoder.onnx", "rnnt_step.onnx"
BEFORE, AFTER = "encoder.pre_rnn.lstm", "encoder.post_rnn.lstm"
PREDICTION = "prediction.dec_rnn.lstm"
LETTERS = "prediction.embed.weight"
JOIN, SCORES = "joint.net.0", "joint.net.last"
# Row blocks of an LSTM's matrices: input, forget, cell, output in PyTorch; ONNX wants i, o, f, c.
GATES = (0, 3, 1, 2)

Array = npt.NDArray[np.float32]
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
    found: dict[str, tuple[int, ...]] = {}
    for layer in range(layers):
        found |= {
            f"{name}.weight_ih_l{layer}": (4 * width, width if layer else into),
            f"{name}.weight_hh_l{layer}": (4 * width, width),
            f"{name}.bias_ih_l{layer}": (4 * width,),
            f"{name}.bias_hh_l{layer}": (4 * width,),
        }
    return found


class Graph:
    """Nodes and weights in the making; every method returns the name of what it computes."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def constant(self, values: npt.NDArray[Any]) -> str:
        """A weight or a number."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def numbers(self, *values: int) -> str:
        """Whole numbers, for axes and places."""
        return self.constant(np.asarray(values, dtype=np.int64))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """A node; the names of its outputs."""
        names = [f"n{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.op(kind, *inputs, **attributes)[0]

    def name_output(self, value: str, name: str) -> None:
        """Give a value the name of an output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    def memory(
        self, weights: Weights, name: str, layer: int, x: str, state: tuple[str, str] | None = None
    ) -> tuple[str, str, str]:
        """An LSTM layer over ``x`` [t, n, in]: its outputs [t, n, width] and last state."""
        width = weights[f"{name}.weight_hh_l{layer}"].shape[1]
        biases = [_gates(weights[f"{name}.bias_{kind}_l{layer}"]) for kind in ("ih", "hh")]
        inputs = [
            x,
            self.constant(_gates(weights[f"{name}.weight_ih_l{layer}"])[None]),
            self.constant(_gates(weights[f"{name}.weight_hh_l{layer}"])[None]),
            self.constant(np.concatenate(biases)[None]),
        ]
        inputs += ["", *state] if state else []
        y, hidden, cell = self.op("LSTM", *inputs, outputs=3, hidden_size=width)
        return self.one("Squeeze", y, self.numbers(1)), hidden, cell


def _gates(array: Array) -> Array:
    """The four row blocks in ONNX's order."""
    blocks = np.split(np.asarray(array, dtype=np.float32), 4)
    return np.concatenate([blocks[place] for place in GATES])


def encoder_graph(weights: Weights, size: Size) -> Any:
    """``features`` [n, t, 240] and true ``lengths`` [n] in; ``states`` [n, t / stack, joint] out.

    What the first layers give beyond an utterance's length is set to zero before the stacking, so
    that padding changes no state of a shorter utterance in the batch.
    """
    graph = Graph()
    x = graph.one("Transpose", "features", perm=[1, 0, 2])
    for layer in range(size.before):
        x, _, _ = graph.memory(weights, BEFORE, layer, x)
    x = graph.one("Mul", x, _real(graph, x))
    x = _stacked(graph, x, size.stack)
    for layer in range(size.after):
        x, _, _ = graph.memory(weights, AFTER, layer, x)
    x = graph.one("Transpose", x, perm=[1, 0, 2])
    own = weights[f"{JOIN}.weight"][:, : size.encoder]
    x = graph.one("MatMul", x, graph.constant(own.T))
    graph.name_output(graph.one("Add", x, graph.constant(weights[f"{JOIN}.bias"])), "states")
    inputs = [
        helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", "T", size.features]),
        helper.make_tensor_value_info("lengths", TensorProto.INT64, ["N"]),
    ]
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, ["N", "S", size.joint])
    return _model(graph, "rnnt_encoder", inputs, [states])


def _real(graph: Graph, x: str) -> str:
    """One where ``x`` [t, n, width] belongs to an utterance, zero where it is padding."""
    frames = graph.one("Gather", graph.one("Shape", x), graph.numbers(0))
    frames = graph.one("Squeeze", frames, graph.numbers(0))
    zero = graph.constant(np.asarray(0, dtype=np.int64))
    one = graph.constant(np.asarray(1, dtype=np.int64))
    places = graph.one("Unsqueeze", graph.one("Range", zero, frames, one), graph.numbers(1))
    lengths = graph.one("Unsqueeze", "lengths", graph.numbers(0))
    real = graph.one("Cast", graph.one("Less", places, lengths), to=TensorProto.FLOAT)
    return graph.one("Unsqueeze", real, graph.numbers(2))


def _stacked(graph: Graph, x: str, factor: int) -> str:
    """Every ``factor`` frames of ``x`` [t, n, width] side by side, with zeros at the end."""
    padding = graph.numbers(0, 0, 0, factor - 1, 0, 0)
    padded = graph.one("Pad", x, padding, mode="constant")
    parts = []
    for place in range(factor):
        # The last part ends with the array; each before it one frame earlier.
        end = place + 1 - factor if place + 1 < factor else np.iinfo(np.int64).max
        bounds = (graph.numbers(place), graph.numbers(end), graph.numbers(0))
        parts.append(graph.one("Slice", padded, *bounds, graph.numbers(factor)))
    return graph.one("Concat", *parts, axis=2)


def step_graph(weights: Weights, size: Size) -> Any:
    """One step of the decoder; the states of all layers lie side by side in one row."""
    graph = Graph()
    # At the beginning nothing was said: the reference feeds zeros then, here it is letter BLANK.
    table = np.concatenate([weights[LETTERS], np.zeros((1, size.prediction), np.float32)])
    x = graph.one("Gather", graph.constant(table), "letter")
    x = graph.one("Unsqueeze", x, graph.numbers(0))
    hidden = _layers_of(graph, "hidden", size)
    cell = _layers_of(graph, "cell", size)
    after: list[tuple[str, str]] = []
    for layer in range(size.prediction_layers):
        state = (hidden[layer], cell[layer])
        x, new_hidden, new_cell = graph.memory(weights, PREDICTION, layer, x, state)
        after.append((new_hidden, new_cell))
    text = weights[f"{JOIN}.weight"][:, size.encoder :]
    y = graph.one("MatMul", graph.one("Squeeze", x, graph.numbers(0)), graph.constant(text.T))
    y = graph.one("Relu", graph.one("Add", "state", y))
    scores = (
        graph.constant(weights[f"{SCORES}.weight"]),
        graph.constant(weights[f"{SCORES}.bias"]),
    )
    graph.name_output(graph.one("Gemm", y, *scores, transB=1), "scores")
    for number, name in enumerate(("new_hidden", "new_cell")):
        parts = [graph.one("Squeeze", each[number], graph.numbers(0)) for each in after]
        graph.name_output(graph.one("Concat", *parts, axis=1), name)
    tensors = step_tensors(size)
    infos = {
        key: [helper.make_tensor_value_info(t["name"], _kind(t), ["N", *t["shape"]]) for t in found]
        for key, found in tensors.items()
    }
    return _model(graph, "rnnt_step", infos["inputs"], infos["outputs"])


def _kind(tensor: Mapping[str, Any]) -> int:
    return int(TensorProto.INT64 if tensor["dtype"] == "int64" else TensorProto.FLOAT)


def _layers_of(graph: Graph, name: str, size: Size) -> list[str]:
    """The state of each layer [1, n, width] out of a row of all of them."""
    bounds = graph.numbers(*[size.prediction] * size.prediction_layers)
    parts = graph.op("Split", name, bounds, outputs=size.prediction_layers, axis=1)
    return [graph.one("Unsqueeze", part, graph.numbers(0)) for part in parts]


def _model(graph: Graph, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
    model = helper.make_model(
        helper.make_graph(graph.nodes, name, inputs, outputs, graph.weights),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="cmbench",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def _tensor(name: str, *shape: int, dtype: str = "float32") -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def step_tensors(size: Size) -> dict[str, list[dict[str, Any]]]:
    """Inputs and outputs of the step, as model.json has them."""
    wide = size.prediction_layers * size.prediction
    return {
        "inputs": [
            _tensor("state", size.joint),
            _tensor("letter", dtype="int64"),
            _tensor("hidden", wide),
            _tensor("cell", wide),
        ],
        "outputs": [
            _tensor("scores", size.classes),
            _tensor("new_hidden", wide),
            _tensor("new_cell", wide),
        ],
    }


OTHER = {"reduced": "another size than that of MLPerf's model"}


def write(weights: Weights, size: Size, name: str, out: Path, **more: Any) -> None:
    """Write both graphs and model.json, to which ``more`` is added, into ``out``."""
    files = {}
    for file, model in (
        (ENCODER_FILE, encoder_graph(weights, size)),
        (STEP_FILE, step_graph(weights, size)),
    ):
        data = model.SerializeToString()
        (out / file).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        files[file] = {"file": file, "sha256": digest, "bytes": len(data)}
    facts = {
        "name": name,
        **files[ENCODER_FILE],
        "precision": "fp32",
        "inputs": [_tensor("features", -1, size.features), _tensor("lengths", dtype="int64")],
        "outputs": [_tensor("states", -1, size.joint)],
        "parts": [{"name": "step", **files[STEP_FILE], **step_tensors(size)}],
        "options": {
            "labels": LABELS,
            "blank": BLANK,
            "most_letters_per_frame": 30,
            "stride": size.stack,
            "style": "mlperf",
            **({} if size == Size() else OTHER),
        },
        **more,
    }
    (out / "model.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
