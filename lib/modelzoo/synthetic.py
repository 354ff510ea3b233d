"""Fill a graph that has no weights with random ones: as fast as the trained model.

    python -m modelzoo.synthetic --graph NAME.onnx.xz --out DIR
    python -m modelzoo.synthetic --strip NAME.onnx --seed 7 --out DIR

The first writes ``DIR/NAME.onnx``, the second makes such a graph of any model. The graph is an ONNX
file, compressed, in which the weights of layers have a name, a type and a shape, but no numbers:
their documentation says which mean and standard deviation they have, and the metadata of the
model which seed they come from. All other constants are whole.
"""

from __future__ import annotations

import lzma
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from modelzoo import models, program

PACKED = ".xz"
SEED = "seed"
SCALE = re.compile(r"mean (\S+) deviation (\S+)")
# Operators whose further inputs are weights.
LAYERS = ("Conv", "ConvTranspose", "Gemm", "InstanceNormalization", "MatMul")


def read_graph(path: Path) -> Any:
    """Return the model without weights in a compressed file."""
    return onnx.load_model_from_string(lzma.decompress(path.read_bytes()))


def fill(model: Any) -> Any:
    """Give all weights of ``model`` their random numbers; returns it.

    They are drawn in the order of the file. A weight without a deviation is filled with its mean.
    """
    (seed,) = (entry.value for entry in model.metadata_props if entry.key == SEED)
    del model.metadata_props[:]
    random = np.random.default_rng(int(seed))
    for tensor in model.graph.initializer:
        if not (scale := SCALE.fullmatch(tensor.doc_string)):
            continue
        mean, deviation = map(np.float32, scale.groups())
        shape = tuple(tensor.dims)
        values = np.zeros(shape, np.float32)
        if deviation:
            values = random.standard_normal(shape, dtype=np.float32) * deviation
        if mean:
            values += mean
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


def strip(model: Any, seed: int) -> Any:
    """Take the numbers of its layers' weights out of ``model``; returns it."""
    weights = set(_weights(model.graph))
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            values = numpy_helper.to_array(tensor).astype(np.float64)
            scale = f"mean {values.mean():.6g} deviation {values.std():.6g}"
            tensor.CopyFrom(
                onnx.TensorProto(
                    name=tensor.name,
                    data_type=tensor.data_type,
                    dims=tensor.dims,
                    doc_string=scale,
                )
            )
    model.metadata_props.add(key=SEED, value=str(seed))
    return model


def _weights(graph: Any) -> Iterator[str]:
    """Return the names of the weights of all layers."""
    for node in graph.node:
        if node.op_type in LAYERS:
            yield from node.input[1:]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a model, or a graph without weights."""
    parser = program.parser(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--graph", type=Path, help="a graph without weights, to fill")
    source.add_argument("--strip", type=Path, help="a model whose weights to take out")
    parser.add_argument("--seed", type=int, default=0, help="of the weights to be drawn later")
    options = parser.parse_args(arguments)
    if options.strip:
        path = options.out / (options.strip.name + PACKED)
        graph = strip(onnx.load(str(options.strip)), options.seed)
        path.write_bytes(lzma.compress(graph.SerializeToString(), preset=9))
        print(f"{path.name}: {path.stat().st_size} bytes without weights written")
    else:
        path = options.out / options.graph.name.removesuffix(PACKED)
        made = models.saved(path, fill(read_graph(options.graph)))
        print(f"{path.name}: {made['bytes']} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
