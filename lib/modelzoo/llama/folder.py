"""The folder of a Llama: Hugging Face's files, llama.cpp's, and ``model.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.files import replace_text
from modelzoo import models
from modelzoo.llama import gguf_file, vocabulary
from modelzoo.llama import size as sizes
from modelzoo.llama.gguf_file import Array, LlamaWeights
from modelzoo.llama.size import LlamaSize

SAFETENSORS, GGUF = "model.safetensors", gguf_file.FILE
ORACLE = "oracle.npz"
# The facts of the same model by the file that an engine opens.
FACTS = {SAFETENSORS: "model-pytorch.json", GGUF: models.MODEL_FACTS}
FORMATS: Mapping[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}


@dataclass(frozen=True, slots=True)
class AnswerLengths:
    """The longest prompt and the longest answer, in tokens."""

    prompt: int
    answer: int


class ArrayWeights:
    """Weights that lie in memory."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def array(self, name: str) -> Array:
        """Return the weights called ``name``."""
        return self._arrays[name]


def write_config(
    folder: Path, size: LlamaSize, document: Mapping[str, Any], begin: int, ends: list[int]
) -> None:
    """Write the configuration and the tokenizer; ``document`` is ``tokenizer.json``.

    ``begin`` and ``ends`` are the ids of the tokens that begin a text and end one.
    """
    names = {entry["id"]: entry["content"] for entry in document["added_tokens"]}
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": names[begin],
        "eos_token": names[ends[0]],
        "model_max_length": size.context,
        "clean_up_tokenization_spaces": False,
    }
    special = {"bos_token_id": begin, "eos_token_id": ends, "do_sample": False}
    for name, value in (
        (sizes.CONFIG, size.config(begin=begin, ends=ends)),
        ("generation_config.json", special),
        ("tokenizer_config.json", tokenizer),
        (vocabulary.FILE, document),
    ):
        replace_text(folder / name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_safetensors(weights: LlamaWeights, size: LlamaSize, path: Path, dtype: str) -> None:
    """Write the weights as ``dtype`` (F32, F16); only one array at a time is in memory.

    Source: the format's description: a header of JSON, its length before it, then all arrays.
    """
    array_dtype = FORMATS[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, shape in size.shapes().items():
        end = begin + math.prod(shape) * array_dtype.itemsize
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in size.shapes():
            file.write(np.ascontiguousarray(weights.array(name), dtype=array_dtype).tobytes())


def write_oracle(folder: Path, answers: Sequence[Sequence[int]]) -> None:
    """Write ``oracle.npz``: the tokens that the network itself answers to every prompt."""
    offsets = np.cumsum([0, *map(len, answers)]).astype(np.int64)
    np.savez(folder / ORACLE, tokens=np.concatenate(answers).astype(np.int32), offsets=offsets)


def describe(
    folder: Path,
    file: str,
    name: str,
    size: LlamaSize,
    ends: Sequence[int],
    lengths: AnswerLengths,
    **options: Any,
) -> dict[str, Any]:
    """Return the content of ``model.json`` for the weights ``file``, without the accuracy.

    ``ends`` are the tokens that end an answer; ``options`` are further ones for the engine.
    """
    most = lengths.answer
    return {
        "name": name,
        **models.graph_facts(folder / file),
        "precision": "fp32",
        "inputs": [models.tensor("input_ids", -1, dtype="int32")],
        "outputs": [models.tensor("tokens", -1, dtype="int64")],
        "options": {
            "max_new_tokens": most,
            "min_new_tokens": 1,
            "stop_token_ids": list(ends),
            "end_token": ends[0],
            "token_dtype": "int64",
            "vocabulary": size.vocabulary,
            # An engine makes room for all of it, for every prompt in work.
            "context": min(size.context, lengths.prompt + most),
            "token_bytes": size.token_bytes,
            **options,
        },
    }
