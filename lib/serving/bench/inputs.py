"""What is sent: random, zero, or out of a file, as the inputs of the model want it."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.problems import Problem
from serving.kserve import CODES, FLOATS, SIZES, Model, TensorInfo, WireTensor

from . import files

# Integers are often indices: small ones are valid almost everywhere.
MOST = 100
WORD = b"text"

Sample = dict[str, WireTensor]


def make(
    model: Model, batches: bool, batch: int, source: str, shapes: Mapping[str, Sequence[int]],
    seed: int,
) -> list[Sample]:  # fmt: skip
    """Return the inputs of one request or, out of a file with more samples, of several.

    ``batches`` says whether the first length of every shape is the batch's. Raises Problem where
    a length is open and nobody gave it, or a file does not fit.
    """
    unknown = [name for name in shapes if name not in {info.name for info in model.inputs}]
    if unknown:
        named = ", ".join(info.name for info in model.inputs)
        text = f"--shape: {model.name} has no input {unknown[0]}; it has {named}"
        raise Problem(
            "bad-value", text, hint="write it once for each input: --shape=INPUT:D1,D2 --shape=..."
        )
    if source in ("random", "zero"):
        generator = random.Random(seed) if source == "random" else None
        _require_lengths(model, batches, shapes)
        return [
            {
                info.name: _filled(info, wanted_shape(info, batches, batch, shapes), generator)
                for info in model.inputs
            }
        ]
    return _from_file(model, batches, batch, Path(source), shapes)


def wanted_shape(
    info: TensorInfo, batches: bool, batch: int, shapes: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    """Return the shape of an input in a request; raise Problem for one of another shape."""
    own = info.shape[1:] if batches else info.shape
    requested = shapes.get(info.name)
    if requested is not None:
        fits = len(requested) == len(own) and all(
            a in (-1, b) for a, b in zip(own, requested, strict=True)
        )
        if not fits:
            raise Problem(
                "bad-value", f"--shape={info.name}: {list(requested)} is not of {list(own)}"
            )
        own = tuple(requested)
    return (batch, *own) if batches else own


def _require_lengths(model: Model, batches: bool, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise Problem for the inputs whose lengths stay open, with the option of every one."""
    wanted = {info.name: wanted_shape(info, batches, 1, shapes)[batches:] for info in model.inputs}
    still_open = {name: shape for name, shape in wanted.items() if -1 in shape}
    if not still_open:
        return
    words = [
        f"--shape={name}:{','.join('N' if size == -1 else str(size) for size in shape)}"
        for name, shape in still_open.items()
    ]
    text = "; ".join(f"{name} has the shape {list(shape)}" for name, shape in still_open.items())
    raise Problem(
        "server-failed",
        f"{text}: its lengths are the request's",
        hint=f"{' '.join(words)}, or --input=FILE",
    )


def _filled(
    info: TensorInfo, shape: tuple[int, ...], generator: random.Random | None
) -> WireTensor:
    count = math.prod(shape)
    if info.datatype != "BYTES" and info.datatype not in SIZES:
        raise Problem(
            "server-failed", f"{info.name} is of the type {info.datatype}, which is not sent"
        )
    if info.datatype == "BYTES":
        data = (struct.pack("<I", len(WORD)) + WORD) * count
    elif generator is None:
        data = bytes(count * SIZES[info.datatype])
    else:
        data = _random(info.datatype, count, generator)
    return WireTensor(info.datatype, shape, memoryview(data))


def _random(datatype: str, count: int, generator: random.Random) -> bytes:
    """Floats in [0, 1), integers below MOST; NumPy, where it is, draws the many."""
    if datatype == "BF16":
        return files.halved(_random("FP32", count, generator))
    try:
        import numpy as np
    except ImportError:
        draw = generator.random if datatype in FLOATS else lambda: generator.randrange(MOST)
        if datatype == "BOOL":
            draw = lambda: generator.random() < 0.5  # noqa: E731
        return struct.pack(f"<{count}{CODES[datatype]}", *(draw() for _ in range(count)))
    drawn = np.random.default_rng(generator.randrange(1 << 32))
    if datatype in FLOATS:
        return drawn.random(count, np.float32).astype(CODES[datatype]).tobytes()
    most = 2 if datatype == "BOOL" else MOST
    return drawn.integers(0, most, count).astype(CODES[datatype]).tobytes()


def _from_file(
    model: Model, batches: bool, batch: int, path: Path, shapes: Mapping[str, Sequence[int]]
) -> list[Sample]:
    """Return requests of ``batch`` samples from a file; a remainder is not sent."""
    if path.suffix.lower() not in files.READERS:
        return [_raw(model, batches, batch, path, shapes)]
    arrays = files.read(path, model.inputs)
    for info in model.inputs:
        if info.name not in arrays:
            raise Problem(
                "server-failed", f"{path} lacks the input {info.name}; it has {', '.join(arrays)}"
            )
    tensors = {info.name: _checked(info, arrays[info.name], path, batches) for info in model.inputs}
    if not batches:
        return [tensors]
    count = min(tensor.shape[0] for tensor in tensors.values()) // batch
    if not count:
        raise Problem(
            "server-failed", f"{path} has fewer than {batch} samples", hint="a smaller --batch_size"
        )
    return [
        {name: _cut(tensor, place * batch, batch) for name, tensor in tensors.items()}
        for place in range(count)
    ]


def _checked(info: TensorInfo, tensor: WireTensor, path: Path, batches: bool) -> WireTensor:
    own = info.shape[1:] if batches else info.shape
    is_ = tensor.shape[1:] if batches else tensor.shape
    if tensor.datatype != info.datatype:
        raise Problem(
            "server-failed",
            f"{path}: {info.name} is {tensor.datatype}, the model's {info.datatype}",
        )
    if len(is_) != len(own) or any(a not in (-1, b) for a, b in zip(own, is_, strict=True)):
        raise Problem(
            "server-failed",
            f"{path}: {info.name} has the shape {list(is_)}, the model's {list(own)}",
            hint="a shape in a file is that of one sample, without the batch",
        )
    return tensor


def _cut(tensor: WireTensor, first: int, count: int) -> WireTensor:
    """Samples ``first`` to ``first + count``."""
    shape = (count, *tensor.shape[1:])
    if tensor.datatype == "BYTES":
        size = math.prod(tensor.shape[1:])
        words = list(tensor.values())[first * size : (first + count) * size]
        return WireTensor("BYTES", shape, memoryview(files.packed(words)))
    size = math.prod(tensor.shape[1:]) * SIZES[tensor.datatype]
    return WireTensor(tensor.datatype, shape, tensor.data[first * size : (first + count) * size])


def _raw(
    model: Model, batches: bool, batch: int, path: Path, shapes: Mapping[str, Sequence[int]]
) -> Sample:
    if len(model.inputs) != 1:
        named = ", ".join(info.name for info in model.inputs)
        text = f"{path} is raw bytes, and {model.name} has several inputs: {named}"
        raise Problem("server-failed", text, "a .npz or .json file has names")
    info = model.inputs[0]
    if info.datatype not in SIZES:
        raise Problem(
            "server-failed",
            f"{path} is raw bytes, {info.name} is {info.datatype}",
            hint="a .json file",
        )
    _require_lengths(model, batches, shapes)
    shape = wanted_shape(info, batches, batch, shapes)
    data = files.read_bytes(path)
    wanted = math.prod(shape) * SIZES[info.datatype]
    if len(data) != wanted:
        raise Problem("server-failed", f"{path} has {len(data)} bytes, a request {wanted}")
    return {info.name: WireTensor(info.datatype, shape, memoryview(data))}
