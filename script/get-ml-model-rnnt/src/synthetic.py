"""Build MLPerf's transducer with weights out of a seed: as fast as the trained one, and ignorant.

How long decoding takes depends on how many letters are written. Speech has about 14 letters a
second, that is one in a state of the encoder (60 ms); the blank's score is set so that noise gives
about as many.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import graphs
import numpy as np

SEED = 7
# Found once by trial, on the synthetic sounds.
BLANK_SCORE = 6.7
# Strong enough that each letter and each state moves the scores all the time, as in speech.
STRENGTH = 3.0


def weights(size: graphs.Size) -> dict[str, graphs.Array]:
    """Random weights under which the memories never come to rest."""
    generator = np.random.default_rng(SEED)
    found = {}
    for name, shape in graphs.shapes(size).items():
        array = generator.standard_normal(shape, dtype=np.float32)
        scale = 0.01 if len(shape) == 1 else shape[1] ** -0.5
        found[name] = array * np.float32(STRENGTH * scale)
    found[f"{graphs.SCORES}.bias"][graphs.BLANK] += BLANK_SCORE
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write the graphs and model.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    out: Path = parser.parse_args(arguments).out
    size = graphs.Size()
    nothing = {"metric": "word accuracy", "unit": "%", "reference": 0.0, "target": 0.0}
    graphs.write(weights(size), size, "rnnt_synthetic", out, accuracy=nothing)
    print("a transducer without knowledge written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
