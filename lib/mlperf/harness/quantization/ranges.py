"""How ONNX Runtime finds the ranges of values to quantize a model with, in little memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from ..errors import HarnessError
from ..measuring import memory
from ..wording import megabytes


def check_room(work_bytes: int) -> None:
    """Raise HarnessError where a call of the model does not fit into the memory that is free.

    ``work_bytes`` is what the values of one sample take that is worked on, 0 for next to nothing.
    """
    free, whose = memory.available()
    if free is not None and free < work_bytes:
        raise HarnessError(
            f"too little memory to calibrate: one call of the model takes about "
            f"{megabytes(work_bytes)}, and {megabytes(free)} {whose}",
            "quantize it on a machine with more memory, or use --precision=float32 or bfloat16",
        )


@contextmanager
def lean() -> Iterator[None]:
    """Inside, values are let go of as soon as their range is known.

    Left to itself, ONNX Runtime works out all ranges last, when every value of the model is still
    there, and from the second call on it plans that memory once more on top of it: 11 GB in
    place of 2 for a window of the full 3D U-Net. Histograms are added to after every call: ONNX
    Runtime would keep all values of all calls, which must then have one shape, as texts have not.
    """
    from onnxruntime.quantization.calibrate import CalibraterBase, HistogramCalibrater

    before = CalibraterBase.create_inference_session
    collect = HistogramCalibrater.collect_data
    CalibraterBase.create_inference_session = _create_session
    HistogramCalibrater.collect_data = lambda self, calls: _by_call(collect, self, calls)
    try:
        yield
    finally:
        CalibraterBase.create_inference_session = before
        HistogramCalibrater.collect_data = collect


class _One:
    """A single call, in the interface of the calibration."""

    def __init__(self, feeds: Any) -> None:
        self._left = [feeds]

    def get_next(self) -> Any:
        """Return the call, and None after it."""
        return self._left.pop() if self._left else None


def _by_call(collect: Any, calibrater: Any, calls: Any) -> None:
    feeds = calls.get_next()
    # It prints a line each time.
    with redirect_stdout(io.StringIO()):
        collect(calibrater, _One(feeds))
        while (feeds := calls.get_next()) is not None:
            collect(calibrater, _One(feeds))


def _create_session(calibrater: Any) -> None:
    """In place of the method of the library, which takes no options."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The graph as it stands: what is fused has no value in between.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.enable_mem_pattern = False
    calibrater.infer_session = onnxruntime.InferenceSession(
        calibrater.augmented_model_path,
        sess_options=options,
        providers=calibrater.execution_providers,
    )
