"""The calibration cache of TensorRT: a text file with the scale of every value, read and written.

The first line names TensorRT's version and the method, every further line a tensor and the scale of
its 8-bit integers, the bits of a float32 in hexadecimal: ``input_1: 3c010a14``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path

from .. import records
from ..errors import HarnessError

# The release whose cache is written, that of guides; others read it, and say that it is older.
HEADER = "TRT-8501-EntropyCalibration2"
HEAD = re.compile(r"TRT-\d+-\w*Calibration\w*")
LINE = re.compile(r"(.+): ([0-9a-f]{8})")
QUANTIZE = "QuantizeLinear"


def path_for(model: Path) -> Path:
    """Where the cache of a quantized graph lies."""
    return model.with_suffix(".cache")


def write_for(model: Path) -> Path:
    """Write the scales of a signed quantized graph next to it; returns the file."""
    target = path_for(model)
    write(target, scales_of(model))
    return target


def write(path: Path, scales: Mapping[str, float]) -> None:
    """Write scales by the name of a tensor; read back they are the nearest float32."""
    lines = [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items()]
    records.write_text(path, "\n".join([HEADER, *lines, ""]))


def read(path: Path) -> dict[str, float]:
    """Return the scales by tensor; raises HarnessError with the line that is none of a cache."""
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"cannot read the calibration cache {path}: {error}") from error
    if not HEAD.fullmatch(head):
        raise HarnessError(
            f"{path} is not a calibration cache of TensorRT: it begins with {head!r}"
        )
    scales: dict[str, float] = {}
    for number, line in enumerate(lines, 2):
        match = LINE.fullmatch(line)
        if match is None and line.strip():
            raise HarnessError(f"{path}:{number}: expected NAME: 8 digits, found {line!r}")
        if match:
            scales[match[1]] = struct.unpack(">f", bytes.fromhex(match[2]))[0]
    return scales


def scales_of(model: Path) -> dict[str, float]:
    """Return the scale of every value that a graph quantizes, without those of its weights."""
    import onnx

    graph = onnx.load(str(model), load_external_data=False).graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    return {
        node.input[0]: float(onnx.numpy_helper.to_array(weights[node.input[1]]))
        for node in graph.node
        if node.op_type == QUANTIZE and node.input[0] not in weights
    }
