"""Build GPT-J with random weights: as fast as the trained one.

With fewer layers than the real one has, its name says so.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from modelzoo import models, program
from modelzoo.gptj import decoder
from modelzoo.graph import Array

SEED = 7


class RandomGptjWeights:
    """Random weights that keep values about as large as they are."""

    def __init__(self, size: decoder.Size) -> None:
        self._shapes = decoder.shapes(size)
        self._generator = np.random.default_rng(SEED)

    def array(self, name: str) -> Array:
        """See ``decoder.Source``."""
        shape = self._shapes[name]
        if ".ln_" in name:
            return np.full(shape, 1.0 if name.endswith("weight") else 0.0, dtype=np.float32)
        scale = np.float32(0.01 if len(shape) == 1 else shape[-1] ** -0.5)
        weight = self._generator.standard_normal(shape, dtype=np.float32)
        weight *= scale
        return weight


def main(arguments: list[str] | None = None) -> int:
    """Write the graph and model.json."""
    real = decoder.Size()
    model = program.parse_synthetic(__doc__, "gptj", real.layers, arguments)
    size = replace(real, layers=model.layers)
    end = 50256
    facts = {
        "name": model.name,
        "options": {**decoder.options(end, end), **model.reduced},
        "accuracy": models.accuracy("ROUGE-1", ""),
    }
    decoder.write(RandomGptjWeights(size), size, model.out, facts)
    print(f"a GPT-J of {size.layers} layers with random weights written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
