"""Write a Llama of MLPerf with random weights: as fast as the trained one.

    python -m modelzoo.llama.synthetic --model llama3 --layers N --out DIR

With fewer layers than the real one has, its name says so. Its tokens are numbers without a text.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np

from modelzoo import models, program
from modelzoo.byte_pairs import BEGIN
from modelzoo.llama import folder, gguf_file
from modelzoo.llama.gguf_file import Array
from modelzoo.llama.published import PUBLISHED, PublishedLlama
from modelzoo.llama.size import LlamaSize
from modelzoo.llama.vocabulary import NORMAL, Vocabulary

SEED = 7


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


def nameless(model: PublishedLlama) -> Vocabulary:
    """Return a vocabulary of as many tokens as the real one has, without merges."""
    names = [f"t{number}" for number in range(model.size.vocabulary)]
    names[model.begin] = BEGIN
    return Vocabulary(names, [NORMAL] * len(names), ["t 0"], "gpt-2", model.begin, model.ends)


def main(arguments: list[str] | None = None) -> int:
    """Write the files and model.json."""
    line = argparse.ArgumentParser(add_help=False)
    line.add_argument("--model", choices=list(PUBLISHED), required=True)
    chosen, others = line.parse_known_args(arguments)
    model = PUBLISHED[chosen.model]
    made = program.parse_synthetic(__doc__, model.checkpoint, model.size.layers, others)
    size, name, out = replace(model.size, layers=made.layers), made.name, made.out
    gguf_file.write(RandomLlamaWeights(size), size, nameless(model), out / folder.GGUF, name)
    lengths = folder.AnswerLengths(model.longest_prompt, model.most_tokens)
    facts = folder.describe(out, folder.GGUF, name, size, model.ends, lengths, **made.reduced)
    models.write_facts(out, {**facts, "accuracy": models.accuracy("ROUGE-1", "")})
    print(f"a Llama of {size.layers} layers with random weights written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
