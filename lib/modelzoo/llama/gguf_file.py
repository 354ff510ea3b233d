"""A Llama as a file that llama.cpp opens, with weights as float16.

Facts, from llama.cpp's description of the format and of its architecture ``llama``: its names of
weights and keys; rows of queries and keys are in the order of neighbours that are rotated together,
where a checkpoint has a head's first halves before its second ones; weights of one row stay
float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from modelzoo.llama.size import LlamaSize
from modelzoo.llama.vocabulary import Vocabulary, scores_of
from modelzoo.program import ProgramError

ARCHITECTURE = "llama"
FILE = "model.gguf"
MOSTLY_FLOAT16 = 1
ENDS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def decimal(value: float) -> float:
    """Return a number of float32 as people write it: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


# The keys of a file, without the architecture before them.
KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "width": ("embedding_length", int),
    "inner": ("feed_forward_length", int),
    "layers": ("block_count", int),
    "heads": ("attention.head_count", int),
    "key_heads": ("attention.head_count_kv", int),
    "context": ("context_length", int),
    "theta": ("rope.freq_base", decimal),
    "epsilon": ("attention.layer_norm_rms_epsilon", decimal),
}
Array = np.ndarray[Any, np.dtype[Any]]


class LlamaWeights(Protocol):
    """A source of weights, which are read once, in the order of ``LlamaSize.shapes``."""

    def array(self, name: str) -> Array:
        """Return the weight of this name, in the checkpoint's shape."""


def gguf_name(name: str) -> str:
    """Return llama.cpp's name of a weight.

    >>> gguf_name("model.layers.3.mlp.up_proj.weight")
    'blk.3.ffn_up.weight'
    """
    stem = name.removesuffix(".weight")
    if stem in ENDS:
        return f"{ENDS[stem]}.weight"
    _, _, layer, end = stem.split(".", 3)
    return f"blk.{layer}.{ENDS[end]}.weight"


def interleaved(rows: Array, heads: int) -> Array:
    """Return rows of queries or keys [heads x width, n] with those that are rotated together."""
    halves = rows.reshape(heads, 2, -1, rows.shape[1])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def apart(rows: Array, heads: int) -> Array:
    """Return rows as a checkpoint has them: the opposite of ``interleaved``."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def heads_of(name: str, size: LlamaSize) -> int:
    """Return the number of heads of a weight whose rows llama.cpp has in another order, or 0."""
    by_part = {"q_proj": size.heads, "k_proj": size.key_heads}
    return next((count for part, count in by_part.items() if f".{part}." in name), 0)


def rotary_factors(size: LlamaSize) -> Array:
    """Return the divisors of the frequencies of the rotary embedding, float32.

    As Llama 3.1 does: long waves are divided by ``factor``, short ones not, and those between by
    a share that follows from their length.
    """
    scaling = dict(size.scaling)
    half = np.arange(0, size.head_width, 2) / size.head_width
    waves = 2 * math.pi * size.theta**half
    turns = scaling["original_max_position_embeddings"] / waves
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    factors: Array = (1 / ((1 - smooth) / scaling["factor"] + smooth)).astype(np.float32)
    return factors


def size_of(metadata: Mapping[str, Any]) -> LlamaSize:
    """Return the shape that the keys of a file describe; raise ProgramError for another network."""
    known = metadata.get("general.architecture")
    if known != ARCHITECTURE:
        raise ProgramError(f"the file describes a {known}, no {ARCHITECTURE}")
    try:
        own = {
            name: number(metadata[f"{ARCHITECTURE}.{key}"]) for name, (key, number) in KEYS.items()
        }
        tokens = len(metadata["tokenizer.ggml.tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProgramError(f"the file does not describe a Llama: {error!r}") from error
    return LlamaSize(vocabulary=tokens, tied=True, scaling=(), **own)


def write(
    weights: LlamaWeights, size: LlamaSize, vocabulary: Vocabulary, path: Path, name: str
) -> None:
    """Write the file; only one weight at a time lies in memory."""
    import gguf

    writer: Any = gguf.GGUFWriter(path, ARCHITECTURE)
    _describe(writer, size, name)
    _spell(writer, vocabulary)
    for weight, shape in size.shapes().items():
        dtype = np.dtype(np.float16 if len(shape) > 1 else np.float32)
        count = math.prod(shape) * dtype.itemsize
        writer.add_tensor_info(gguf_name(weight), shape, dtype, count)
    factors = rotary_factors(size) if size.scaling else None
    if factors is not None:
        writer.add_tensor_info("rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for array in _ordered(weights, size):
        writer.write_tensor_data(array)
    if factors is not None:
        writer.write_tensor_data(factors)
    writer.close()


def _ordered(weights: LlamaWeights, size: LlamaSize) -> Iterator[Array]:
    for name, shape in size.shapes().items():
        array = weights.array(name)
        heads = heads_of(name, size)
        array = interleaved(array, heads) if heads else array
        dtype = np.float16 if len(shape) > 1 else np.float32
        yield np.ascontiguousarray(array, dtype=dtype)


def _describe(writer: Any, size: LlamaSize, name: str) -> None:
    writer.add_name(name)
    writer.add_file_type(MOSTLY_FLOAT16)
    writer.add_context_length(size.context)
    writer.add_embedding_length(size.width)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.inner)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.key_heads)
    writer.add_layer_norm_rms_eps(size.epsilon)
    writer.add_rope_freq_base(size.theta)
    writer.add_rope_dimension_count(size.head_width)
    writer.add_vocab_size(size.vocabulary)


def _spell(writer: Any, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model("gpt2" if vocabulary.splitting else "llama")
    writer.add_token_list(list(vocabulary.names))
    writer.add_token_types(list(vocabulary.kinds))
    if vocabulary.splitting:
        writer.add_tokenizer_pre(vocabulary.splitting)
        writer.add_token_merges(list(vocabulary.merges))
    else:
        writer.add_token_scores(scores_of(vocabulary))
    writer.add_bos_token_id(vocabulary.begin)
    writer.add_eos_token_id(vocabulary.ends[0])
    writer.add_add_bos_token(vocabulary.adds_begin)
