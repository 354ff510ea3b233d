"""What the events of a stream say: where tokens begin and end, and how many there were.

The first-token rule: the first token is there at the read that brings the first event with text,
reasoning text, a call of a tool, or token ids that are not empty. An event that only names a role
is none. A server that keeps special tokens to itself looks slower by them; that is so for its
users too.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .connection import EndpointFault, error_text

TELLING = (
    *(b'"finish_reason":"', b'"finish_reason": "', b'"usage":{', b'"usage": {'),
    *(b'"timings":', b'"error":', b"[DONE]"),
)
"""After the first token only events with one of these say more than that there is another one."""
EVENT = b"\n\ndata: {"
TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
LONGEST_EVENT = 1 << 22


@dataclass(slots=True)
class StreamedAnswer:
    """What one stream has brought so far; moments in ns of ``perf_counter_ns``, 0 for not yet.

    ``events`` counts those with tokens, ``ids`` the token ids that the server sent along. ``gaps``
    are ns between events with tokens; events of one read share their moment. ``usage`` is the
    server's own count, ``timings`` what llama.cpp adds to it. ``text`` is only kept with ``whole``,
    which reads every event.
    """

    whole: bool = False
    first: int = 0
    last: int = 0
    events: int = 0
    ids: int = 0
    finish: str = ""
    finishes: int = 0
    done: bool = False
    usage: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, Any] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    gaps: array[int] = field(default_factory=lambda: array("q"))
    rest: bytes = b""

    def feed(self, now: int, data: bytes) -> None:
        """Take the bytes of a read; raise EndpointFault for what is no stream of the API."""
        data = self.rest + data if self.rest else data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        end = data.rfind(b"\n\n") + 2
        block, self.rest = (data[:end], data[end:]) if end > 1 else (b"", data)
        if len(self.rest) > LONGEST_EVENT:
            raise EndpointFault("protocol", "an event has no end")
        count = place = 0
        while place < len(block):
            if (self.first or count) and not self.whole:
                plain, place = _plain_events(block, place)
                count += plain
            stop = block.find(b"\n\n", place)
            if stop >= 0:
                count += self._read(_data(block[place:stop]))
                place = stop + 2
        if count:
            self._note(now, count)

    def _note(self, now: int, count: int) -> None:
        """Note ``count`` events with tokens that one read brought."""
        if self.first:
            self.gaps.append(now - self.last)
        else:
            self.first = now
        self.gaps.extend([0] * (count - 1))
        self.events += count
        self.last = now

    def _read(self, data: bytes) -> int:
        """Read one event; return 1 if it has tokens."""
        if not data or data == b"[DONE]":
            self.done = self.done or bool(data)
            return 0
        try:
            document = json.loads(data)
        except ValueError:
            raise EndpointFault("protocol", f"an event is not JSON: {data[:60]!r}") from None
        if not isinstance(document, dict):
            raise EndpointFault("protocol", f"an event is no object: {data[:60]!r}")
        if document.get("error"):
            raise EndpointFault("server-error", error_text(data)[:300])
        if isinstance(usage := document.get("usage"), dict):
            self.usage = usage
        if isinstance(timings := document.get("timings"), dict):
            self.timings = timings
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        return self._read_choice(choice) if isinstance(choice, dict) else 0

    def _read_choice(self, choice: Mapping[str, Any]) -> int:
        if reason := choice.get("finish_reason"):
            self.finish = str(reason)
            self.finishes += 1
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        ids = choice.get("token_ids") or delta.get("token_ids")
        self.ids += len(ids) if isinstance(ids, list) else 0
        words = [delta.get(key) for key in TEXTS] + [choice.get("text")]
        text = "".join(word for word in words if isinstance(word, str))
        if self.whole and text:
            self.text.append(text)
        return int(bool(text or ids or delta.get("tool_calls")))

    def require_complete(self, most: int) -> None:
        """Raise EndpointFault where the stream broke off, was empty, or is longer than allowed."""
        if self.rest.strip():
            raise EndpointFault("cut-off", f"the stream ends within an event: {self.rest[:40]!r}")
        if not self.finish:
            raise EndpointFault("cut-off", "the stream ends without a finish_reason")
        if self.finishes > 1:
            raise EndpointFault("protocol", f"the answer was finished {self.finishes} times")
        if not self.first:
            raise EndpointFault("empty", f"no token was answered (finish_reason {self.finish})")
        if most and self.tokens > most:
            raise EndpointFault("too-long", f"{self.tokens} tokens came, {most} were allowed")

    @property
    def tokens(self) -> int:
        """Return the output tokens: by the server's count, its ids, else one an event."""
        counted = self.usage.get("completion_tokens")
        return counted if isinstance(counted, int) else self.ids or self.events

    @property
    def input_tokens(self) -> int:
        """Return the input tokens by the server's count; 0 where it has none."""
        counted = self.usage.get("prompt_tokens")
        return counted if isinstance(counted, int) else 0

    @property
    def cached_tokens(self) -> int:
        """Return how many input tokens the server says it took from its cache."""
        details = self.usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        counted = details.get("cached_tokens") or self.timings.get("cache_n")
        return counted if isinstance(counted, int) else 0


def _plain_events(block: bytes, place: int) -> tuple[int, int]:
    """Return how many events from ``place`` on have a token and nothing else, and where they end.

    They are not read: that would take most of the client's time.
    """
    end = len(block)
    for words in TELLING:
        if (telling := block.find(words, place, end)) >= 0:
            end = telling
    if end < len(block):
        before = block.rfind(b"\n\n", place, end)
        end = before + 2 if before >= 0 else place
    count = block.count(b"\n\n", place, end)
    first = block.startswith(EVENT[2:], place) and end > place
    if first + block.count(EVENT, place, end) != count:
        return 0, place
    return count, end


def _data(event: bytes) -> bytes:
    """Return the data of an event, which may have several lines, comments or other fields."""
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = [line[5:].lstrip(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)
