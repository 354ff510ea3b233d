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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from serving.http_client import Steps, complete

from .connection import EndpointConnection
from .faults import API_HINT, EndpointFault, error_text, read_json

REASONING = ("reasoning_content", "reasoning")
TEXTS = ("content", *REASONING, "refusal")
LONGEST_EVENT = 1 << 22
MOST_COUNTED = 1 << 31
STREAM = "text/event-stream"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FAILED = frozenset(("error", "abort", "aborted", "cancelled", "canceled"))
"""Reasons to finish by which a server says that it has not."""
LITERAL = bytes({*range(0x20, 0x100)} - set(b'"\\'))
"""Bytes that mean themselves within a JSON string."""
MOST_TEMPLATES = 8
"""Forms of events that are learned in a row without an event of such a form."""


@dataclass(frozen=True, slots=True)
class EventTemplate:
    """The bytes around the text of an event whose text is all that it adds.

    An event with the same bytes around another text is not parsed: that would take most of the
    client's time.
    """

    prefix: bytes
    suffix: bytes
    joint: bytes

    @classmethod
    def learn(cls, event: bytes, text: str, read: Callable[[bytes], bytes]) -> EventTemplate | None:
        """Return the form of an event that ``text`` was read of; None where it adds more.

        ``read`` returns the data of an event. The text is where another one in its place is read
        as that text.
        """
        literal = b'"%b"' % text.encode("utf-8", "surrogatepass")
        if not text or literal[1:-1].translate(None, LITERAL) or event.count(literal) != 1:
            return None
        before, _, after = event.partition(literal)
        prefix, suffix = before + b'"', b'"' + after + b"\n\n"
        try:
            document = read_json(read(prefix + literal[1:-1] + b"~" + suffix[:-2]))
        except ValueError:
            return None
        if _only_text(document) != text + "~":
            return None
        return cls(prefix, suffix, suffix + prefix)

    def split(self, block: bytes) -> tuple[list[bytes], bytes]:
        """Return the texts of the events of this form that ``block`` begins with, and the rest.

        A text that is not plain may hold further events.
        """
        *bodies, last = block[len(self.prefix) :].split(self.joint)
        body, ended, rest = last.partition(self.suffix)
        return ([*bodies, body], rest) if ended else (bodies, self.prefix + last)


@dataclass(slots=True)
class EventForms:
    """The bytes that the next read continues, and the form of events that are not parsed.

    ``text`` is that of the last event that was parsed.
    """

    rest: bytes = b""
    template: EventTemplate | None = None
    text: str = ""
    fruitless: int = 0

    def take(self, data: bytes) -> bytes:
        """Return the whole events of a read, with its lines ended by LF; raise EndpointFault."""
        data = self.rest + data if self.rest else data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        end = data.rfind(b"\n\n") + 2
        block, self.rest = (data[:end], data[end:]) if end > 1 else (b"", data)
        if len(self.rest) > LONGEST_EVENT:
            raise EndpointFault("protocol", "an event has no end")
        return block

    def learn(self, event: bytes, read: Callable[[bytes], bytes]) -> None:
        """Learn the form of an event that was parsed, unless too many were learned for nothing."""
        if self.text and self.fruitless < MOST_TEMPLATES:
            self.fruitless += 1
            self.template = EventTemplate.learn(event, self.text, read)


@dataclass(slots=True)
class StreamedAnswer:
    """What one stream has brought so far; moments in ns of ``perf_counter_ns``, 0 for not yet.

    ``events`` counts those with tokens, ``ids`` the token ids that the server sent along. ``gaps``
    are ns between events with tokens; events of one read share their moment. ``usage`` is the
    server's own count, ``timings`` what llama.cpp adds to it. ``text`` is only kept with ``whole``.
    ``reasons`` is whether text of its reasoning
    came, ``strange`` the first line that is none of a stream of events.
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
    forms: EventForms = field(default_factory=EventForms)

    def feed(self, now: int, data: bytes) -> None:
        """Take the bytes of a read; raise EndpointFault unless it is a stream of the API."""
        block = self.forms.take(data)
        if block and (count := self._read_block(block)):
            self._note(now, count)

    def _read_block(self, block: bytes) -> int:
        """Read whole events; return how many have tokens."""
        count = 0
        while block:
            template = self.forms.template
            if template and block.startswith(template.prefix):
                more, block = self._read_alike(template, block)
                count += more
            if not block:
                break
            event, _, block = block.partition(b"\n\n")
            count += self._read_event(event)
        return count

    def _read_alike(self, template: EventTemplate, block: bytes) -> tuple[int, bytes]:
        """Read the events of one form; return how many have tokens, and what follows them."""
        bodies, rest = template.split(block)
        parts = [bodies] if _are_plain(bodies) else [[body] for body in bodies]
        count = sum(self._read_bodies(template, part) for part in parts)
        self.forms.fruitless = 0 if count else self.forms.fruitless
        return count, rest

    def _read_bodies(self, template: EventTemplate, bodies: Sequence[bytes]) -> int:
        """Read the texts of events of one form; return how many have tokens."""
        if not self.finishes and _are_plain(bodies):
            texts = [body for body in bodies if body]
            if self.whole:
                self.text += [text.decode("utf-8", "surrogatepass") for text in texts]
            return len(texts)
        events = b"".join(template.prefix + body + template.suffix for body in bodies)
        return sum(self._read(self._data(event)) for event in events.split(b"\n\n")[:-1])

    def _read_event(self, event: bytes) -> int:
        """Read one event, and learn its form if it has tokens; return 1 if it has."""
        self.forms.text = ""
        count = self._read(self._data(event))
        self.forms.learn(event, self._data)
        return count

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
        self.forms.text = text = _text_of(choice, delta)
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
        if self.forms.rest.strip():
            raise EndpointFault(
                "cut-off", f"the stream ends within an event: {self.forms.rest[:40]!r}"
            )
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
        strange = self.strange or (
            b"" if self.forms.rest.startswith(b"data") else self.forms.rest.strip()
        )
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
        """Return how many input tokens the server says it took from its cache, all at most."""
        details = self.usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        cached = _count(details.get("cached_tokens") or self.timings.get("cache_n"))
        return min(cached, self.input_tokens) if self.input_tokens else cached


def request_answer(
    connection: EndpointConnection, request: bytes, answer: StreamedAnswer, most: int
) -> None:
    """Send ``request`` and read its stream into ``answer``, which then is complete.

    Raises EndpointFault, without the secrets of the request.
    """
    complete(answer_steps(connection, request, answer, most))


def answer_steps(
    connection: EndpointConnection, request: bytes, answer: StreamedAnswer, most: int
) -> Steps[None]:
    """Do as ``request_answer`` does, in steps."""
    try:
        head = yield from connection.exchange_steps(request, answer.feed)
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
    """Return a count of tokens out of an answer; 0 for anything else."""
    return value if isinstance(value, int) and _is_count(value) else 0


def _text_of(choice: Mapping[str, Any], delta: Mapping[str, Any]) -> str:
    words = [delta.get(key) for key in TEXTS] + [choice.get("text")]
    return "".join(word for word in words if isinstance(word, str))


def _only_text(document: Any) -> str:
    """Return the text of an event that adds nothing else; empty for another."""
    choices = document.get("choices") if isinstance(document, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return ""
    delta = choice.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    counts = (document.get("usage"), document.get("timings"))
    more = (choice.get("finish_reason"), choice.get("token_ids"), delta.get("token_ids"))
    if any((*more, delta.get("tool_calls"))) or any(isinstance(each, dict) for each in counts):
        return ""
    return _text_of(choice, delta)


def _are_plain(bodies: Sequence[bytes]) -> bool:
    """Return whether the bytes between the quotes of JSON strings are their texts."""
    text = b"".join(bodies)
    if text.translate(None, LITERAL):
        return False
    try:
        # One by one: a character that is cut in two is none.
        return text.isascii() or all(
            body.decode("utf-8", "surrogatepass") for body in bodies if body
        )
    except UnicodeDecodeError:
        return False
