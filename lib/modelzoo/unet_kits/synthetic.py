"""Build the full 3-D U-Net for kidneys with random weights: as fast as the trained one.

Names and shapes are those of MLPerf's ONNX file, and so is its size (125 MB).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from modelzoo import models, program
from modelzoo.graph import value
from modelzoo.unet import OPSET, WIDTHS, UNetGraph

MODEL_FILE = "3d-unet_synthetic.onnx"
INPUT_NAME, OUTPUT_NAME = "input", "output"
SIDE, CLASSES = 128, 3
SEED = 23


def build(widths: Sequence[int] = WIDTHS, side: int = SIDE) -> Any:
    """Return the whole model; the side must be divisible by 2 per level but one."""
    graph = UNetGraph(SEED, CLASSES)
    graph.layers(INPUT_NAME, 1, widths)
    graph.name_last(OUTPUT_NAME)
    volumes = value(INPUT_NAME, "float32", "N", 1, side, side, side)
    scores = value(OUTPUT_NAME, "float32", "N", CLASSES, side, side, side)
    return graph.model("3d-unet", [volumes], [scores], OPSET)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model."""
    options = program.parser(__doc__).parse_args(arguments)
    made = models.saved(options.out / MODEL_FILE, build())
    print(f"{MODEL_FILE}: {made['bytes']} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
