"""Build the full 3-D U-Net for brains with random weights: as fast as the trained one.

Scores come out of every level on the way up; those of the finest are the answer. Names are those
of MLPerf's ONNX file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from modelzoo import models, program
from modelzoo.graph import value
from modelzoo.unet import OPSET, WIDTHS, UNetGraph

MODEL_FILE = "3dunet_brats_synthetic.onnx"
INPUT_NAME, OUTPUT_NAME = "input", "output"
CHANNELS = CLASSES = 4
WINDOW = (224, 224, 160)
SLOPE = 0.01
SEED = 19


def build(widths: Sequence[int], window: Sequence[int]) -> Any:
    """Return the whole model; sides of the window must be divisible by 2 per level but one."""
    graph = UNetGraph(SEED, CLASSES, SLOPE)
    coarse = graph.layers(INPUT_NAME, CHANNELS, widths)
    graph.name_last(OUTPUT_NAME)
    names = [OUTPUT_NAME, *reversed(coarse[:-1])]
    outputs = [
        value(name, "float32", "N", CLASSES, *(side >> step for side in window))
        for step, name in enumerate(names)
    ]
    volumes = value(INPUT_NAME, "float32", "N", CHANNELS, *window)
    return graph.model("3d-unet", [volumes], outputs, OPSET)


def sizes(text: str) -> tuple[int, ...]:
    """Numbers out of a text such as 224,224,160."""
    return tuple(int(word) for word in text.split(","))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model and model.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--widths", type=sizes, default=WIDTHS, help="features of each level")
    parser.add_argument("--window", type=sizes, default=WINDOW, help="sides of the window")
    options = parser.parse_args(arguments)
    regions = {"whole tumor": [1, 2, 3], "tumor core": [2, 3], "enhancing tumor": [3]}
    facts = {
        "name": "3d_unet_brats_synthetic",
        **models.saved(options.out / MODEL_FILE, build(options.widths, options.window)),
        "precision": "fp32",
        "inputs": [models.tensor(INPUT_NAME, CHANNELS, *options.window)],
        "outputs": [models.tensor(OUTPUT_NAME, CLASSES, *options.window)],
        "options": {"regions": regions, "absent_region": "left out", "windows_per_call": 1},
        "accuracy": models.accuracy("mean DICE", ""),
    }
    models.write_facts(options.out, facts)
    print(f"{facts['bytes']} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
