"""Random features, as long as those of SQuAD: for speed, never for accuracy.

Lengths follow those of SQuAD's 10833 features: mean 178, median 167, none above 384.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modelzoo import files, program
from modelzoo.preprocessing.squad.preprocess import ARRAYS, Array

COUNT = 1024
LENGTH = 384
VOCABULARY = 30522
SEED = 7


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    out: Path = program.parser(__doc__).parse_args(arguments).out
    generator = np.random.default_rng(SEED)
    lengths = np.clip(generator.lognormal(np.log(167), 0.36, COUNT).round(), 40, LENGTH)
    shown = np.arange(LENGTH)[None, :] < lengths[:, None]
    ids = generator.integers(1000, VOCABULARY, (COUNT, LENGTH)) * shown
    segments = (np.arange(LENGTH)[None, :] >= 14) & shown
    nowhere = np.full((COUNT, LENGTH), -1, dtype=np.int32)
    arrays: dict[str, Array] = {
        "input_ids": ids.astype(np.int64),
        "input_mask": shown.astype(np.int64),
        "segment_ids": segments.astype(np.int64),
        "lengths": lengths.astype(np.int32),
        "examples": np.arange(COUNT, dtype=np.int32),
        "starts": nowhere,
        "ends": nowhere,
        "central": np.zeros((COUNT, LENGTH), dtype=np.bool_),
    }
    for name in ARRAYS:
        np.save(out / f"{name}.npy", arrays[name])
    examples = [{"id": str(number), "context": "", "answers": [""]} for number in range(COUNT)]
    (out / "examples.json").write_text(json.dumps(examples) + "\n", encoding="utf-8")
    names = [*(f"{name}.npy" for name in ARRAYS), "examples.json"]
    facts = {
        "name": "squad-synthetic",
        "count": COUNT,
        "length": LENGTH,
        "files": files.facts_of_files(out, names),
    }
    files.write_facts(out, facts)
    print(f"{COUNT} features of {lengths.mean():.0f} tokens in the mean written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
