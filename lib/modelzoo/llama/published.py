"""The Llamas of MLPerf: what their checkpoints and the rules say, one value for each.

The engine's Python reads this module too, so it imports no array.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlperf import catalog
from modelzoo.llama.size import HALF, LlamaSize


@dataclass(frozen=True, slots=True)
class PublishedLlama:
    """A model that a benchmark of the catalogue names.

    ``checkpoint`` is its name in env keys and files. ``splitting`` is llama.cpp's name of the
    pattern that splits a text into words, empty for a tokenizer of sentence pieces. ``begin`` and
    ``ends`` are special tokens. An answer has at most ``most_tokens``, a prompt ``longest_prompt``.
    ``page`` is where MLCommons lets its members in.
    """

    benchmark: str
    checkpoint: str
    size: LlamaSize
    revision: str
    splitting: str
    begin: int
    ends: tuple[int, ...]
    most_tokens: int
    longest_prompt: int
    page: str

    @property
    def repository(self) -> str:
        """Return where Hugging Face has it."""
        assets = catalog.benchmark(self.benchmark).assets
        return assets.repository if assets else ""

    @property
    def name(self) -> str:
        """Return the name of its checkpoint."""
        return self.repository.rpartition("/")[2]

    def weight_bytes(self, layers: int) -> int:
        """Return the bytes of its weights with so many layers, as float16."""
        return self.size.parameters_of(layers) * HALF


LLAMA2_70B = PublishedLlama(
    benchmark="llama2-70b-99",
    checkpoint="llama2",
    # Source: config.json of the checkpoint.
    size=LlamaSize(
        vocabulary=32000,
        width=8192,
        inner=28672,
        layers=80,
        heads=64,
        context=4096,
        theta=10000.0,
        scaling=(),
    ),
    # Source: the configuration of a published submission (NVIDIA's, v5.1).
    revision="e9149a12809580e8602995856f8098ce973d1080",
    splitting="",
    begin=1,
    ends=(2,),
    # Source: language/llama2-70b of MLPerf's reference implementation.
    most_tokens=1024,
    longest_prompt=1024,
    page="https://llama2.mlcommons.org",
)
LLAMA3_8B = PublishedLlama(
    benchmark="llama3.1-8b",
    checkpoint="llama3",
    size=LlamaSize(),
    # Source: README of language/llama3.1-8b of MLPerf's reference implementation.
    revision="be673f326cab4cd22ccfef76109faf68e41aa5f1",
    splitting="llama-bpe",
    begin=128000,
    ends=(128001, 128008, 128009),
    most_tokens=128,
    # The reference cuts none; the longest has about so many tokens.
    longest_prompt=2048,
    page="https://llama3-1.mlcommons.org",
)
PUBLISHED = {model.checkpoint: model for model in (LLAMA2_70B, LLAMA3_8B)}
