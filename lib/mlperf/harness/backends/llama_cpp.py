"""llama.cpp: its server runs in the process of a run, and is asked for tokens by their numbers.

Its own completion route gives the tokens of every event, which the route of OpenAI's API and the
callback of the binding leave out. A worker is one slot of the server: the prompts of all workers go
through the model together as they come and end. Nothing is cached between prompts, as the rules
demand.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serving.endpoint.connection import EndpointAddress, EndpointConnection, EndpointFault

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec
from .base import Array, Backend, Layout
from .generation import AnswerStream, TokenGenerator

PACKAGE = "xllamacpp"
MAGIC = b"GGUF"
HOST, ROUTE = "127.0.0.1", "/completion"
ANSWER_S = 600.0
# The tokens of an event; one event may hold several.
TOKENS = re.compile(rb'"tokens":\[([\d,]+)\]')
FIELDS = ["tokens", "stop", "stop_type", "truncated"]
# llama.cpp gives each slot a multiple of this.
SLOT_TOKENS = 256
CONCURRENCY = (1, 4, 16, 32)


class LlamaCpp(Backend):
    """The CPU backend for language models in files of the format GGUF."""

    largest_batch = 1
    library_bytes = 400_000_000

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[TokenGenerator]:
        """See ``base.Backend``: one server with a slot for each worker."""
        _require_gguf(Path(graph.path))
        is_exact = self.setup.options["kv_cache"] == "float32"
        server = _server(graph, workers, threads, is_exact)
        stops = frozenset(map(int, graph.options.get("stop_token_ids", ())))
        return [LlamaSlot(server, stops) for _ in range(workers)]

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


class LlamaSlot(TokenGenerator):
    """A connection to a server, which is kept as long as one of its slots is."""

    def __init__(self, server: Any, stops: frozenset[int]) -> None:
        address = urlsplit(server.listening_address)
        where = EndpointAddress("http", HOST, address.port or 0, "")
        self._server = server
        self._stops = stops
        self._connection = EndpointConnection(where, timeout=ANSWER_S)

    def generate(self, prompts: Sequence[Array], stream: AnswerStream) -> None:
        """See ``generation.TokenGenerator``."""
        for row, prompt in enumerate(prompts):
            self._answer(row, prompt, stream)

    def _answer(self, row: int, prompt: Array, stream: AnswerStream) -> None:
        body = json.dumps(
            {
                "prompt": prompt.tolist(),
                "n_predict": stream.most,
                "temperature": 0,
                "stream": stream.first_is_timed,
                "return_tokens": True,
                "cache_prompt": False,
                "response_fields": FIELDS,
            }
        ).encode()
        parts: list[bytes] = []
        is_begun = False

        def feed(_: int, data: bytes) -> None:
            nonlocal is_begun
            parts.append(data)
            if is_begun:
                return
            if match := TOKENS.search(b"".join(parts)):
                is_begun = True
                stream.begin((row,), [int(match[1].partition(b",")[0])])

        try:
            request = self._connection.request_head(ROUTE, len(body)) + body
            self._connection.exchange(request, feed)
        except EndpointFault as error:
            raise HarnessError(f"llama.cpp: {error}", error.hint) from error
        answer = self._read(b"".join(parts))
        if not is_begun:
            raise HarnessError("llama.cpp answered without a token", OTHER_MODEL)
        stream.end(row, answer)

    def _read(self, data: bytes) -> list[int]:
        """Return the tokens of all events, up to and with the first that ends an answer."""
        if b'"truncated":true' in data:
            raise HarnessError("llama.cpp cut a prompt that is too long", OTHER_MODEL)
        tokens = [int(word) for match in TOKENS.finditer(data) for word in match[1].split(b",")]
        end = next((n for n, token in enumerate(tokens) if token in self._stops), len(tokens))
        return tokens[: end + 1]


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
