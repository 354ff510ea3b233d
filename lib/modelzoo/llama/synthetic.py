"""Write a Llama 3.1 8B with random weights: as fast as the trained one.

    python -m modelzoo.llama.synthetic --layers N --out DIR

With fewer layers than the real one has, its name says so. Its tokens are numbers without a text.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from modelzoo import models, program
from modelzoo.byte_pairs import BEGIN
from modelzoo.llama import folder, gguf_file
from modelzoo.llama.gguf_file import Array
from modelzoo.llama.size import LlamaSize
from modelzoo.llama.vocabulary import NORMAL, Vocabulary

SEED = 7
BEGIN_TOKEN, END_TOKENS = 128000, (128001, 128008, 128009)
MOST_TOKENS = 128


class RandomLlamaWeights:
    """Random weights that keep values about as large as they are."""

    def __init__(self, size: LlamaSize) -> None:
        self._shapes = size.shapes()
        self._names = list(self._shapes)

    def array(self, name: str) -> Array:
        """See ``LlamaWeights``."""
        shape = self._shapes[name]
        if len(shape) == 1:
            return np.ones(shape, dtype=np.float32)
        # A weight is the same whichever was read before it.
        generator = np.random.default_rng([SEED, self._names.index(name)])
        weight: Array = generator.standard_normal(shape, dtype=np.float32)
        weight *= np.float32(shape[-1] ** -0.5)
        return weight


def nameless(size: LlamaSize) -> Vocabulary:
    """Return a vocabulary of as many tokens as the real one has, without merges."""
    names = [f"t{number}" for number in range(size.vocabulary)]
    names[BEGIN_TOKEN] = BEGIN
    return Vocabulary(names, [NORMAL] * len(names), ["t 0"], "gpt-2", BEGIN_TOKEN, END_TOKENS)


def main(arguments: list[str] | None = None) -> int:
    """Write the files and model.json."""
    real = LlamaSize()
    model = program.parse_synthetic(__doc__, "llama3", real.layers, arguments)
    size, name, out = replace(real, layers=model.layers), model.name, model.out
    weights = RandomLlamaWeights(size)
    gguf_file.write(weights, size, nameless(size), out / folder.GGUF, name)
    facts = folder.describe(out, folder.GGUF, name, size, END_TOKENS, MOST_TOKENS, **model.reduced)
    models.write_facts(out, {**facts, "accuracy": models.accuracy("ROUGE-1", "")})
    print(f"a Llama of {size.layers} layers with random weights written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
