"""Words of the guides that nothing here can do: each says so, with the way that there is."""

from __future__ import annotations

from nvidia_flow.errors import FlowError

from nvidia_make.flow import Flow


def calibrate(flow: Flow) -> None:
    """Raise FlowError: a calibration cache is of use to a TensorRT builder only."""
    del flow
    raise FlowError(
        "not-available",
        "a calibration cache is for TensorRT, and the stand-in has no engine to build",
        "the same models in int8: cm run script --tags=run-mlperf,inference --precision=int8",
    )
