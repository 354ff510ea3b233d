"""Words of the guides that nothing here can do: each says so, with the way that there is."""

from __future__ import annotations

from nvidia_flow.errors import FlowError

from nvidia_make.flow import Flow

_CONTAINER = (
    "containers of the flow are not made here: the words run on this machine as they are",
    "a benchmark in a container: cm docker script --tags=run-mlperf,inference --help",
)


def container(flow: Flow) -> None:
    """Raise FlowError: no container is kept for the words."""
    del flow
    raise FlowError("not-available", *_CONTAINER)


def calibrate(flow: Flow) -> None:
    """Raise FlowError: a calibration cache is of use to a TensorRT builder only."""
    del flow
    raise FlowError(
        "not-available",
        "a calibration cache is for TensorRT, and the stand-in has no engine to build",
        "the same models in int8: cm run script --tags=run-mlperf,inference --precision=int8",
    )
