"""Build DLRM with weights out of a seed: as fast as the trained one, and ignorant.

With ``--most-rows`` tables have at most so many rows, and the model's facts say so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import recommender
from convert import progress
from weights import blocks

SEED = 7


class Random:
    """Random weights that keep values about as large as they are."""

    def __init__(self, size: recommender.Size) -> None:
        self._shapes = recommender.shapes(size)
        self._generator = np.random.default_rng(SEED)

    def shape(self, name: str) -> tuple[int, ...]:
        """See ``recommender.Source``."""
        return self._shapes[name]

    def pieces(self, name: str) -> Iterator[recommender.Piece]:
        """See ``recommender.Source``."""
        shape = self._shapes[name]
        scale = 0.1 if "emb" in name else 0.01 if len(shape) == 1 else shape[-1] ** -0.5
        for begin, end in blocks(shape):
            part = self._generator.standard_normal((end - begin, *shape[1:]), dtype=np.float32)
            part *= np.float32(scale)
            yield (begin, *(0 for _ in shape[1:])), part


def main(arguments: list[str] | None = None) -> int:
    """Write the graph and model.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--version", choices=("v1", "v2"), required=True, help="of the DLRM")
    parser.add_argument("--most-rows", type=int, default=0, help="cap of each table; 0 for none")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    options = parser.parse_args(arguments)
    size = recommender.real(options.version)
    cap = options.most_rows or max(size.rows)
    capped = replace(size, rows=tuple(min(rows, cap) for rows in size.rows))
    cut = capped != size
    name = f"dlrm_{options.version}_synthetic"
    rows = f"{sum(capped.rows)} of {sum(size.rows)} rows, at most {cap} in a table"
    facts = {
        "name": f"{name}_{cap}_rows" if cut else name,
        "options": {"reduced": rows} if cut else {},
        "accuracy": recommender.accuracy(0.0),
    }
    tell = progress(recommender.weight_bytes(capped))
    recommender.write(Random(capped), capped, options.out, facts, tell)
    print(f"{recommender.weight_bytes(capped)} bytes of weights without knowledge written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
