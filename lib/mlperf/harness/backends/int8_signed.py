"""Values in unsigned 8-bit integers around 128, written for OpenVINO in signed ones around zero.

Both are the same steps of the same values. ONNX Runtime 1.31 multiplies the former three times as
fast; OpenVINO 2026.4 sees only in the latter that nothing has to be subtracted before a product.
Otherwise it prepares every layer for every shape, and keeps 0.2 MB of it: gigabytes for a
BERT-large that has met texts of 40 lengths, where layers of one size can share what is prepared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

UNSIGNED, SIGNED = (0, 255), (-128, 127)
MIDDLE = 128
QUANTIZE, CONVERT, SUBTRACT = "FakeQuantize", "Convert", "Subtract"


def sign(model: Any) -> None:
    """Change an ``openvino.Model`` in place, wherever such values are made and only used as such.

    A reader of ONNX makes QuantizeLinear to a FakeQuantize and a Convert, DequantizeLinear to a
    Convert, a Subtract of the zero point and a Multiply.
    """
    for quantize in model.get_ordered_ops():
        if quantize.get_type_name() != QUANTIZE or _bounds(quantize) != UNSIGNED:
            continue
        subtracts = _uses(quantize, CONVERT, CONVERT, SUBTRACT)
        if not subtracts or any(_value(node.input(1)) != MIDDLE for node in subtracts):
            continue
        for number, bound in zip((3, 4), SIGNED, strict=True):
            constant = opset13.constant(np.float32(bound))
            quantize.input(number).replace_source_output(constant.output(0))
        steps = opset13.convert(opset13.convert(quantize, "i8"), "f32")
        for node in subtracts:
            node.output(0).replace(steps.output(0))


def _bounds(quantize: Any) -> tuple[Any, Any]:
    return _value(quantize.input(3)), _value(quantize.input(4))


def _uses(node: Any, *kinds: str) -> list[Any]:
    """Return the operations of the last kind that ``node`` ends up in, through one after the other.

    None where something else uses it on the way.
    """
    nodes = [node]
    for kind in kinds:
        nodes = [
            use.get_node() for use_node in nodes for use in use_node.output(0).get_target_inputs()
        ]
        if any(use_node.get_type_name() != kind for use_node in nodes):
            return []
    return nodes


def _value(port: Any) -> Any:
    """The number that an operation is given; None where it is no constant, or more than one."""
    node = port.get_source_output().get_node()
    if node.get_type_name() == CONVERT:
        node = node.input(0).get_source_output().get_node()
    if node.get_type_name() != "Constant" or node.data.size != 1:
        return None
    return node.data.item()
