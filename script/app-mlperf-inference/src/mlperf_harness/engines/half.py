"""A float32 graph in float16: what builders that take types from the graph are given."""

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
    except Exception as error:  # the library raises plain exceptions of many kinds
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise HarnessError(f"{source} cannot be written in float16: {reason}") from error
    onnx.save(smaller, str(target))
