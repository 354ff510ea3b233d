"""Build MLPerf's transducer with random weights: as fast as the trained one.

How long decoding takes depends on how many letters are written. Speech has about 14 letters a
second, that is one in a state of the encoder (60 ms); the blank's score is set so that noise gives
about as many.
"""

from __future__ import annotations

import sys

import numpy as np

from modelzoo import models, program
from modelzoo.graph import Array
from modelzoo.rnnt import graphs

SEED = 7
# Found once by trial, on the synthetic sounds.
BLANK_SCORE = 6.7
# Strong enough that every letter and state moves the scores all the time, as in speech.
STRENGTH = 3.0


def weights(size: graphs.Size) -> dict[str, Array]:
    """Random weights under which the memories never come to rest.

    Their shapes are those of ``graphs.shapes``.
    """
    generator = np.random.default_rng(SEED)
    arrays = {}
    for name, shape in graphs.shapes(size).items():
        array = generator.standard_normal(shape, dtype=np.float32)
        scale = 0.01 if len(shape) == 1 else shape[1] ** -0.5
        arrays[name] = array * np.float32(STRENGTH * scale)
    arrays[f"{graphs.SCORES}.bias"][graphs.BLANK] += BLANK_SCORE
    return arrays


def main(arguments: list[str] | None = None) -> int:
    """Write the graphs and model.json."""
    options = program.parser(__doc__).parse_args(arguments)
    size = graphs.Size()
    accuracy = models.accuracy("word accuracy", "%")
    graphs.write(weights(size), size, "rnnt_synthetic", options.out, accuracy=accuracy)
    print("a transducer with random weights written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
