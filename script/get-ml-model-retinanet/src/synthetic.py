"""Write a detector of real shape with random weights: as fast as the trained one.

    synthetic.py --model retinanet|ssd-mobilenet|ssd-resnet34 --out DIR

What it finds means nothing. How much it finds does: sorting boxes and throwing overlapping ones out
takes part of the time, so the last layers are set such that the clouds of
get-preprocessed-dataset-openimages/src/synthetic.py give about as many candidates as photographs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import retinanet
import ssd_mobilenet
import ssd_resnet34
from workshop import models, program

MODELS: dict[str, Callable[[], Any]] = {
    "retinanet": retinanet.build,
    "ssd-mobilenet": ssd_mobilenet.build,
    "ssd-resnet34": ssd_resnet34.build,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model."""
    parser = program.parser(__doc__)
    parser.add_argument("--model", choices=MODELS, required=True, help="which detector")
    options = parser.parse_args(arguments)
    path = options.out / f"{options.model.replace('-', '_')}_synthetic.onnx"
    made = models.saved(path, MODELS[options.model]())
    print(f"{path.name}: {made['bytes']} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
