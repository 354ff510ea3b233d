"""llama.cpp: its server runs in the process of a run, and is asked for tokens by their numbers.

Its own completion route gives the tokens of every event, which the route of OpenAI's API and the
callback of the binding leave out. A worker is one slot of the server: the prompts of all workers go
through the model together as they come and end. Nothing is cached between prompts, as the rules
demand.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serving.endpoint.connection import EndpointAddress, EndpointConnection

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec
from .base import Backend, Layout
from .completions import ANSWER_S, CONCURRENCY, NO_TOKENS, CompletionClient, CompletionRoute

PACKAGE = "xllamacpp"
MAGIC = b"GGUF"
HOST = "127.0.0.1"
FIELDS = ["tokens", "stop", "stop_type", "truncated"]
# llama.cpp gives each slot a multiple of this.
SLOT_TOKENS = 256


class LlamaCpp(Backend):
    """The CPU backend for language models in files of the format GGUF."""

    largest_batch = 1
    library_bytes = 400_000_000

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[CompletionClient]:
        """See ``base.Backend``: one server with a slot for each worker."""
        _require_gguf(Path(graph.path))
        is_exact = self.setup.options["kv_cache"] == "float32"
        server = _server(graph, workers, threads, is_exact)
        port = urlsplit(server.listening_address).port or 0
        address = EndpointAddress("http", HOST, port, "")
        return [
            CompletionClient(
                EndpointConnection(address, timeout=ANSWER_S), COMPLETION, graph.options, server
            )
            for _ in range(workers)
        ]

    def versions(self) -> dict[str, str]:
        """Version of the package, which carries llama.cpp."""
        return {"llamacpp": importlib.metadata.version(PACKAGE)}

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: all workers share the threads of the server."""
        counts = (workers,) if workers else CONCURRENCY
        return [(count, threads or cores) for count in counts]

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``."""
        return 1

    def work_bytes(self, own: int) -> int:
        """See ``base.Backend``: a benchmark counts keys and values as float16."""
        return 2 * own if self.setup.options["kv_cache"] == "float32" else own


def _body(prompt: list[int], most: int, streams: bool) -> Mapping[str, Any]:
    return {
        "prompt": prompt,
        "n_predict": most,
        "temperature": 0,
        "stream": streams,
        "return_tokens": True,
        "cache_prompt": False,
        "response_fields": FIELDS,
    }


# One event may hold several tokens.
TOKENS = re.compile(rb'"tokens":\[([\d,]+)\]')
LAST = re.compile(rb'"stop":true')
HINTS = {NO_TOKENS: OTHER_MODEL}
COMPLETION = CompletionRoute("llama.cpp", "/completion", TOKENS, LAST, _body, hints=HINTS)


def _server(graph: GraphSpec, slots: int, threads: int, is_exact: bool) -> Any:
    """Return llama.cpp's server, which listens to this machine alone."""
    from xllamacpp import CommonParams, Server, ggml_type

    made = CommonParams()
    made.model.path = graph.path
    made.hostnames, made.port = [HOST], 0
    made.n_parallel = slots
    context = int(graph.options["context"])
    made.n_ctx = slots * -(-context // SLOT_TOKENS) * SLOT_TOKENS
    made.cont_batching = True
    made.cache_prompt, made.cache_ram_mib = False, 0
    made.ui, made.verbosity = False, -1
    made.cpuparams.n_threads = made.cpuparams_batch.n_threads = threads
    if is_exact:
        made.cache_type_k = made.cache_type_v = ggml_type.GGML_TYPE_F32
    try:
        return Server(made)
    except Exception as error:
        raise HarnessError(f"llama.cpp cannot open {graph.path}: {error}", OTHER_MODEL) from error


def _require_gguf(path: Path) -> None:
    """Raise HarnessError where a file is no model of llama.cpp's, which would end the process."""
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}", OTHER_MODEL) from error
    if start != MAGIC:
        raise HarnessError(f"{path} is no model in the format GGUF", OTHER_MODEL)
