"""One thread for all streams: TLS, addresses, stalls, and servers that hang up."""

from __future__ import annotations

import itertools
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tls_lab
from endpoint_lab import (
    EndpointLab,
    EndpointRequest,
    Piece,
    answer,
    as_sse,
    endpoint,
    finish,
    token,
    usage,
)
from serving.bench.load import CTRL_C, ClosedLoop, OpenLoop, Pace, Watch
from serving.endpoint.connection import EndpointConnection, parse_address
from serving.endpoint.load import StreamRecord, StreamWorker
from serving.endpoint.loop import run_streams
from serving.endpoint.prompts import EndpointPrompt, RequestBuilder
from support import HANG_S

FOREVER = 1 << 62
STREAM = as_sse(token("a")) + as_sse(finish()) + as_sse(usage(1)) + as_sse("[DONE]")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"


def streams(
    url: str,
    pace: Pace,
    count: int,
    *,
    timeout: float = HANG_S,
    tls_ca: str = "",
    watch: Watch | None = None,
) -> list[StreamRecord]:
    """What ``count`` connections have recorded."""
    prompts = itertools.cycle([EndpointPrompt(("Why? " * 5000,))])
    with ExitStack() as stack:
        workers = []
        for seed in range(count):
            connection = EndpointConnection(
                parse_address(url), timeout=timeout, tls_ca=tls_ca, in_steps=True
            )
            stack.callback(connection.close)
            builder = RequestBuilder(
                connection, model="m", chat=True, body={}, salted=True, seed=seed
            )
            workers.append(StreamWorker(connection, builder, prompts))
        return run_streams(workers, pace, watch)


def totals(records: list[StreamRecord]) -> tuple[int, list[str]]:
    """How many requests were answered, and the kinds of failures."""
    kinds = [failure.kind for record in records for failure in record.failures]
    return sum(len(record.done) for record in records), kinds


def port_of(lab: EndpointLab) -> int:
    return int(lab.url.rpartition(":")[2].removesuffix("/v1"))


def test_streams_over_tls(tmp_path: Path) -> None:
    known = tls_lab.authority(tmp_path)
    with endpoint(answer(3)) as lab, tls_lab.relay(port_of(lab), known) as port:
        url = f"https://localhost:{port}"
        records = streams(url, ClosedLoop(0, FOREVER, 9), 3, tls_ca=str(known.ca))
        assert totals(records) == (9, [])
        assert {tokens for record in records for tokens in record.tokens} == {3}
        _, kinds = totals(streams(url, ClosedLoop(0, FOREVER, 2), 1))
        assert kinds == ["tls", "tls"]


def test_the_next_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf, endpoint(answer(1)) as lab:
        deaf.bind(("127.0.0.1", 0))
        dead = deaf.getsockname()
        live = ("127.0.0.1", port_of(lab))
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        places = [(*kind, dead), (*kind, live)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
        assert totals(streams("http://name:1", ClosedLoop(0, FOREVER, 4), 2)) == (4, [])
        places.reverse()
        places.pop(0)
        records = streams("http://name:1", ClosedLoop(0, FOREVER, 1), 1)
    assert [failure.message for failure in records[0].failures] == ["nothing listens at name:1"]


def test_a_name_is_looked_up_once_though_the_server_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups: list[object] = []
    look_up = socket.getaddrinfo

    def counted(*arguments: Any, **options: Any) -> Any:
        lookups.append(arguments)
        return look_up(*arguments, **options)

    with endpoint(answer(1), close=True) as lab:
        monkeypatch.setattr(socket, "getaddrinfo", counted)
        assert totals(streams(lab.url, ClosedLoop(0, FOREVER, 5), 1)) == (5, [])
    assert len(lookups) == 1


def test_a_stream_that_stalls_ends_at_its_timeout_and_no_other_does() -> None:
    numbers = itertools.count()
    released = threading.Event()

    def stream(request: EndpointRequest) -> Iterator[Piece]:
        yield as_sse(token("a"))
        if next(numbers) == 0:
            released.wait(HANG_S)
        yield as_sse(finish()) + as_sse(usage(1))

    with endpoint(stream) as lab:
        records = streams(lab.url, ClosedLoop(0, FOREVER, 6), 2, timeout=1.0)
        released.set()
    answered, kinds = totals(records)
    assert (answered + len(kinds), set(kinds)) == (6, {"timeout"})
    texts = [failure.message for record in records for failure in record.failures]
    assert any(text.endswith("within 1 s; 1 events with tokens had come") for text in texts)


def test_ctrl_c_does_not_wait_for_a_stream_that_stalls() -> None:
    is_sent, released = threading.Event(), threading.Event()

    def stream(request: EndpointRequest) -> Iterator[Piece]:
        yield as_sse(token("a"))
        is_sent.set()
        released.wait(HANG_S)

    def interrupt(_: object) -> str:
        if is_sent.is_set():
            raise KeyboardInterrupt
        return ""

    with endpoint(stream) as lab:
        pace = ClosedLoop(0, FOREVER, 0)
        records = streams(lab.url, pace, 1, watch=interrupt)
        released.set()
    assert pace.why == CTRL_C
    assert totals(records) == (0, ["reset"])


def test_a_server_that_hangs_up_between_requests_keeps_nobody_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selections: list[object] = []
    select = selectors.DefaultSelector.select

    def counting(selector: selectors.DefaultSelector, timeout: float | None = None) -> object:
        selections.append(timeout)
        return select(selector, timeout)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(3):
                connection, _ = listener.accept()
                with connection:
                    data = b""
                    while b"\r\n\r\n" not in data or b'"stream_options"' not in data:
                        data += connection.recv(1 << 20)
                    connection.sendall(HEAD % len(STREAM) + STREAM)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setattr(selectors.DefaultSelector, "select", counting)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        pace = OpenLoop(time.perf_counter_ns(), FOREVER, 3, iter([0, 10**8, 2 * 10**8]))
        assert totals(streams(url, pace, 1)) == (3, [])
        thread.join(HANG_S)
    assert len(selections) < 1000
