"""Unsigned integers around 128 become signed ones around zero, and nothing else changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("openvino")
import onnx

import benchmark_lab as lab
from mlperf.harness.backends import int8_signed, open_vino
from support import run

node = onnx.helper.make_node
SCALE = 0.05


def written(
    nodes: list[Any], constants: dict[str, Any], widths: tuple[int, int], outputs: tuple[str, ...]
) -> bytes:
    """An ONNX file from rows ``x`` to rows ``outputs``, as wide as that."""
    info, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [info("x", floats, ["N", widths[0]])],
        [info(name, floats, ["N", widths[1]] if name == "y" else None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 13)]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    content: bytes = made.SerializeToString()
    return content


def model(zero: int, extra: tuple[Any, ...] = (), outputs: tuple[str, ...] = ("y",)) -> bytes:
    """``x`` in unsigned steps with this zero, times weights."""
    random = np.random.default_rng(7)
    # Of 7 bits: a processor without VNNI adds products in 16 bits, which 8 overflow.
    weights = random.integers(-63, 64, (16, 8)).astype(np.int8)
    constants = {
        "scale": np.float32(SCALE),
        "zero": np.uint8(zero),
        "w": weights,
        "w_scale": np.float32(0.01),
        "w_zero": np.int8(0),
    }
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wd"]),
        node("MatMul", ["d", "wd"], ["y"]),
        *extra,
    ]
    return written(nodes, constants, (16, 8), outputs)


def kinds(read: Any) -> list[str]:
    """The operations in which something is subtracted, or made an unsigned integer."""
    return [
        op.get_type_name()
        for op in read.get_ops()
        if op.get_type_name() == "Subtract" or op.get_attributes().get("destination_type") == "u8"
    ]


def answers(read: Any, x: Any) -> list[Any]:
    """What OpenVINO computes with this model."""
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    found = open_vino._core().compile_model(read, "CPU", config)(x)
    return [found[number] for number in range(len(read.outputs))]


def test_steps_around_128_become_steps_around_zero_with_the_same_answers() -> None:
    content = model(128)
    core = open_vino._core()
    plain, signed = core.read_model(content), core.read_model(content)
    before = kinds(plain)
    int8_signed.sign(signed)
    # Weights have a Subtract of their own, which stays.
    assert sorted(before) == ["Convert", "Subtract", "Subtract"]
    assert kinds(signed) == ["Subtract"]
    # Below and above all steps too.
    x = np.random.default_rng(8).uniform(-9, 9, (64, 16)).astype(np.float32)
    (expected,), (found,) = answers(plain, x), answers(signed, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    steps = np.clip(np.round(x / SCALE), -128, 127) * SCALE
    weights = onnx.numpy_helper.to_array(onnx.load_from_string(content).graph.initializer[2])
    np.testing.assert_allclose(found, steps @ (weights * 0.01), rtol=1e-4, atol=1e-3)


def test_another_zero_stays() -> None:
    read = open_vino._core().read_model(model(100))
    before = kinds(read)
    int8_signed.sign(read)
    assert kinds(read) == before


def test_integers_that_something_else_uses_stay() -> None:
    cast = node("Cast", ["q"], ["seen"], to=onnx.TensorProto.FLOAT)
    twice = node("Mul", ["seen", "scale"], ["z"])
    content = model(128, (cast, twice), ("y", "z"))
    core = open_vino._core()
    plain, signed = core.read_model(content), core.read_model(content)
    int8_signed.sign(signed)
    assert kinds(signed) == kinds(plain)
    x = np.zeros((2, 16), np.float32)
    np.testing.assert_allclose(answers(signed, x)[1], np.full((2, 16), 128 * SCALE), rtol=1e-6)


LAYERS, WIDTH = 48, 256
# In a process of its own: what is freed of tests before would be taken first.
GROWTH = """
import json, mmap, sys
from pathlib import Path
import numpy as np
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.settings import GraphSpec

graph = records.decode(GraphSpec, json.loads(sys.argv[1]))
(predictor,) = backends.create("openvino", "cpu", "int8").open(graph, ["y"], 1, 1)

def after(rows):
    for count in rows:
        predictor.predict({"x": np.ones((count, graph.inputs[0].shape[0]), np.float32)})
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * mmap.PAGESIZE

first = after([128])
print(after(range(16, 128, 4)) - first)
"""


def layers(zero: int, step: int) -> bytes:
    """Many products one after the other, each with weights and steps of its own.

    The zeros lie so far apart.
    """
    random = np.random.default_rng(9)
    constants: dict[str, Any] = {"w_zero": np.zeros(WIDTH, np.int8)}
    nodes, value = [], "x"
    for k in range(LAYERS):
        constants[f"s{k}"] = np.float32(SCALE * (1 + k / LAYERS))
        constants[f"w{k}"] = random.integers(-127, 128, (WIDTH, WIDTH)).astype(np.int8)
        constants[f"t{k}"] = random.uniform(1e-4, 2e-4, WIDTH).astype(np.float32)
        constants[f"z{k}"] = np.uint8(zero + k * step)
        answer = "y" if k == LAYERS - 1 else f"a{k}"
        nodes += [
            node("QuantizeLinear", [value, f"s{k}", f"z{k}"], [f"q{k}"]),
            node("DequantizeLinear", [f"q{k}", f"s{k}", f"z{k}"], [f"d{k}"]),
            node("DequantizeLinear", [f"w{k}", f"t{k}", "w_zero"], [f"e{k}"], axis=1),
            node("MatMul", [f"d{k}", f"e{k}"], [answer]),
        ]
        value = answer
    return written(nodes, constants, (WIDTH, WIDTH), ("y",))


def growth(folder: Path, zero: int, step: int) -> int:
    """Bytes that the model of ``layers`` takes for 28 further numbers of rows."""
    path = folder / f"{zero}.onnx"
    path.write_bytes(layers(zero, step))
    tensors = {
        side: [{"name": name, "dtype": "float32", "shape": [WIDTH]}]
        for side, name in (("inputs", "x"), ("outputs", "y"))
    }
    graph = {"name": "main", "path": str(path), "sha256": "", **tensors}
    words = [sys.executable, "-c", GROWTH, json.dumps(graph)]
    return int(run(words, env=lab.harness_environment()).ok().stdout)


def test_little_is_kept_for_each_shape(tmp_path: Path) -> None:
    assert growth(tmp_path, 128, 0) < growth(tmp_path, 100, 1) / 2
