"""Write a detector of real shape with random weights: as fast as the trained one.

    python -m modelzoo.detectors.synthetic --model NAME --out DIR

Its detections mean nothing. Their number does: sorting boxes and suppressing overlapping ones
takes part of the time, so the last layers are set such that the images of
modelzoo.preprocessing.openimages.synthetic give about as many candidates as photographs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from modelzoo import models, program


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model."""
    parser = program.parser(__doc__)
    parser.add_argument("--model", required=True, help="which detector, as its module is named")
    options = parser.parse_args(arguments)
    name = options.model.replace("-", "_")
    path = options.out / f"{name}_synthetic.onnx"
    made = models.saved(path, importlib.import_module(f"modelzoo.detectors.{name}").build())
    print(f"{path.name}: {made['bytes']} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
