"""Noise as long as utterances are: for speed, never for accuracy.

LibriSpeech's utterances of up to 15 s are 6 s long in the mean; these are too, and as loud.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from modelzoo import files, program
from modelzoo.preprocessing.librispeech.preprocess import LONGEST_S, RATE, Samples, facts

COUNT = 512
SEED = 7
SHORTEST_S, USUAL_S, SPREAD = 1.5, 5.3, 0.55
LOUDNESS = 1500


def sound(generator: np.random.Generator, seconds: float) -> Samples:
    """Noise that swells as syllables do, four times a second."""
    noise = generator.standard_normal(round(seconds * RATE), dtype=np.float32)
    time = np.arange(len(noise), dtype=np.float32) / RATE
    swell = 0.55 + 0.45 * np.sin(2 * np.pi * (4 * time + generator.random()))
    return (LOUDNESS * noise * swell).clip(-32767, 32767).astype(np.int16)


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--qsl-count", type=int, required=True, help="samples that the rules want")
    options = parser.parse_args(arguments)
    out: Path = options.out
    generator = np.random.default_rng(SEED)
    lengths = generator.lognormal(np.log(USUAL_S), SPREAD, COUNT).clip(SHORTEST_S, LONGEST_S)
    sounds = [sound(generator, seconds) for seconds in sorted(lengths, reverse=True)]
    np.save(out / "samples.npy", np.concatenate(sounds))
    ends = np.cumsum([0, *(len(samples) for samples in sounds)])
    np.save(out / "offsets.npy", ends.astype(np.int64))
    (out / "texts.json").write_text(json.dumps(["noise"] * COUNT) + "\n", encoding="utf-8")
    facts_ = {**facts("librispeech-synthetic", options.qsl_count, 0, out), "seed": SEED}
    files.write_facts(out, facts_)
    print(f"{COUNT} sounds of {facts_['seconds']} s in all written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
