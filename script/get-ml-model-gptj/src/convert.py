"""Turn a checkpoint of GPT-J into the ONNX graph of the benchmark.

    convert.py --checkpoint DIR --out DIR [--other-size]

Every weight that the network has must be there in its shape, and no other. Weights are read and
written one at a time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import decoder
from checkpoint import Checkpoint, CheckpointError

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
    """The size that config.json speaks of; raises CheckpointError for another network."""
    if config.get("model_type") != "gptj":
        raise CheckpointError(f"config.json is of a {config.get('model_type')}, not of a gptj")
    if config.get("activation_function", "gelu_new") != "gelu_new":
        raise CheckpointError(f"activation {config['activation_function']} is not supported")
    lacking = [key for key in KEYS.values() if key not in config]
    if lacking:
        raise CheckpointError(f"config.json has no {', '.join(lacking)}")
    inner = config.get("n_inner") or 4 * config["n_embd"]
    return decoder.Size(inner=inner, **{name: config[key] for name, key in KEYS.items()})


class Checked:
    """The weights of a checkpoint, each refused when its shape is not that of the network."""

    def __init__(self, source: Checkpoint, size: decoder.Size) -> None:
        self._source, self._shapes = source, decoder.shapes(size)
        names = source.names()
        lacking = sorted(set(self._shapes) - names)
        unknown = sorted(names - set(self._shapes))
        if lacking:
            raise CheckpointError(f"no {lacking[0]} in it ({len(lacking)} weights are missing)")
        if unknown:
            raise CheckpointError(f"the network has no {unknown[0]} ({len(unknown)} are unknown)")

    def array(self, name: str) -> decoder.Array:
        """See ``decoder.Source``."""
        found = self._source.array(name)
        if found.shape != self._shapes[name]:
            expected = list(self._shapes[name])
            raise CheckpointError(f"{name} is {list(found.shape)}, expected {expected}")
        return found


def convert(folder: Path, out: Path, other_size: bool) -> decoder.Size:
    """Read, check and write; returns the size."""
    source = Checkpoint(folder)
    config = source.config()
    size = size_of(config)
    real = decoder.Size(vocabulary=size.vocabulary)
    if size != real and not other_size:
        raise CheckpointError(f"its size is not that of MLPerf's model: {size}")
    other = {} if size == real else {"reduced": "another size than that of MLPerf's model"}
    end = int(config.get("eos_token_id", END_OF_TEXT))
    if not 0 <= end < size.vocabulary:
        raise CheckpointError(f"eos_token_id {end} is none of {size.vocabulary} tokens")
    decoder.write(
        Checked(source, size),
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
    """Convert as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--other-size", action="store_true", help="accept other widths")
    options = parser.parse_args(arguments)
    try:
        size = convert(options.checkpoint, options.out, options.other_size)
    except (OSError, ValueError, CheckpointError) as error:
        print(f"convert: {options.checkpoint}: {error}", file=sys.stderr)
        return 1
    print(f"converted: {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
