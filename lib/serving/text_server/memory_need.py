"""The memory that a model needs: its weights, and the keys and values of the tokens in flight."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from common import weight_files

from . import gguf_header
from .settings import TextServerSettings

NUMBER_BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
# What engines keep keys and values in unless they are told otherwise.
HALF = 2
PATIENCE_S = 10.0
MEMORY_OF_GPUS = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")


def weight_bytes(settings: TextServerSettings) -> int:
    """Return the bytes of the weights in the number format that they are served in."""
    path = Path(settings.model)
    if path.is_dir():
        return weight_files.bytes_as(path, NUMBER_BYTES.get(settings.dtype))
    return path.stat().st_size


def cache_bytes(settings: TextServerSettings) -> int:
    """Return the least bytes of keys and values with which the server starts.

    0 where the network is another than one whose layers keep the keys of all tokens.
    """
    path = Path(settings.model)
    token_bytes = _of_config(path) if path.is_dir() else _of_gguf(path)
    requests = {"all": settings.slots, "one": 1, "none": 0}[settings.kind.keeps_room_for]
    return token_bytes * settings.context * requests


def _of_config(folder: Path) -> int:
    """Return the bytes of a token by ``config.json``."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        heads = int(config["num_attention_heads"])
        width = config.get("head_dim") or int(config["hidden_size"]) // heads
        keys = int(config.get("num_key_value_heads") or heads)
        # Layers that see a window of tokens, or keep something shorter instead.
        if any(config.get(name) for name in ("sliding_window", "kv_lora_rank", "layer_types")):
            return 0
        number_bytes = NUMBER_BYTES.get(str(config.get("dtype") or config.get("torch_dtype")), HALF)
        return 2 * int(config["num_hidden_layers"]) * keys * int(width) * number_bytes
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        return 0


def _of_gguf(path: Path) -> int:
    """Return the bytes of a token by the header of a file."""
    facts = gguf_header.read(path)
    own = {
        key.partition(".")[2]: value
        for key, value in facts.items()
        if key.startswith(f"{facts.get('general.architecture')}.")
    }
    if any("sliding_window" in key or "lora" in key or key.startswith("ssm") for key in own):
        return 0
    try:
        heads, layers = int(own["attention.head_count"]), int(own["block_count"])
        width = int(own["embedding_length"]) // heads
        keys = own.get("attention.head_count_kv", heads)
        all_keys = sum(map(int, keys)) if isinstance(keys, list) else layers * int(keys)
        widths = (own.get(f"attention.{name}_length", width) for name in ("key", "value"))
        return all_keys * sum(map(int, widths)) * HALF
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return 0


def gpu_bytes() -> int | None:
    """Return the memory of the largest of NVIDIA's GPUs; None where it is not known."""
    try:
        answer = subprocess.run(
            MEMORY_OF_GPUS, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    sizes = [int(line) << 20 for line in answer.stdout.split() if line.isdigit()]
    return max(sizes, default=None)
