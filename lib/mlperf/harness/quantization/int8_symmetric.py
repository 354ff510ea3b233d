"""Which values are quantized to steps that have zero in their middle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PRODUCTS = ("Gemm", "MatMul")
NEVER_NEGATIVE = ("Relu", "Sigmoid", "Softmax")
# What these answer is not below zero where what they are given is not.
SIGN_KEEPING = (
    "AveragePool",
    "Flatten",
    "GlobalAveragePool",
    "Identity",
    "MaxPool",
    "ReduceMean",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)


def unsigned(graph: Any, float_nodes: Iterable[str]) -> dict[str, Any]:
    """Return the options of ``quantize_static`` for runtimes on a processor."""
    middle = [{"symmetric": True}]
    return {
        "extra_options": {
            "TensorQuantOverrides": dict.fromkeys(centred(graph, float_nodes), middle),
            "OpTypesToExcludeOutputQuantization": PRODUCTS,
        }
    }


def signed_symmetric() -> dict[str, Any]:
    """Return the options of ``quantize_static`` for TensorRT, whose parser takes nothing else.

    All is signed around zero, weights stay float with a pair of operators behind them, and so do
    biases. Ranges are those of entropy, as TensorRT's own calibration finds them, from histograms
    that are added to after every sample.
    """
    from onnxruntime.quantization import CalibrationMethod

    return {
        "calibrate_method": CalibrationMethod.Entropy,
        "extra_options": {
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "QuantizeBias": False,
            "AddQDQPairToWeight": True,
            "CalibTensorRangeSymmetric": True,
            "OpTypesToExcludeOutputQuantization": PRODUCTS,
        },
    }


def centred(graph: Any, float_nodes: Iterable[str]) -> list[str]:
    """The values of a graph that products of matrices with weights are given, below zero too.

    Where zero lies elsewhere OpenVINO has to subtract it: see ``backends.int8_signed``. A
    convolution does that by itself.
    """
    weights = {tensor.name for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    left = set(float_nodes)
    activations = {
        name
        for node in graph.node
        if node.op_type in PRODUCTS and node.name not in left
        for name in node.input[:2]
        if name not in weights
    }
    return sorted(name for name in activations if not _never_negative(name, makers))


def _never_negative(name: str, makers: Mapping[str, Any]) -> bool:
    node = makers.get(name)
    while node is not None and node.op_type in SIGN_KEEPING:
        node = makers.get(node.input[0])
    return node is not None and node.op_type in NEVER_NEGATIVE
