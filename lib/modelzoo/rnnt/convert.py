"""Turn MLPerf's PyTorch checkpoint of the transducer into the two ONNX graphs of the benchmark.

    python -m modelzoo.rnnt.convert --checkpoint FILE --out DIR [--other-size]

Every weight that the network has must exist in its shape, and no other; the checkpoint's own
tables of the features (mel filters and window) must be those that the benchmark's harness computes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from common.files import sha256
from modelzoo import models, program
from modelzoo.checkpoint import check_shapes, pytorch_weights
from modelzoo.graph import Array
from modelzoo.program import ProgramError
from modelzoo.rnnt import graphs

FILTERS, WINDOW = "audio_preprocessor.featurizer.fb", "audio_preprocessor.featurizer.window"
# Tables that a library computes anew differ in the last digits.
TOLERANCE = 1e-3


def renamed(state: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, in their shapes, under the names of ``graphs``.

    Raises ProgramError without a joint network of two layers.
    """
    names = {
        name: re.sub(r"^module\.", "", name).replace("joint_net.", "joint.net.") for name in state
    }
    layers = {
        int(match[1])
        for name in names.values()
        if (match := re.match(r"joint\.net\.(\d+)\.weight$", name))
    }
    if len(layers) != 2 or min(layers) != 0:
        raise ProgramError("the checkpoint has no joint network of two layers (joint_net)")
    last = f"joint.net.{max(layers)}."
    return {
        name.replace(last, f"{graphs.SCORES}."): state[original] for original, name in names.items()
    }


def size_of(weights: Mapping[str, Array]) -> graphs.Size:
    """The size that the shapes of these weights speak of; raises ProgramError for a lack."""

    def shape(name: str) -> tuple[int, ...]:
        if name not in weights:
            raise ProgramError(f"the checkpoint has no {name}")
        return weights[name].shape

    def layers(name: str) -> int:
        return sum(1 for weight in weights if weight.startswith(f"{name}.weight_hh_l"))

    encoder = shape(f"{graphs.BEFORE}.weight_hh_l0")[1]
    return graphs.Size(
        features=shape(f"{graphs.BEFORE}.weight_ih_l0")[1],
        encoder=encoder,
        before=layers(graphs.BEFORE),
        after=layers(graphs.AFTER),
        stack=shape(f"{graphs.AFTER}.weight_ih_l0")[1] // encoder,
        prediction=shape(graphs.LETTERS)[1],
        prediction_layers=layers(graphs.PREDICTION),
        joint=shape(f"{graphs.JOIN}.weight")[0],
        classes=shape(f"{graphs.SCORES}.weight")[0],
    )


def check(weights: Mapping[str, Array], size: graphs.Size, other_size: bool) -> None:
    """Raise ProgramError unless the weights have the shapes of a network of this size."""
    shapes = {name: weight.shape for name, weight in weights.items()}
    check_shapes(shapes, graphs.shapes(size))
    if size.classes != graphs.BLANK + 1:
        raise ProgramError(f"it knows {size.classes} letters, the benchmark {graphs.BLANK + 1}")
    if size != graphs.Size() and not other_size:
        raise ProgramError(f"its size is not that of MLPerf's model: {size}")


def check_features(tables: Mapping[str, Array]) -> None:
    """Raise ProgramError when the network was trained with other features than ours.

    ``tables`` has a window [n] and filters [bands, transform / 2 + 1].
    """
    from mlperf.harness.benchmarks.features import Extractor, FeatureSpec

    extractor = Extractor(FeatureSpec(style="mlperf"))
    ours: dict[str, Any] = {FILTERS: extractor.bank.T, WINDOW: extractor.window}
    for name, table in tables.items():
        values, expected = np.squeeze(table), ours[name]
        if values.shape != expected.shape:
            raise ProgramError(f"{name} is {list(values.shape)}, expected {list(expected.shape)}")
        if not np.allclose(values, expected, atol=TOLERANCE * float(expected.max())):
            raise ProgramError(f"{name} has other numbers than the features of the benchmark")


def convert(path: Path, out: Path, other_size: bool) -> graphs.Size:
    """Read, check and write; returns the size."""
    state = {name: tensor.float().numpy() for name, tensor in pytorch_weights(path).items()}
    tables = {name: state.pop(name) for name in (FILTERS, WINDOW) if name in state}
    weights = renamed(state)
    size = size_of(weights)
    check(weights, size, other_size)
    check_features(tables)
    graphs.write(
        weights,
        size,
        "rnnt_librispeech",
        out,
        accuracy=models.accuracy("word accuracy", "%", graphs.REFERENCE_ACCURACY, digits=5),
        source={"file": path.name, "sha256": sha256(path)},
    )
    return size


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="file of PyTorch's weights")
    parser.add_argument("--other-size", action="store_true", help="accept other widths")
    options = parser.parse_args(arguments)
    return program.run(
        "convert",
        lambda: f"converted: {convert(options.checkpoint, options.out, options.other_size)}",
    )


if __name__ == "__main__":
    sys.exit(main())
