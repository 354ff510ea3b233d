"""Turn a checkpoint of Whisper, as Hugging Face has it, into the two ONNX graphs of the benchmark.

    python -m modelzoo.whisper.convert --checkpoint DIR --out DIR [--other-size]

Every weight that the network has must be there in its shape, and no other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlperf import catalog
from modelzoo import byte_pairs, models, program
from modelzoo.hugging_face import CheckedWeights, HuggingFaceCheckpoint
from modelzoo.program import ProgramError
from modelzoo.whisper import graphs
from modelzoo.whisper.facts import options_of
from modelzoo.whisper.size import WhisperSize, size_of

NAME = "whisper-large-v3"
# The same as the embedding of the tokens; some files hold it again.
TIED = "proj_out.weight"
# Source: speech2text of MLPerf's reference implementation: its prompt, and max_tokens.
START_WORDS = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
END_WORD = "<|endoftext|>"
MOST_TOKENS = 200


def tokens_of(
    checkpoint: Path, vocabulary: int, starts: Sequence[str] = START_WORDS
) -> tuple[list[str], dict[str, int]]:
    """Return what every token spells (bytes as Latin-1), and the numbers of special ones.

    Raises ProgramError for a tokenizer without the end of a text, or one of ``starts``.
    """
    document: dict[str, Any] = json.loads((checkpoint / "tokenizer.json").read_text("utf-8"))
    special = {entry["content"]: int(entry["id"]) for entry in document["added_tokens"]}
    for word in (*starts, END_WORD):
        if word not in special:
            raise ProgramError(f"{checkpoint / 'tokenizer.json'} has no token {word}")
    pieces = [""] * vocabulary
    for name, number in document["model"]["vocab"].items():
        if name not in special:
            pieces[number] = byte_pairs.piece_of(name)
    return pieces, special


def convert(checkpoint: Path, out: Path, other_size: bool) -> WhisperSize:
    """Read, check and write; return the size.

    Raises ProgramError for another size, or weights that are not those of config.json.
    """
    source = HuggingFaceCheckpoint(checkpoint)
    size, real = size_of(source.config()), WhisperSize()
    if size != real and not other_size:
        raise ProgramError(f"its size is not that of MLPerf's model: {size}")
    pieces, special = tokens_of(checkpoint, size.vocabulary)
    starts = [special[word] for word in START_WORDS]
    (target,) = catalog.benchmark("whisper").accuracy
    options = options_of(out, pieces, starts, special[END_WORD], MOST_TOKENS)
    weights = CheckedWeights(source, size.shapes(), repeated={TIED})
    facts = {
        "name": NAME,
        **graphs.write(weights, size, out),
        "options": {**options, **({} if size == real else models.OTHER_SIZE)},
        "accuracy": models.accuracy(
            target.metric.name, target.unit, target.reference, target.share
        ),
        "source": {"folder": checkpoint.name},
    }
    models.write_facts(out, facts)
    return size


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--other-size", action="store_true", help="accept other widths")
    o = parser.parse_args(arguments)
    return program.run(
        f"convert: {o.checkpoint}",
        lambda: f"converted: {convert(o.checkpoint, o.out, o.other_size)}",
    )


if __name__ == "__main__":
    sys.exit(main())
