"""Streams as servers send them: however reads cut them, the same comes out."""

from __future__ import annotations

import contextlib
import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoint_lab import as_sse, finish, role, token, usage
from serving.endpoint import answers
from serving.endpoint.answers import StreamedAnswer
from serving.endpoint.faults import EndpointFault, next_step, read_json

PLAIN = (role(), token("one "), token("two "), finish(), usage(2))


def stream(*events: Any, end: str = "[DONE]") -> bytes:
    return b"".join(map(as_sse, events)) + (as_sse(end) if end else b"")


def taken(data: bytes, cuts: list[int] | None = None, *, whole: bool = True) -> StreamedAnswer:
    """The answer of a stream whose reads are cut at ``cuts``, at the moments 1, 2, 3 ..."""
    answer = StreamedAnswer(whole=whole)
    bounds = [0, *sorted(cuts or []), len(data)]
    for moment, (start, end) in enumerate(itertools.pairwise(bounds), 1):
        answer.feed(moment, data[start:end])
    return answer


@given(st.lists(st.integers(0, 400), max_size=8), st.booleans(), st.booleans())
def test_reads_may_cut_a_stream_anywhere(cuts: list[int], whole: bool, windows: bool) -> None:
    data = stream(*PLAIN)
    data = data.replace(b"\n", b"\r\n") if windows else data
    answer = taken(data, [cut for cut in cuts if cut < len(data)], whole=whole)
    answer.require_complete(2)
    assert (answer.tokens, answer.events, answer.finish) == (2, 2, "length")
    assert len(answer.gaps) == 1
    assert "".join(answer.text) == ("one two " if whole else "")


def test_the_first_token_is_not_the_event_that_names_a_role() -> None:
    first = as_sse(role())
    answer = taken(first + stream(*PLAIN[1:]), [len(first)])
    assert answer.first == 2


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"tool_calls": [{"index": 0}]},
        {"content": "x"},
    ],
)
def test_each_kind_of_output_is_a_token(delta: dict[str, Any]) -> None:
    answer = taken(stream({"choices": [{"delta": delta}]}, finish()))
    assert (answer.events, answer.first) == (1, 1)


def test_the_text_of_the_older_route_is_read() -> None:
    events = ({"choices": [{"text": "a", "token_ids": [1, 2]}]}, finish("stop"))
    answer = taken(stream(*events))
    assert (answer.text, answer.ids, answer.tokens) == (["a"], 2, 2)


def test_several_tokens_in_one_event_are_counted_by_usage() -> None:
    answer = taken(stream(token("one two three "), finish(), usage(3)))
    assert (answer.events, answer.tokens) == (1, 3)


def test_comments_and_fields_between_events_are_passed_over() -> None:
    data = b": ping\n\nevent: message\ndata: " + as_sse(token("a"))[6:] + stream(finish())
    assert taken(data).events == 1


def test_events_of_one_read_share_their_moment() -> None:
    answer = taken(stream(*PLAIN))
    assert list(answer.gaps) == [0]
    assert answer.first == answer.last == 1


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (stream(role(), token("a"), end=""), "cut-off"),
        (stream(role(), finish(), end="") + b'data: {"cho', "cut-off"),
        (stream(role(), finish("stop")), "empty"),
        (stream(token("a"), finish(), finish()), "protocol"),
        (stream(token("a"), token("b"), token("c"), finish(), usage(3)), "too-long"),
        (b"data: {nonsense\n\n", "protocol"),
        (b"data: [1]\n\n", "protocol"),
        (stream({"error": {"message": "no memory"}}), "server-error"),
        (stream({"object": "error", "message": "engine died"}), "server-error"),
        (stream(token("a")) + b"event: error\ndata: it broke\n\n", "server-error"),
        (stream(token("a"), end="") + b'error: {"message": "slot died"}\n\n', "server-error"),
        (stream(token("a"), finish("abort")), "server-error"),
        (b"<html>sorry</html>", "protocol"),
        (b"<html>sorry</html>\n\n", "protocol"),
        (stream(token("a"), finish(), token("b")), "protocol"),
        (stream(token("a"), finish(), usage(1)) + stream(token("b")), "protocol"),
        (stream({"choices": [{"text": "a"}, {"text": "b"}]}), "protocol"),
        (stream({"choices": [{"index": 1, "text": "a"}]}), "protocol"),
        (as_sse('{"choices": ' + "[" * 100_000), "protocol"),
        *((stream(token("a"), finish(), usage(n)), "protocol") for n in (-5, 0, True, 10**30)),
        (stream(token("a"), finish(), usage(1, prompt=10**30)), "protocol"),
    ],
)
def test_what_is_no_answer_is_a_failure(data: bytes, kind: str) -> None:
    for whole in (False, True):
        with pytest.raises(EndpointFault) as caught:
            taken(data, whole=whole).require_complete(2)
        assert caught.value.kind == kind
        assert caught.value.hint == next_step(kind) or "/v1" in caught.value.hint


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    assert taken(b"\xef\xbb\xbf" + stream(*PLAIN[1:])).events == 2


def test_tokens_of_hidden_reasoning_are_known() -> None:
    counts = usage(8)
    counts["usage"]["completion_tokens_details"] = {"reasoning_tokens": 6}
    assert taken(stream(token("a"), finish(), counts)).hidden_tokens == 6
    shown = {"choices": [{"delta": {"reasoning_content": "hm"}}]}
    assert taken(stream(shown, token("a"), finish(), counts)).hidden_tokens == 0


def test_no_more_tokens_are_cached_than_came() -> None:
    read = StreamedAnswer()
    read.feed(1, stream(token("a"), finish(), usage(1, prompt=9, cached=10**6)))
    assert read.cached_tokens == 9


def test_cached_tokens_are_read_from_usage_and_from_llama_cpp() -> None:
    assert taken(stream(token("a"), finish(), usage(1, 9, 8))).cached_tokens == 8
    assert taken(stream(token("a"), finish() | {"timings": {"cache_n": 5}})).cached_tokens == 5


@given(st.binary(max_size=200))
def test_no_bytes_end_in_another_exception(data: bytes) -> None:
    with contextlib.suppress(EndpointFault):
        taken(data, whole=False).require_complete(0)


def chunk(place: int, choice: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An event with what servers put around a choice; some of it changes on the way."""
    head = {"id": f"chatcmpl-{place // 7}", "created": 1 + place // 5, "model": "tiny"}
    return {**head, "choices": [{"index": 0, **choice, "logprobs": None}], **more}


TEXT = st.one_of(
    st.sampled_from(
        ["a", "one ", "content", "choices", "index", ":", ",", "", "\u00e9", "\U0001f600"]
    ),
    st.text(max_size=4),
)
CHOICES = st.one_of(
    TEXT.map(lambda text: {"delta": {"content": text}, "finish_reason": None}),
    TEXT.map(lambda text: {"delta": {"content": text}}),
    TEXT.map(lambda text: {"text": text}),
    TEXT.map(lambda text: {"delta": {"content": text}, "text": text}),
    TEXT.map(lambda text: {"delta": {"reasoning_content": text}}),
    TEXT.map(lambda text: {"delta": {"content": text, "role": "assistant"}}),
    TEXT.map(lambda text: {"delta": {"content": text, "tool_calls": [{"index": 0}]}}),
    TEXT.map(lambda text: {"delta": {"content": text}, "token_ids": [len(text)]}),
    TEXT.map(lambda text: {"delta": {"content": text}, "top": [{"content": text, "text": "a"}]}),
    st.just({"delta": {}, "finish_reason": "length"}),
    st.just({"delta": {"content": "a"}, "finish_reason": "stop"}),
    st.just({"delta": {"content": "a"}, "index": 1}),
)
MORE = st.sampled_from(
    [{}, {}, {}, {"usage": None}, {"usage": {}}, {"usage": {"completion_tokens": 3}},
     {"timings": {"cache_n": 4}}, {"error": None}, {"error": "no memory"}]
)  # fmt: skip
FRAMES = (
    b"data: %b\n\n",
    b"data:%b\n\n",
    b": ping\n\ndata: %b\n\n",
    b"id: 1\ndata: %b\nretry: 5\n\n",
    b"event: message\ndata: %b\n\n",
    b"data: %b\n\n\n",
)


@dataclass(frozen=True)
class Style:
    """How one server writes its events."""

    ascii: bool
    spaced: bool
    frame: bytes
    escapes: bool

    def write(self, event: dict[str, Any]) -> bytes:
        separators = (", ", ": ") if self.spaced else (",", ":")
        text = json.dumps(event, ensure_ascii=self.ascii, separators=separators)
        # The same text, in other bytes.
        text = text.replace('"a"', '"\\u0061"') if self.escapes else text
        return self.frame % text.encode("utf-8", "surrogatepass")


STYLES = st.builds(Style, st.booleans(), st.booleans(), st.sampled_from(FRAMES), st.booleans())


@st.composite
def reads(draw: st.DrawFn) -> list[bytes]:
    """The reads of a stream: runs of like events, damaged here and there, and cut anywhere."""
    style, events = draw(STYLES), []
    for _ in range(draw(st.integers(1, 4))):
        choice, more = draw(CHOICES), draw(MORE)
        for text in draw(st.lists(TEXT, min_size=1, max_size=6)):
            delta = choice.get("delta")
            varied = {**choice, "delta": {**delta, "content": text}} if delta else choice
            varied = {**choice, "text": text} if "text" in choice else varied
            events.append(style.write(chunk(len(events), varied, **more)))
    data = b"".join(events) + draw(st.sampled_from([b"", b"data: [DONE]\n\n"]))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(data)))
        damage = draw(
            st.one_of(st.binary(max_size=2), st.sampled_from([b"\n", b'"', b"\n\n", b"}"]))
        )
        data = data[:place] + damage + data[place + draw(st.integers(0, 2)) :]
    if draw(st.booleans()):
        data = data.replace(b"\n", b"\r\n")
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]


def outcome(pieces: list[bytes], whole: bool) -> tuple[Any, ...]:
    """All that a stream has left, or how it failed."""
    answer, fault = StreamedAnswer(whole=whole), ""
    try:
        for moment, piece in enumerate(pieces, 1):
            answer.feed(moment, piece)
        answer.require_complete(0)
    except EndpointFault as error:
        fault = f"{error.kind} {error} {error.hint}"
    names = [name for name in StreamedAnswer.__slots__ if name != "forms"]
    return fault, answer.forms.rest, *(getattr(answer, name) for name in names)


@given(reads(), st.booleans())
def test_events_that_are_not_parsed_say_what_they_would_say(
    pieces: list[bytes], whole: bool
) -> None:
    fast = outcome(pieces, whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "MOST_TEMPLATES", 0)
        assert outcome(pieces, whole) == fast


@pytest.mark.parametrize("text", ["word ", "\u00e9t\u00e9", "\U0001f600"])
@pytest.mark.parametrize("at_once", [False, True])
def test_of_like_events_few_are_parsed(
    text: str, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []

    def read(data: bytes) -> Any:
        parsed.append(data)
        return read_json(data)

    monkeypatch.setattr(answers, "read_json", read)
    style = Style(ascii=False, spaced=False, frame=FRAMES[0], escapes=False)
    event = chunk(0, {"delta": {"content": text}, "finish_reason": None})
    events = [style.write(event)] * 100 + [as_sse(finish())]
    answer = StreamedAnswer()
    for piece in [b"".join(events)] if at_once else events:
        answer.feed(1, piece)
    assert (answer.events, answer.finish, len(parsed)) == (100, "length", 3)
