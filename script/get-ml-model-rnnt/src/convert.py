"""Turn MLPerf's PyTorch checkpoint of the transducer into the two ONNX graphs of the benchmark.

    convert.py --checkpoint FILE --harness DIR --out DIR [--other-size]

Every weight that the network has must be there in its shape, and no other; the checkpoint's own
tables of the features (mel filters and window) must be those that the benchmark computes.
``--harness`` is the folder of the benchmark harness.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import graphs
import numpy as np

FILTERS, WINDOW = "audio_preprocessor.featurizer.fb", "audio_preprocessor.featurizer.window"
# Tables that a library computes anew differ in the last digits.
TOLERANCE = 1e-3


class ConvertError(Exception):
    """The checkpoint is not one of this network."""


def read(path: Path) -> dict[str, graphs.Array]:
    """The arrays of the checkpoint by name; only numbers are read, no code in it is run."""
    import torch

    try:
        found = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever unpickling meets
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConvertError(f"{path} is no checkpoint of PyTorch: {reason}") from error
    state = found.get("state_dict", found) if isinstance(found, dict) else None
    if not isinstance(state, dict) or not state:
        raise ConvertError(f"{path} has no weights: it holds a {type(found).__name__}")
    return {
        str(name): value.float().numpy()
        for name, value in state.items()
        if isinstance(value, torch.Tensor)
    }


def renamed(state: Mapping[str, graphs.Array]) -> dict[str, graphs.Array]:
    """The arrays under the names that ``graphs`` knows; raises ConvertError without a joint."""
    names = {
        name: re.sub(r"^module\.", "", name).replace("joint_net.", "joint.net.") for name in state
    }
    layers = {
        int(found[1])
        for name in names.values()
        if (found := re.match(r"joint\.net\.(\d+)\.weight$", name))
    }
    if len(layers) != 2 or min(layers) != 0:
        raise ConvertError("the checkpoint has no joint network of two layers (joint_net)")
    last = f"joint.net.{max(layers)}."
    return {
        name.replace(last, f"{graphs.SCORES}."): state[original] for original, name in names.items()
    }


def size_of(weights: Mapping[str, graphs.Array]) -> graphs.Size:
    """The size that the shapes of these weights speak of; raises ConvertError for a lack."""

    def shape(name: str) -> tuple[int, ...]:
        if name not in weights:
            raise ConvertError(f"the checkpoint has no {name}")
        return weights[name].shape

    def layers(name: str) -> int:
        return sum(1 for each in weights if each.startswith(f"{name}.weight_hh_l"))

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


def check(weights: Mapping[str, graphs.Array], size: graphs.Size, other_size: bool) -> None:
    """Raise ConvertError unless the weights are those of a network of this size."""
    expected = graphs.shapes(size)
    lacking = [name for name in expected if name not in weights]
    if lacking:
        raise ConvertError(f"the checkpoint has no {lacking[0]} ({len(lacking)} are missing)")
    unknown = sorted(set(weights) - set(expected))
    if unknown:
        raise ConvertError(f"the network has no {unknown[0]} ({len(unknown)} are unknown)")
    for name, shape in expected.items():
        if weights[name].shape != shape:
            raise ConvertError(f"{name} is {list(weights[name].shape)}, expected {list(shape)}")
    if size.classes != graphs.BLANK + 1:
        raise ConvertError(f"it knows {size.classes} letters, the benchmark {graphs.BLANK + 1}")
    if size != graphs.Size() and not other_size:
        raise ConvertError(f"its size is not that of MLPerf's model: {size}")


def check_features(tables: Mapping[str, graphs.Array]) -> None:
    """Raise ConvertError when the network was trained with other features than ours."""
    from mlperf_harness.benchmarks.features import Extractor, FeatureSpec

    extractor = Extractor(FeatureSpec(style="mlperf"))
    ours: dict[str, Any] = {FILTERS: extractor.bank.T, WINDOW: extractor.window}
    for name, table in tables.items():
        found, expected = np.squeeze(table), ours[name]
        if found.shape != expected.shape:
            raise ConvertError(f"{name} is {list(found.shape)}, expected {list(expected.shape)}")
        if not np.allclose(found, expected, atol=TOLERANCE * float(expected.max())):
            raise ConvertError(f"{name} has other numbers than the features of the benchmark")


def convert(path: Path, out: Path, other_size: bool) -> graphs.Size:
    """Read, check and write; returns the size."""
    state = read(path)
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
        accuracy={
            "metric": "word accuracy",
            "unit": "%",
            "reference": graphs.REFERENCE_ACCURACY,
            "target": round(graphs.REFERENCE_ACCURACY * graphs.TARGET_SHARE, 5),
        },
        source={"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
    )
    return size


def main(arguments: list[str] | None = None) -> int:
    """Convert as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True, help="file of PyTorch's weights")
    parser.add_argument("--harness", type=Path, required=True, help="folder of the harness")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--other-size", action="store_true", help="accept other widths")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(options.harness))
    try:
        size = convert(options.checkpoint, options.out, options.other_size)
    except (OSError, ConvertError) as error:
        print(f"convert: {error}", file=sys.stderr)
        return 1
    print(f"converted: {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
