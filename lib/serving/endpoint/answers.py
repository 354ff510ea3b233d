"""What the events of a stream say: where tokens begin and end, and how many there were.

The first-token rule: the first token is there at the read that brings the first event with text,
reasoning text, a call of a tool, or token ids that are not empty. An event that only names a role
is none. A server that keeps special tokens to itself looks slower by them; that is so for its
users too.

The server's own counts are believed where they can be true, and nothing after the end of an answer
belongs to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .connection import EndpointConnection
from .faults import API_HINT, EndpointFault, error_text, read_json

TELLING = (
    *(b'"finish_reason":"', b'"finish_reason": "', b'"usage":{', b'"usage": {'),
    *(b'"timings":', b'"error"', b"[DONE]"),
)
"""After the first token only events with one of these say more than that there is another one."""
EVENT = b"\n\ndata: {"
REASONING = ("reasoning_content", "reasoning")
TEXTS = ("content", *REASONING, "refusal")
LONGEST_EVENT = 1 << 22
MOST_COUNTED = 1 << 31
STREAM = "text/event-stream"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FAILED = frozenset(("error", "abort", "aborted", "cancelled", "canceled"))
"""Reasons to finish by which a server says that it has not."""


@dataclass(slots=True)
class StreamedAnswer:
    """What one stream has brought so far; moments in ns of ``perf_counter_ns``, 0 for not yet.

    ``events`` counts those with tokens, ``ids`` the token ids that the server sent along. ``gaps``
    are ns between events with tokens; events of one read share their moment. ``usage`` is the
    server's own count, ``timings`` what llama.cpp adds to it. ``text`` is only kept with ``whole``,
    which reads every event. ``reasons`` is whether text of its reasoning came, ``strange`` the
    first line that is none of a stream of events.
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
    reasons: bool = False
    strange: bytes = b""
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
            if (self.first or count) and not self.whole and not self.finishes:
                plain, place = _plain_events(block, place)
                count += plain
            stop = block.find(b"\n\n", place)
            if stop >= 0:
                count += self._read(self._data(block[place:stop]))
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
            document = read_json(data)
        except ValueError:
            raise EndpointFault("protocol", f"an event is not JSON: {data[:60]!r}") from None
        if not isinstance(document, dict):
            raise EndpointFault("protocol", f"an event is no object: {data[:60]!r}")
        if document.get("error") or document.get("object") == "error":
            raise EndpointFault("server-error", error_text(data)[:300])
        if isinstance(usage := document.get("usage"), dict):
            self.usage = usage
        if isinstance(timings := document.get("timings"), dict):
            self.timings = timings
        choices = document.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return 0
        if len(choices) > 1 or choices[0].get("index") not in (None, 0):
            raise EndpointFault("protocol", "several answers came to one prompt")
        return self._read_choice(choices[0])

    def _read_choice(self, choice: Mapping[str, Any]) -> int:
        delta = choice.get("delta")
        has_token = self._read_tokens(choice, delta if isinstance(delta, dict) else {})
        if has_token and self.finishes:
            raise EndpointFault("protocol", "tokens came after the answer was finished")
        if reason := choice.get("finish_reason"):
            self.finish = str(reason)
            self.finishes += 1
        return int(has_token)

    def _read_tokens(self, choice: Mapping[str, Any], delta: Mapping[str, Any]) -> bool:
        """Take what there is of tokens; return whether there is any."""
        ids = choice.get("token_ids") or delta.get("token_ids")
        self.ids += len(ids) if isinstance(ids, list) else 0
        words = [delta.get(key) for key in TEXTS] + [choice.get("text")]
        text = "".join(word for word in words if isinstance(word, str))
        if self.whole and text:
            self.text.append(text)
        self.reasons = self.reasons or any(delta.get(key) for key in REASONING)
        return bool(text or ids or delta.get("tool_calls"))

    def _data(self, event: bytes) -> bytes:
        """Return the data of an event, which may have several lines, comments or other fields.

        Raises EndpointFault for an event that is an error.
        """
        if event.startswith(b"data: ") and b"\n" not in event:
            return event[6:]
        data, name = [], b""
        for line in event.removeprefix(BYTE_ORDER_MARK).split(b"\n"):
            key, colon, value = line.partition(b":")
            if key == b"data":
                data.append(value.removeprefix(b" "))
            elif key in (b"event", b"error"):
                name = value.strip() if key == b"event" else b"error"
                data += [value] if key == b"error" else []
            elif line and not (colon and key in (b"", b"id", b"retry")):
                self.strange = self.strange or line
        whole = b"\n".join(data)
        if name == b"error" and whole.strip():
            raise EndpointFault("server-error", error_text(whole)[:300])
        return whole

    def require_complete(self, most: int, kind: str = STREAM) -> None:
        """Raise EndpointFault where the stream broke off, was empty, or is longer than allowed.

        ``kind`` is the media type of the response.
        """
        if not (self.first or self.finishes):
            self._require_stream(kind)
        if self.rest.strip():
            raise EndpointFault("cut-off", f"the stream ends within an event: {self.rest[:40]!r}")
        if not self.finish:
            raise EndpointFault("cut-off", "the stream ends without a finish_reason")
        if self.finishes > 1:
            raise EndpointFault("protocol", f"the answer was finished {self.finishes} times")
        if self.finish in FAILED:
            raise EndpointFault("server-error", f"the answer has the finish_reason {self.finish}")
        if not self.first:
            raise EndpointFault("empty", f"no token was answered (finish_reason {self.finish})")
        self._require_counts()
        if most and self.tokens > most:
            raise EndpointFault("too-long", f"{self.tokens} tokens came, {most} were allowed")

    def _require_stream(self, kind: str) -> None:
        """Raise EndpointFault where what came without a token is no stream of events."""
        if kind != STREAM:
            text = f"the answer is {kind or 'of no type'}, not a stream of events"
            raise EndpointFault("protocol", text, API_HINT)
        strange = self.strange or (b"" if self.rest.startswith(b"data") else self.rest.strip())
        if strange:
            text = f"this is no stream of events: {strange[:60]!r}"
            raise EndpointFault("protocol", text, API_HINT)

    def _require_counts(self) -> None:
        """Raise EndpointFault for counts of the server that cannot be."""
        for name, least in (("completion_tokens", 1), ("prompt_tokens", 0)):
            count = self.usage.get(name)
            if count is not None and not (_is_count(count) and count >= least):
                raise EndpointFault("protocol", f"usage has {name} {str(count)[:20]}")

    @property
    def tokens(self) -> int:
        """Return the output tokens: by the server's count, its ids, else one an event."""
        return _count(self.usage.get("completion_tokens")) or self.ids or self.events

    @property
    def hidden_tokens(self) -> int:
        """Return the output tokens that the server thought with, and kept to itself."""
        details = self.usage.get("completion_tokens_details")
        details = details if isinstance(details, dict) else {}
        return 0 if self.reasons else min(_count(details.get("reasoning_tokens")), self.tokens - 1)

    @property
    def input_tokens(self) -> int:
        """Return the input tokens by the server's count; 0 where it has none."""
        return _count(self.usage.get("prompt_tokens"))

    @property
    def cached_tokens(self) -> int:
        """Return how many input tokens the server says it took from its cache."""
        details = self.usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        return _count(details.get("cached_tokens") or self.timings.get("cache_n"))


def request_answer(
    connection: EndpointConnection, request: bytes, answer: StreamedAnswer, most: int
) -> None:
    """Send ``request`` and read its stream into ``answer``, which then is complete.

    Raises EndpointFault, without the secrets of the request.
    """
    try:
        head = connection.exchange(request, answer.feed)
        answer.require_complete(most, head.kind)
    except EndpointFault as error:
        connection.close()
        if error.kind == "timeout" and answer.events:
            text = f"{error}; {answer.events} events with tokens had come"
            error = EndpointFault(error.kind, text, error.hint)
        raise connection.without_secrets(error) from None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_COUNTED


def _count(value: object) -> int:
    """Return a count of tokens out of an answer; 0 for what is none."""
    return value if isinstance(value, int) and _is_count(value) else 0


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
