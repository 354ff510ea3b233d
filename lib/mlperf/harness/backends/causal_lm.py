"""Hugging Face's transformers: the classes of the models' authors, which are the oracle of answers.

Prompts of one length go through the model together, without padding; a token is the likeliest one,
and the cache grows with every one. Keys and values have the number format of the weights.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import weight_files

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, ModelSpec
from .base import Array, Backend, Layout
from .completions import stops_of
from .generation import TOKEN, AnswerStream, TokenGenerator

CONFIG = "config.json"
NUMBER_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def of_one_length(prompts: Sequence[Array]) -> Iterator[list[int]]:
    """Yield the rows of the prompts that are equally long, in the order of the first of each."""
    rows_of: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        rows_of.setdefault(len(prompt), []).append(row)
    yield from rows_of.values()


class CausalGenerator(TokenGenerator):
    """A worker with a network that all workers share. ``stops`` end an answer."""

    def __init__(self, network: Any, stops: frozenset[int]) -> None:
        self._network = network
        self._stops = np.asarray(sorted(stops), dtype=TOKEN)

    def generate(self, prompts: Sequence[Array], stream: AnswerStream) -> None:
        """See ``generation.TokenGenerator``."""
        import torch

        with torch.inference_mode():
            for rows in of_one_length(prompts):
                self._answer(rows, np.stack([prompts[row] for row in rows]), stream)

    def _answer(self, rows: Sequence[int], prompts: Array, stream: AnswerStream) -> None:
        """Answer prompts [n, t] of one length; who has ended is computed until all have."""
        import torch

        tokens = np.empty((len(rows), stream.most), dtype=TOKEN)
        has_ended = np.zeros(len(rows), dtype=bool)
        feed, cache = torch.from_numpy(prompts.astype(TOKEN)), None
        for place in range(stream.most):
            out = self._network(
                input_ids=feed, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            feed, cache = out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values
            tokens[:, place] = feed[:, 0].numpy()
            if place == 0:
                stream.begin(rows, tokens[:, 0])
            is_last = np.isin(tokens[:, place], self._stops) | (place == stream.most - 1)
            for row in np.flatnonzero(is_last & ~has_ended).tolist():
                stream.end(rows[row], tokens[row, : place + 1])
            has_ended |= is_last
            if has_ended.all():
                return


class Transformers(Backend):
    """The ``transformers`` backend."""

    largest_batch = 32
    library_bytes = 700_000_000

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[CausalGenerator]:
        """See ``base.Backend``: all workers share one network, and the threads of PyTorch."""
        import torch

        folder = Path(graph.path).parent
        if not (folder / CONFIG).is_file():
            raise HarnessError(f"{folder} has no {CONFIG}", OTHER_MODEL)
        torch.set_num_threads(workers * threads)
        network = _network(folder, getattr(torch, self.setup.precision))
        stops = stops_of(graph.options)
        return [CausalGenerator(network, stops) for _ in range(workers)]

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {name: importlib.metadata.version(name) for name in ("transformers", "torch")}

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: prompts are joined in batches, not by workers."""
        return [(workers or 1, threads or max(1, cores // (workers or 1)))]

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``."""
        return 1

    def weight_bytes(self, model: ModelSpec) -> int:
        """See ``base.Backend``: the facts of a checkpoint name its configuration alone."""
        return weight_files.bytes_as(Path(model.path).parent, NUMBER_BYTES[self.setup.precision])

    def work_bytes(self, own: int) -> int:
        """See ``base.Backend``: a benchmark counts keys and values as float16."""
        return own * NUMBER_BYTES[self.setup.precision] // 2


def _network(folder: Path, dtype: Any) -> Any:
    """Return the network of a folder in Hugging Face's layout."""
    from transformers import AutoModelForCausalLM

    try:
        loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise HarnessError(f"transformers cannot open {folder}: {reason}", OTHER_MODEL) from error
    return loaded.eval()
