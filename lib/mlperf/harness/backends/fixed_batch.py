"""Models for batches of one size: OpenVINO compiles them once instead of per call."""

from __future__ import annotations

import contextlib
from typing import Any

import openvino


def fix(model: Any, batch: int) -> bool:
    """Set the batch size in a model all of whose other sizes are known; whether that went."""
    before = {port: port.get_partial_shape() for port in model.inputs}
    if any(size.is_dynamic for shape in before.values() for size in list(shape)[1:]):
        return False
    wanted = {
        port: openvino.PartialShape([batch, *list(shape)[1:]]) for port, shape in before.items()
    }
    with contextlib.suppress(RuntimeError):
        model.reshape(wanted)
        if all(_first_size(port) == batch for port in model.outputs):
            return True
    model.reshape(before)
    return False


def _first_size(port: Any) -> int | None:
    """Return how many rows come out of a port; None where that is not known beforehand."""
    shape = list(port.get_partial_shape())
    return shape[0].get_length() if shape and shape[0].is_static else None
