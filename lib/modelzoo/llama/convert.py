"""Turn a checkpoint of a Llama into what an engine opens.

    python -m modelzoo.llama.convert --model llama3 --checkpoint DIR --framework gguf --out DIR

For ``gguf`` every weight that the network has must be there in its shape, and no other; weights are
read and written one at a time. For ``pytorch`` the checkpoint stays as it is. Targets are those of
the model's benchmark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mlperf import catalog
from modelzoo import models, program, tokenizer_files
from modelzoo.checkpoint import check_names, check_shape
from modelzoo.hugging_face import HuggingFaceCheckpoint
from modelzoo.llama import folder, gguf_file, vocabulary
from modelzoo.llama.gguf_file import Array
from modelzoo.llama.published import PUBLISHED, PublishedLlama
from modelzoo.llama.size import CONFIG, LlamaSize, read_size
from modelzoo.program import ProgramError


class CheckedLlamaWeights:
    """The weights of a checkpoint; those with another shape than the network's are refused."""

    def __init__(self, source: HuggingFaceCheckpoint, size: LlamaSize) -> None:
        self._source, self._shapes = source, size.shapes()
        names = source.names()
        # Some files hold the output layer again where it is the embedding.
        check_names(names - {"lm_head.weight"} if size.tied else names, self._shapes)

    def array(self, name: str) -> Array:
        """See ``LlamaWeights``."""
        weight = self._source.array(name)
        check_shape(name, weight.shape, self._shapes[name])
        return weight


def special_tokens(checkpoint: Path, size: LlamaSize) -> tuple[int, tuple[int, ...]]:
    """Return the token of the beginning, and those of an end; raise ProgramError without them."""
    config = json.loads((checkpoint / CONFIG).read_text(encoding="utf-8"))
    generation = checkpoint / "generation_config.json"
    if generation.is_file():
        config |= json.loads(generation.read_text(encoding="utf-8"))
    begin, ends = config.get("bos_token_id"), config.get("eos_token_id")
    ends = [ends] if isinstance(ends, int) else ends
    if not isinstance(begin, int) or not ends:
        raise ProgramError(f"{checkpoint / CONFIG} names no tokens of beginning and end")
    if not all(0 <= token < size.vocabulary for token in (begin, *ends)):
        raise ProgramError(f"{checkpoint / CONFIG}: there are only {size.vocabulary} tokens")
    return begin, tuple(ends)


def convert(
    model: PublishedLlama, checkpoint: Path, out: Path, framework: str, other_size: bool
) -> LlamaSize:
    """Read, check and write; return the size.

    Raises ProgramError for another size, or weights that are not those of config.json.
    """
    size = read_size(checkpoint)
    if size != model.size and not other_size:
        raise ProgramError(f"its size is not that of MLPerf's model: {size}")
    begin, ends = special_tokens(checkpoint, size)
    if framework == "gguf":
        tokens = vocabulary.read(checkpoint, size.vocabulary, model.splitting, begin, ends)
        weights = CheckedLlamaWeights(HuggingFaceCheckpoint(checkpoint), size)
        gguf_file.write(weights, size, tokens, out / folder.GGUF, model.benchmark)
        file, described = folder.GGUF, models.MODEL_FACTS
    else:
        file, described = CONFIG, folder.FACTS[folder.SAFETENSORS]
        # Facts of a checkpoint that was made here would be written through their link.
        for path in sorted(set(checkpoint.iterdir()) - {checkpoint / described}):
            (out / path.name).symlink_to(path)
    other: dict[str, Any] = {} if size == model.size else dict(models.OTHER_SIZE)
    if tokenizer := tokenizer_files.digest_of(checkpoint):
        other["tokenizer"] = tokenizer
    lengths = folder.AnswerLengths(model.longest_prompt, model.most_tokens)
    facts = folder.describe(out, file, model.benchmark, size, ends, lengths, **other)
    facts |= {"accuracy": accuracy(model.benchmark), "source": {"folder": checkpoint.name}}
    models.write_facts(out, facts, described)
    return size


def accuracy(benchmark: str) -> dict[str, Any]:
    """Return the bounds of the rules."""
    first, *others = [
        models.accuracy(target.metric.name, target.unit, target.reference, target.share)
        for target in catalog.benchmark(benchmark).accuracy
    ]
    return {**first, "further": others}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--model", choices=list(PUBLISHED), required=True)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--framework", choices=["gguf", "pytorch"], default="gguf")
    parser.add_argument("--other-size", action="store_true", help="accept other widths")
    o = parser.parse_args(arguments)

    def work() -> str:
        model = PUBLISHED[o.model]
        return f"converted: {convert(model, o.checkpoint, o.out, o.framework, o.other_size)}"

    return program.run(f"convert: {o.checkpoint}", work)


if __name__ == "__main__":
    sys.exit(main())
