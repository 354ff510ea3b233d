"""Any server with the API of OpenAI: prompts go to it by the numbers of their tokens.

Answers are logged, counted and judged by numbers too, so the server has to give them: vLLM and
SGLang do in ``token_ids`` when they are requested. What it caches between prompts is its owner's
to turn off.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from common.problems import Problem
from serving.endpoint import connection, keys
from serving.endpoint.answers import StreamedAnswer
from serving.endpoint.connection import EndpointConnection, parse_address
from serving.endpoint.faults import EndpointFault

from ..errors import HarnessError
from ..settings import GraphSpec, ModelSpec, Setup
from .base import Backend, Layout
from .completions import CONCURRENCY, NO_TOKENS, CompletionClient, CompletionRoute, stops_of

KEY_HINT = (
    f"put it into the environment as {keys.KEY}, or name another variable or a file: "
    "--backend_options=api_key_env=NAME or api_key_file=FILE"
)
URL_HINT = "--url=http://HOST:PORT/v1"
TOKENS = re.compile(rb'"token_ids"\s*:\s*\[([\d,\s]+)\]')
LAST = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)
TOKENS_HINT = (
    "the server must give token_ids where return_token_ids is set, as vLLM 0.10.2 and later do; "
    "for a GGUF file use --backend=llamacpp"
)
FIRST_S = 30.0
WAIT_HINT = "run with fewer requests in flight, or on a server that is not in use by others"
LOG_HINT = (
    "read the log of the server, and answer one prompt with `cm run script --tags=bench,endpoint`"
)
HINTS = {
    "": LOG_HINT,
    NO_TOKENS: TOKENS_HINT,
    "timeout": "--backend_options=timeout=SECONDS",
    "refused": URL_HINT,
    "tls": URL_HINT,
    "status-401": KEY_HINT,
    "status-403": KEY_HINT,
    "status-404": "is the model's name right? --backend_options=model=NAME",
    "status-429": WAIT_HINT,
    "status-503": WAIT_HINT,
    "too-short": "serve the model with a longer context (max_model_len of vLLM)",
}
"""What to do next, by the kind of a failure."""


class OpenAi(Backend):
    """A server of somebody else's, which has one model of the benchmark."""

    largest_batch = 1

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        url = str(setup.options["url"])
        if not url:
            raise HarnessError("openai has no server to send prompts to", URL_HINT)
        self._address = parse_address(url)
        try:
            named = (str(setup.options["api_key_env"]), str(setup.options["api_key_file"]))
            self._headers = keys.authorization(*named)
        except Problem as problem:
            raise HarnessError(str(problem), KEY_HINT) from problem
        self._model = str(setup.options["model"]) or self._only_model()

    def _only_model(self) -> str:
        try:
            names = list(connection.models(self._connection(FIRST_S)))
        except EndpointFault as error:
            hint = HINTS.get(error.kind, URL_HINT)
            raise HarnessError(f"{self._address}: {error}", hint) from error
        if len(names) != 1:
            text = f"{self._address} serves {len(names)} models: {', '.join(names) or 'none'}"
            raise HarnessError(text, "--backend_options=model=NAME")
        return names[0]

    def _connection(self, timeout: float) -> EndpointConnection:
        return EndpointConnection(self._address, timeout=timeout, headers=self._headers)

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[CompletionClient]:
        """See ``base.Backend``: a connection for each worker; the model's file is not read."""

        def body(prompt: list[int], most: int, streams: bool) -> Mapping[str, Any]:
            return {
                "model": self._model,
                "prompt": prompt,
                "max_tokens": most,
                "temperature": 0,
                "stream": streams,
                "return_token_ids": True,
                **({"stream_options": {"include_usage": True}} if streams else {}),
            }

        stops = stops_of(graph.options)

        def check(data: bytes, prompt: int, most: int, tokens: Sequence[int]) -> None:
            require_whole(data, prompt, most, tokens, stops)

        route = CompletionRoute(
            *(str(self._address), "/completions", TOKENS, LAST),
            *(body, check, HINTS),
        )
        timeout = float(self.setup.options["timeout"])
        return [
            CompletionClient(self._connection(timeout), route, graph.options)
            for _ in range(workers)
        ]

    def versions(self) -> dict[str, str]:
        """There is no library behind it; the server's is not known."""
        return {}

    def computed_by(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {"server": str(self._address), "model": self._model}

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: numbers of requests in flight."""
        return [(count, 1) for count in ((workers,) if workers else CONCURRENCY)]

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """See ``base.Backend``."""
        return (1,)

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``."""
        return 0

    def weight_bytes(self, model: ModelSpec) -> int:
        """See ``base.Backend``: they are the server's."""
        return 0

    def work_bytes(self, own: int) -> int:
        """See ``base.Backend``: keys and values are the server's too."""
        return 0


def require_whole(
    data: bytes, prompt: int, most: int, tokens: Sequence[int], stops: Container[int]
) -> None:
    """Raise EndpointFault unless an answer is complete, and one to the whole prompt.

    ``data`` is a stream of events, or one document. Servers cut prompts and answers to their own
    limits, and answer nevertheless.
    """
    answer = StreamedAnswer()
    is_stream = data.lstrip()[:1] != b"{"
    answer.feed(1, data if is_stream else b"data: %b\n\n" % data.replace(b"\n", b" "))
    answer.require_complete(most)
    if answer.input_tokens not in (0, prompt):
        text = f"{prompt} tokens were sent, and the server counts {answer.input_tokens}"
        raise EndpointFault("too-short", f"{text}: it cuts prompts, or adds to them")
    # An end token may be counted and not sent.
    if tokens and answer.tokens > len(tokens) + 1 and answer.usage:
        text = f"the numbers of {len(tokens)} tokens came, and usage counts {answer.tokens}"
        raise EndpointFault("protocol", text)
    is_ended = any(token in stops for token in tokens)
    if answer.finish == "length" and tokens and len(tokens) < most and not is_ended:
        text = f"the server ended an answer after {len(tokens)} of {most} tokens"
        raise EndpointFault("too-short", text)
