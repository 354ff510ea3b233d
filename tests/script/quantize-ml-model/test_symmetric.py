"""Which values get steps around zero, and what that makes of whole models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlperf.harness.quantization import calibration, int8_symmetric, quantize

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node


def graph(*nodes: Any, weights: tuple[str, ...] = ("w", "v")) -> Any:
    """A graph of these nodes on ``x``, of 4 numbers each, with square weights."""
    random = np.random.default_rng(5)
    floats = onnx.TensorProto.FLOAT
    info = onnx.helper.make_tensor_value_info
    made = [
        onnx.numpy_helper.from_array(random.standard_normal((4, 4)).astype(np.float32), name)
        for name in weights
    ]
    last = nodes[-1].output[0]
    return onnx.helper.make_graph(
        nodes, "g", [info("x", floats, ["N", 4])], [info(last, floats, None)], made
    )


def test_what_products_are_given_gets_steps_around_zero() -> None:
    whole = graph(node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "v"], ["b"], "last"))
    assert int8_symmetric.centred(whole, ()) == ["a", "x"]
    assert int8_symmetric.centred(whole, ["last"]) == ["x"]


@pytest.mark.parametrize("between", [[], ["Flatten"], ["Flatten", "Identity"]])
def test_what_is_never_negative_keeps_all_its_steps(between: list[str]) -> None:
    steps = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["r0"])]
    for count, kind in enumerate(between):
        steps.append(node(kind, [f"r{count}"], [f"r{count + 1}"]))
    whole = graph(*steps, node("MatMul", [f"r{len(between)}", "v"], ["b"]))
    assert int8_symmetric.centred(whole, ()) == ["x"]


def test_convolutions_keep_their_zero() -> None:
    assert int8_symmetric.centred(graph(node("Conv", ["x", "w"], ["a"])), ()) == []


def test_a_product_answers_floats_and_is_given_steps_around_zero(tmp_path: Path) -> None:
    steps = (
        node("MatMul", ["x", "w"], ["a"], "first"),
        node("Sub", ["a", "a0"], ["s"]),
        node("Relu", ["s"], ["r"]),
        node("MatMul", ["r", "v"], ["b"], "second"),
        node("Sub", ["b", "a0"], ["c"]),
        node("MatMul", ["c", "u"], ["d"], "last"),
    )
    model = onnx.helper.make_model(
        graph(*steps, weights=("w", "v", "u", "a0")),
        opset_imports=[onnx.helper.make_opsetid("", 13)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "float.onnx")
    random = np.random.default_rng(6)
    feeds = [[{"x": random.standard_normal((4, 4)).astype(np.float32) + 1}] for _ in range(4)]
    counted = calibration.CalibrationFeeds(feeds)
    quantize._quantize(
        tmp_path / "float.onnx", tmp_path / "int8.onnx", counted, quantize.QuantizationMethod()
    )
    found = onnx.load(tmp_path / "int8.onnx").graph
    made = {name: each for each in found.node for name in each.output}
    values = {t.name: onnx.numpy_helper.to_array(t) for t in found.initializer}
    products = {each.name: each for each in found.node if each.op_type == "MatMul"}
    zeros = {
        name: int(values[made[products[name].input[0]].input[2]]) for name in ("first", "second")
    }
    assert zeros == {"first": 128, "second": 0}
    answers = {name for each in products.values() for name in each.output}
    users = {each.op_type for each in found.node if answers.intersection(each.input)}
    assert "QuantizeLinear" not in users
