"""The types in a graph, which builders go by: writing float16, and looking for fp8."""

from __future__ import annotations

from pathlib import Path

from ..errors import HarnessError


def write(source: Path, target: Path) -> None:
    """Write the graph of ``source`` to ``target`` in float16; inputs and outputs stay as they are.

    Numbers too large for float16, such as masks of -10000 and more, become its greatest.
    Raises HarnessError where it cannot be done.
    """
    import onnx
    from onnxruntime.transformers import float16

    model = onnx.load(str(source))
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
        smaller = float16.convert_float_to_float16(inferred, keep_io_types=True)
        onnx.save(smaller, str(target))
    except Exception as error:  # the library raises plain exceptions of many kinds
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise HarnessError(f"{source} cannot be written in float16: {reason}") from error


def check_fp8(source: Path) -> None:
    """Raise HarnessError where nothing in a graph is 8-bit floating point."""
    import onnx

    graph = onnx.load(str(source), load_external_data=False).graph
    kinds = onnx.TensorProto
    eighths = {kinds.FLOAT8E4M3FN, kinds.FLOAT8E5M2}
    if not any(tensor.data_type in eighths for tensor in graph.initializer):
        raise HarnessError(
            f"{source.name} has nothing in fp8, and nothing here quantizes to it",
            "give a model that a tool such as NVIDIA's ModelOpt has written: --model_path=FILE",
        )
