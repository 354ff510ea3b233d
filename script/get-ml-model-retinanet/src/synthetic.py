"""Write a detector of real shape with weights out of a seed: as fast as the trained one.

    synthetic.py --model retinanet|ssd-mobilenet|ssd-resnet34 --out DIR

What it finds means nothing. How much it finds does: sorting boxes and throwing overlapping ones out
takes part of the time, so the last layers are set such that the clouds of
get-preprocessed-dataset-openimages/src/synthetic.py give about as many candidates as photographs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import retinanet
import ssd_mobilenet
import ssd_resnet34

MODELS: dict[str, Callable[[], Any]] = {
    "retinanet": retinanet.build,
    "ssd-mobilenet": ssd_mobilenet.build,
    "ssd-resnet34": ssd_resnet34.build,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, required=True, help="which detector")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    options = parser.parse_args(arguments)
    data = MODELS[options.model]().SerializeToString()
    path = options.out / f"{options.model.replace('-', '_')}_synthetic.onnx"
    path.write_bytes(data)
    print(f"{path.name}: {len(data)} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
