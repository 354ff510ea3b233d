"""The worker of a connection: prompts out, streamed answers in, and the times of all."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from serving.bench.load import Failure, Record, Sender
from serving.http_client import Steps

from .answers import StreamedAnswer, answer_steps
from .connection import EndpointConnection
from .faults import EndpointFault
from .prompts import EndpointPrompt, RequestBuilder

PAUSE = 0
"""What a worker yields in place of an event of its socket, to be resumed after ``PAUSE_S``."""


@dataclass(slots=True)
class StreamRecord(Record):
    """The times of answered requests, in ns, and their tokens, in the order of ``done``.

    ``first`` and ``last`` are when the first and the last token came; ``gaps`` the ns between
    events with tokens, of all requests together.
    """

    first: array[int] = field(default_factory=lambda: array("q"))
    last: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("q"))
    input_tokens: array[int] = field(default_factory=lambda: array("q"))
    hidden: array[int] = field(default_factory=lambda: array("q"))
    gaps: array[int] = field(default_factory=lambda: array("q"))
    finishes: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, answer: StreamedAnswer) -> None:
        """Add the tokens of a complete answer."""
        self.first.append(answer.first)
        self.last.append(answer.last)
        self.tokens.append(answer.tokens)
        self.input_tokens.append(answer.input_tokens)
        self.hidden.append(answer.hidden_tokens)
        self.gaps.extend(answer.gaps)
        self.finishes[answer.finish] += 1
        self.counts.update(_counts(answer))


class StreamWorker(Sender[StreamRecord]):
    """A connection and the conversation that it is in; ``prompts`` are those of all workers."""

    def __init__(
        self,
        connection: EndpointConnection,
        builder: RequestBuilder,
        prompts: Iterator[EndpointPrompt],
    ) -> None:
        self.connection = connection
        self._builder, self._prompts = builder, prompts
        self._turns: Iterator[tuple[bytes, int, StreamedAnswer]] = iter(())

    def new_record(self) -> StreamRecord:
        """Return a record with the times of tokens."""
        return StreamRecord()

    def interrupt(self) -> None:
        """Close the connection."""
        self.connection.interrupt()

    def send_steps(self, due: int, record: StreamRecord) -> Steps[None]:
        """Send the next turn, of the next prompt after the last one; yield PAUSE for a pause."""
        item = next(self._turns, None)
        if item is None:
            self._turns = self._conversation(next(self._prompts))
            item = next(self._turns)
        request, most, answer = item
        start = time.perf_counter_ns()
        try:
            yield from answer_steps(self.connection, request, answer, most)
            done = time.perf_counter_ns()
        except EndpointFault as error:
            self._turns = iter(())
            record.failures.append(Failure(time.perf_counter_ns(), error.kind, str(error)))
            if error.kind in ("refused", "reset") or error.kind.startswith("status-"):
                yield PAUSE
            return
        record.due.append(due)
        record.start.append(start)
        record.done.append(done)
        record.note(answer)

    def _conversation(self, prompt: EndpointPrompt) -> Iterator[tuple[bytes, int, StreamedAnswer]]:
        said: list[str] = []
        salt = ""
        for turn in range(len(prompt.turns)):
            whole = len(prompt.turns) > 1
            if whole and not salt:
                salt = self._builder.new_salt()
            answer = StreamedAnswer(whole=whole)
            yield self._builder.request(prompt, turn, said, salt), prompt.most, answer
            said.append("".join(answer.text))


def _counts(answer: StreamedAnswer) -> dict[str, int]:
    """Return what the figures must be read with: how tokens were counted, and what was cached."""
    counted = answer.usage.get("completion_tokens")
    return {
        "uncounted": counted is None,
        "undercounted": counted is not None and counted < answer.events,
        "at_once": answer.tokens > 1 and answer.first == answer.last,
        "hidden_tokens": answer.hidden_tokens,
        "cached_tokens": answer.cached_tokens,
        "without_done": not answer.done,
        "events": answer.events,
    }
