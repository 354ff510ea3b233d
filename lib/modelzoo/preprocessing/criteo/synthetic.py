"""Random pairs in groups of the rules' size: for speed, never for accuracy.

    python -m modelzoo.preprocessing.criteo.synthetic --sizes FILE --version v1|v2
        [--most-rows N] [--groups N] [--seed N] --qsl-count N --name NAME --out DIR

Some rows of a table are looked up far more often than others, as in real logs: row numbers follow
a power law.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from modelzoo import program
from modelzoo.preprocessing.criteo.preprocess import DENSE, Array, finish

SEED = 7
GROUPS = 512
SMALLEST, LARGEST = 100, 700
POWER = 4


def indices(generator: np.random.Generator, rows: list[int], hot: list[int], pairs: int) -> Array:
    """Row numbers [pairs, values]."""
    indices_ = np.empty((pairs, sum(hot)), dtype=np.int32)
    begin = 0
    for size, many in zip(rows, hot, strict=True):
        share = generator.random((pairs, many)) ** POWER
        indices_[:, begin : begin + many] = np.minimum((share * size).astype(np.int64), size - 1)
        begin += many
    return indices_


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--sizes", type=Path, required=True, help="rows and values of the tables")
    parser.add_argument("--version", choices=("v1", "v2"), required=True, help="of the DLRM")
    parser.add_argument("--most-rows", type=int, default=0, help="cap of each table; 0 for none")
    parser.add_argument("--groups", type=int, default=GROUPS, help="groups to make")
    parser.add_argument("--seed", type=int, default=SEED, help="where the noise begins")
    parser.add_argument("--qsl-count", type=int, required=True, help="samples that the rules want")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    options = parser.parse_args(arguments)
    out: Path = options.out
    known = json.loads(options.sizes.read_text(encoding="utf-8"))[options.version]
    rows = [min(table_rows, options.most_rows or table_rows) for table_rows in known["rows"]]
    generator = np.random.default_rng(options.seed)
    sizes = generator.integers(SMALLEST, LARGEST + 1, options.groups)
    pairs = int(sizes.sum())
    np.save(out / "offsets.npy", np.cumsum([0, *sizes]).astype(np.int64))
    np.save(out / "dense.npy", generator.exponential(2, (pairs, DENSE)).astype(np.float32))
    np.save(out / "labels.npy", (generator.random(pairs) < 0.03).astype(np.float32))
    np.save(out / "indices.npy", indices(generator, rows, known["hot"], pairs))
    more = {"rows": rows, "hot": known["hot"], "seed": options.seed}
    print(finish(out, options.name, options.qsl_count, more))
    return 0


if __name__ == "__main__":
    sys.exit(main())
