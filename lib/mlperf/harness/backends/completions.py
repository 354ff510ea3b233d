"""Tokens out of a completion route over HTTP: a stream of events with the numbers of tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from serving.endpoint.connection import EndpointConnection
from serving.endpoint.faults import EndpointFault

from ..errors import OTHER_MODEL, OTHER_TOKENIZER, HarnessError
from .base import Array
from .generation import AnswerStream, TokenGenerator

ANSWER_S = 600.0
CONCURRENCY = (1, 4, 16, 32)
LARGEST_TOKEN = 1 << 31
NO_TOKENS = "no-tokens"
"""The kind of an answer without the numbers of tokens."""


class RequestBody(Protocol):
    """Writes the request for a prompt."""

    def __call__(self, prompt: list[int], most: int, streams: bool) -> Mapping[str, Any]:
        """Return a greedy request of ``most`` tokens, as one answer or in events."""


class AnswerCheck(Protocol):
    """Looks at a whole answer to a prompt."""

    def __call__(self, data: bytes, prompt: int, most: int, tokens: Sequence[int]) -> None:
        """Raise EndpointFault unless ``data`` is the answer to ``prompt`` tokens, all of it."""


def pass_all(data: bytes, prompt: int, most: int, tokens: Sequence[int]) -> None:
    """See ``AnswerCheck``: the server is one that was started here."""


@dataclass(frozen=True, slots=True)
class CompletionRoute:
    """A route and its answers: ``tokens`` finds their numbers, ``last`` ends a stream of events.

    ``hints`` are the next steps after failures, by their kind.
    """

    server: str
    path: str
    tokens: re.Pattern[bytes]
    last: re.Pattern[bytes]
    body: RequestBody
    check: AnswerCheck = pass_all
    hints: Mapping[str, str] = field(default_factory=dict)


class CompletionClient(TokenGenerator):
    """A connection with one request in flight, for a model with these ``options``.

    ``owner`` is kept as long as the connection is.
    """

    def __init__(
        self,
        connection: EndpointConnection,
        route: CompletionRoute,
        options: Mapping[str, Any],
        owner: object = None,
    ) -> None:
        self._route = route
        self._stops = stops_of(options)
        self._vocabulary = int(options.get("vocabulary", 0))
        self._owner = owner
        self._connection = connection

    def generate(self, prompts: Sequence[Array], stream: AnswerStream) -> None:
        """See ``generation.TokenGenerator``."""
        for row, prompt in enumerate(prompts):
            self._answer(row, prompt, stream)

    def _answer(self, row: int, prompt: Array, stream: AnswerStream) -> None:
        route, streams = self._route, stream.first_is_timed
        body = json.dumps(route.body(prompt.tolist(), stream.most, streams)).encode()
        parts: list[bytes] = []
        is_begun = False

        def feed(_: int, data: bytes) -> None:
            nonlocal is_begun
            parts.append(data)
            if is_begun:
                return
            if match := route.tokens.search(b"".join(parts)):
                is_begun = True
                stream.begin((row,), _numbers(match)[:1])

        try:
            self._connection.exchange(
                self._connection.request_head(route.path, len(body)) + body, feed
            )
            data = b"".join(parts)
            tokens = self._read(data)
            route.check(data, len(prompt), stream.most, tokens)
            if not is_begun:
                text = f"it answered without the numbers of tokens: {data[:80]!r}"
                raise EndpointFault(NO_TOKENS, text)
        except EndpointFault as error:
            fault = self._connection.without_secrets(error)
            hint = route.hints.get(fault.kind, route.hints.get("", ""))
            raise HarnessError(f"{route.server}: {fault}", hint) from None
        if streams and not route.last.search(data):
            raise HarnessError(f"{route.server} ended an answer before its last event")
        self._require_known(tokens)
        stream.end(row, self._ended(tokens))

    def _read(self, data: bytes) -> list[int]:
        """Return the tokens of all events."""
        if b'"truncated":true' in data:
            raise HarnessError(f"{self._route.server} cut a prompt that is too long", OTHER_MODEL)
        return [token for match in self._route.tokens.finditer(data) for token in _numbers(match)]

    def _require_known(self, tokens: Sequence[int]) -> None:
        """Raise HarnessError for a token that the model of the benchmark has not."""
        largest = max(tokens)
        if self._vocabulary and largest >= self._vocabulary:
            raise HarnessError(
                f"{self._route.server} answered with token {largest}, the model of the benchmark "
                f"knows {self._vocabulary}: another model is served",
                OTHER_TOKENIZER,
            )

    def _ended(self, tokens: list[int]) -> list[int]:
        """Return the tokens up to and with the first that ends an answer."""
        end = next((n for n, token in enumerate(tokens) if token in self._stops), len(tokens))
        return tokens[: end + 1]


def _numbers(match: re.Match[bytes]) -> list[int]:
    """Return the numbers of an event; raise EndpointFault for what no vocabulary has."""
    words = match[1].split(b",")
    numbers = [int(word) for word in words if len(word) < 20 and word.strip()]
    if len(numbers) < len(words) or max(numbers) >= LARGEST_TOKEN:
        raise EndpointFault("protocol", f"these are no numbers of tokens: {match[1][:60]!r}")
    return numbers


def stops_of(options: Mapping[str, Any]) -> frozenset[int]:
    """Return the tokens that end an answer, by the options of a model."""
    return frozenset(map(int, options.get("stop_token_ids", ())))
