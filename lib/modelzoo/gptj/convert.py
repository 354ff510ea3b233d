"""Turn a checkpoint of GPT-J into the ONNX graph of the benchmark.

    python -m modelzoo.gptj.convert --checkpoint DIR --out DIR [--other-size]

Every weight that the network has must be there in its shape, and no other. Weights are read and
written one at a time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from modelzoo import models, program
from modelzoo.gptj import decoder
from modelzoo.hugging_face import CheckedWeights, HuggingFaceCheckpoint
from modelzoo.program import ProgramError

KEYS = {
    "vocabulary": "vocab_size",
    "width": "n_embd",
    "heads": "n_head",
    "layers": "n_layer",
    "rotary": "rotary_dim",
    "places": "n_positions",
    "epsilon": "layer_norm_epsilon",
}
END_OF_TEXT = 50256


def size_of(config: dict[str, Any]) -> decoder.Size:
    """The size that config.json speaks of; raises ProgramError for another network."""
    if config.get("model_type") != "gptj":
        raise ProgramError(f"config.json is of a {config.get('model_type')}, not of a gptj")
    if config.get("activation_function", "gelu_new") != "gelu_new":
        raise ProgramError(f"activation {config['activation_function']} is not supported")
    lacking = [key for key in KEYS.values() if key not in config]
    if lacking:
        raise ProgramError(f"config.json has no {', '.join(lacking)}")
    inner = config.get("n_inner") or 4 * config["n_embd"]
    return decoder.Size(inner=inner, **{name: config[key] for name, key in KEYS.items()})


def convert(folder: Path, out: Path, other_size: bool) -> decoder.Size:
    """Read, check and write; returns the size.

    Raises ProgramError for another size, or weights that are not those of config.json.
    """
    source = HuggingFaceCheckpoint(folder)
    config = source.config()
    size = size_of(config)
    real = decoder.Size(vocabulary=size.vocabulary)
    if size != real and not other_size:
        raise ProgramError(f"its size is not that of MLPerf's model: {size}")
    other = {} if size == real else models.OTHER_SIZE
    end = int(config.get("eos_token_id", END_OF_TEXT))
    if not 0 <= end < size.vocabulary:
        raise ProgramError(f"eos_token_id {end} is none of {size.vocabulary} tokens")
    decoder.write(
        CheckedWeights(source, decoder.shapes(size)),
        size,
        out,
        {
            "name": "gptj_cnndm",
            "options": {**decoder.options(end, end), **other},
            "accuracy": decoder.accuracy(),
            "source": {"folder": folder.name},
        },
    )
    return size


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--other-size", action="store_true", help="accept other widths")
    options = parser.parse_args(arguments)
    return program.run(
        f"convert: {options.checkpoint}",
        lambda: f"converted: {convert(options.checkpoint, options.out, options.other_size)}",
    )


if __name__ == "__main__":
    sys.exit(main())
