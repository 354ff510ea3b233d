"""HTTP as servers speak it: chunks, lengths, closed connections, refusals."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.problems import Problem
from endpoint_lab import answer, endpoint
from serving import http_client
from serving.endpoint.connection import (
    EndpointConnection,
    models,
    parse_address,
)
from serving.endpoint.faults import EndpointFault
from serving.http_client import READ, ChunkDecoder, HttpFault
from support import HANG_S

BODY = b"a" * 5 + b"b" * 17 + b"\r\n\r\n" + b"c"
CHUNKED = b"5\r\naaaaa\r\n11;x=y\r\n" + b"b" * 17 + b"\r\n5\r\n\r\n\r\nc\r\n0\r\nX: y\r\n\r\nrest"


@given(st.lists(st.integers(0, len(CHUNKED)), max_size=10))
def test_chunks_may_be_cut_anywhere(cuts: list[int]) -> None:
    decoder, payload = ChunkDecoder(), b""
    bounds = [0, *sorted(cuts), len(CHUNKED)]
    rest = b""
    for start, end in itertools.pairwise(bounds):
        piece = CHUNKED[start:end]
        if decoder.ended:
            rest += piece
        else:
            payload += decoder.decode(piece)
    assert payload == BODY
    assert decoder.rest + rest == b"rest"


def decoded(pieces: list[bytes]) -> tuple[bytes, bool, bytes, str]:
    """The payload of reads, whether it ended, its rest, and how it failed."""
    decoder, payload = ChunkDecoder(), b""
    try:
        for piece in pieces:
            if decoder.ended:
                break
            payload += decoder.decode(piece)
    except HttpFault as fault:
        return b"", False, b"", str(fault)
    return payload, decoder.ended, decoder.rest, ""


SIZES = st.sampled_from([b"%x", b"%X", b"0%x", b"%x;x=y", b"%x "])
CHUNKS = st.builds(
    lambda size, data: size % len(data) + b"\r\n" + data + b"\r\n",
    SIZES,
    st.one_of(st.sampled_from([b"a" * 10, b"a\r\nb", b"\r\n", b"1\r\na"]), st.binary(max_size=20)),
)


@given(
    st.lists(CHUNKS, max_size=8),
    st.booleans(),
    st.lists(st.integers(0, 200), max_size=4),
    st.one_of(st.none(), st.tuples(st.integers(0, 99), st.sampled_from([b"", b"\r\n", b"f"]))),
)
def test_chunks_that_are_read_together_say_what_they_would_one_by_one(
    chunks: list[bytes], ends: bool, cuts: list[int], damage: tuple[int, bytes] | None
) -> None:
    data = b"".join(chunks) + b"0\r\n\r\n" * ends
    if damage:
        data = data[: damage[0]] + damage[1] + data[damage[0] + 1 :]
    pieces = [data[start:end] for start, end in itertools.pairwise([0, *sorted(cuts), len(data)])]
    together = decoded(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_client, "_plain_chunks", lambda _: ([], 0))
        assert decoded(pieces) == together


@pytest.mark.parametrize("data", [b"2\r\nabc\r\n", b"zz\r\nabc", b"\r\n", b"-5\r\n", b"x" * 70000])
def test_what_is_no_chunk_is_a_failure(data: bytes) -> None:
    with pytest.raises(HttpFault):
        ChunkDecoder().decode(data)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8000", "http://localhost:8000/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("https://h/api/v1/chat/completions", "https://h:443/api/v1"),
        ("http://[::1]:9", "http://[::1]:9/v1"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert str(parse_address(text)) == address


@pytest.mark.parametrize(
    "text", ["ftp://h", "http://", "http://h:port", "http://u:secret@h", "http://h?x=1", "http://["]
)
def test_what_is_no_address_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(Problem) as caught:
        parse_address(text)
    assert "secret" not in str(caught.value)


def connection_to(url: str, timeout: float = 5.0) -> EndpointConnection:
    return EndpointConnection(parse_address(url), timeout=timeout)


@contextmanager
def raw_server(*answers: bytes) -> Iterator[str]:
    """A server that sends one of ``answers`` per connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for text in answers:
                one, _ = listener.accept()
                with one:
                    one.recv(1 << 16)
                    one.sendall(text)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(HANG_S)


def test_models_are_listed() -> None:
    with endpoint(models=["a", "b"]) as lab:
        assert list(models(connection_to(lab.url))) == ["a", "b"]


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again() -> None:
    with endpoint(answer(1), models=["m"]) as lab:
        connection = connection_to(lab.url)
        assert list(models(connection)) == ["m"]
        connection.interrupt()
        assert list(models(connection)) == ["m"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"", "reset"),
        (b"SSH-2.0-server\r\n", "protocol"),
        (b"HTTP/1.1 two\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "reset"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "reset"),
        (b"HTTP/1.1 200 OK\r\n\r\nno json", "protocol"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}", "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n{}", "protocol"),
        (b"HTTP/1.1 101 Upgrade\r\n\r\n", "protocol"),
        (b"HTTP/1.1 204 Nothing\r\n\r\n", "status-204"),
        (b"HTTP/1.1 500 \x1b[2J\r\n\r\n\x1b[2J", "status-500"),
        (b"HTTP/1.1 307 X\r\nlocation: http://other/v1\r\ncontent-length: 0\r\n\r\n", "status-307"),
    ],
)
def test_answers_that_break_off(text: bytes, kind: str) -> None:
    with raw_server(text) as url, pytest.raises(EndpointFault) as caught:
        list(models(connection_to(url)))
    assert caught.value.kind == kind
    assert caught.value.hint
    assert str(caught.value).isprintable()


def test_a_list_of_models_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.endpoint.connection.LONGEST_DOCUMENT", 1000)
    text = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2000
    with raw_server(text) as url, pytest.raises(EndpointFault, match="has no end"):
        list(models(connection_to(url)))


def test_heads_that_announce_another_are_passed_over() -> None:
    first = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    body = b'{"data": [{"id": "m"}, {"id": "\\u001b[2J"}]}'
    length = b"content-length: %d" % len(body)
    with raw_server(first + b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body) as url:
        assert list(models(connection_to(url))) == ["m"]


def test_what_follows_an_answer_is_none_to_the_next_request() -> None:
    one = b'HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{"data": [{"id": "one"}]}'
    two = one.replace(b"one", b"two")
    with raw_server(one + one, two) as url:
        connection = connection_to(url)
        assert [list(models(connection)) for _ in range(2)] == [["one"], ["two"]]


def test_bytes_that_come_later_are_none_either() -> None:
    one = b'HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{"data": [{"id": "one"}]}'
    is_asked, is_sent = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            first, _ = listener.accept()
            first.recv(1 << 16)
            first.sendall(one)
            is_asked.wait(HANG_S)
            first.sendall(one)
            is_sent.set()
            second, _ = listener.accept()
            second.recv(1 << 16)
            second.sendall(one.replace(b"one", b"two"))
            first.close()
            second.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        connection = connection_to(f"127.0.0.1:{listener.getsockname()[1]}")
        assert list(models(connection)) == ["one"]
        is_asked.set()
        assert is_sent.wait(HANG_S)
        assert list(models(connection)) == ["two"]
        thread.join(HANG_S)


def test_an_interrupted_request_is_not_sent_once_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = connection_to(f"127.0.0.1:{listener.getsockname()[1]}")

        def serve() -> None:
            one, _ = listener.accept()
            with one:
                one.recv(1 << 16)
                one.sendall(
                    b'HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{"data": [{"id": "one"}]}'
                )
                one.recv(1 << 16)
                connection.interrupt()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert list(models(connection)) == ["one"]
        with pytest.raises(EndpointFault) as caught:
            list(models(connection))
        thread.join(HANG_S)
    assert caught.value.kind == "reset"


def test_a_key_that_a_server_sends_back_is_in_no_message() -> None:
    text = b'HTTP/1.1 401 No\r\n\r\n{"error": {"message": "wrong key: sk-very-secret"}}'
    with raw_server(text) as url, pytest.raises(EndpointFault) as caught:
        header = (("Authorization", "Bearer sk-very-secret"),)
        list(models(EndpointConnection(parse_address(url), timeout=5.0, headers=header)))
    assert str(caught.value) == "HTTP 401: wrong key: ***"


@pytest.mark.parametrize(
    "sent",
    ["no key: sk%2Dvery%2Dsecret/", "no key: sk-very-secret", "sk-very-secret and sk-very-secret"],
    ids=["quoted for a URL", "cut off", "twice"],
)
def test_nothing_of_a_key_is_in_a_message_that_is_cut(sent: str) -> None:
    for length in range(290, 301):
        body = f"{'x' * (length - len(sent))}{sent}"
        text = f"HTTP/1.1 401 No\r\n\r\n{body[-length:]}sk-very-secret".encode()
        with raw_server(text) as url, pytest.raises(EndpointFault) as caught:
            header = (("Authorization", "Bearer sk-very-secret"),)
            list(models(EndpointConnection(parse_address(url), timeout=5.0, headers=header)))
        assert "***" in str(caught.value)
        assert "very" not in str(caught.value)
        assert "secret" not in str(caught.value)


def test_an_address_of_ipv6_is_named_in_brackets() -> None:
    connection = connection_to("http://[::1]:9")
    assert b"\r\nHost: [::1]:9\r\n" in connection.request_head("/models", 0)
    connection.close()


def test_a_server_without_tls_that_waits_is_said_not_to_speak_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = parse_address(f"https://127.0.0.1:{silent.getsockname()[1]}")
        connection = EndpointConnection(address, timeout=5.0, in_steps=True)
        steps = connection.exchange_steps(b"", lambda *_: None)
        while next(steps) != READ:
            pass
        with pytest.raises(EndpointFault, match="answered no TLS") as caught:
            steps.throw(TimeoutError())
        connection.close()
    assert caught.value.kind == "tls"
    assert "http://" in caught.value.hint


def test_a_server_that_stalls_is_not_waited_for_longer_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EndpointFault) as caught:
            list(models(connection_to(url, timeout=0.2)))
    assert caught.value.kind == "timeout"
    assert "--timeout" in caught.value.hint


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(EndpointFault) as caught:
        list(models(connection_to(f"127.0.0.1:{port}")))
    assert caught.value.kind == "refused"
