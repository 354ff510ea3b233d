"""Build DLRM with random weights: as fast as the trained one.

With ``--most-rows`` tables have at most so many rows, and the model's facts say so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from modelzoo import program
from modelzoo.dlrm import recommender
from modelzoo.graph import Piece, blocks
from modelzoo.progress import Progress

SEED = 7


class RandomDlrmWeights:
    """Random weights that keep values about as large as they are."""

    def __init__(self, size: recommender.Size) -> None:
        self._shapes = recommender.shapes(size)
        self._generator = np.random.default_rng(SEED)

    def shape(self, name: str) -> tuple[int, ...]:
        """See ``recommender.Source``."""
        return self._shapes[name]

    def pieces(self, name: str) -> Iterator[Piece]:
        """See ``recommender.Source``."""
        shape = self._shapes[name]
        scale = 0.1 if "emb" in name else 0.01 if len(shape) == 1 else shape[-1] ** -0.5
        for begin, end in blocks(shape):
            part = self._generator.standard_normal((end - begin, *shape[1:]), dtype=np.float32)
            part *= np.float32(scale)
            yield (begin, *(0 for _ in shape[1:])), part


def main(arguments: list[str] | None = None) -> int:
    """Write the graph and model.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--version", choices=("v1", "v2"), required=True, help="of the DLRM")
    parser.add_argument("--most-rows", type=int, default=0, help="cap of each table; 0 for none")
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
    progress = Progress("writing weights", recommender.weight_bytes(capped), "B")
    recommender.write(RandomDlrmWeights(capped), capped, options.out, facts, progress.more)
    print(f"{recommender.weight_bytes(capped)} bytes of random weights written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
