"""Servers that lie, stall, reset and send half: each is one failure of its kind, and none hangs."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import zlib

import numpy as np
import pytest

from serving.kserve import ConnectionOptions, KserveError, connect
from support import HANG_S
from triton_client_lab import Answer, drips, http, says, serving

VALUES = np.arange(6, dtype="f4").reshape(2, 3)
DATA = VALUES.tobytes()


def told(size: int = len(DATA), **changes: object) -> bytes:
    output = {"name": "y", "datatype": "FP32", "shape": [2, 3], **changes}
    return json.dumps({"outputs": [{**output, "parameters": {"binary_data_size": size}}]}).encode()


def response(text: bytes = told(), data: bytes = DATA, **changes: object) -> bytes:
    length = changes.pop("json", len(text))
    return http(text + data, f"Inference-Header-Content-Length: {length}", **changes)


def ask(port: int, timeout: float = 5.0, **options: object) -> dict[str, np.ndarray]:
    with connect(f"127.0.0.1:{port}", options=ConnectionOptions(timeout, **options)) as connection:
        found = connection.infer("m", {"x": VALUES})
        return {name: tensor.array().copy() for name, tensor in found.items()}


def test_an_answer_is_read() -> None:
    with serving(says(response())) as port:
        np.testing.assert_array_equal(ask(port)["y"], VALUES)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (says(b"", then="end"), "reset", "without an answer"),
        (says(b"", then="reset"), "reset", ""),
        (says(b"HTTP/1.1 200 OK\r\nCont", then="end"), "reset", "in the head"),
        (says(response()[:-7], then="end"), "reset", "7 bytes before the end"),
        (says(response(length=10**14)), "protocol", "too large"),
        (says(response(length=-1)), "protocol", "not a length"),
        (says(response() + b"more"), "protocol", "more bytes"),
        (says(response(told(20))), "protocol", "has 20 bytes"),
        (says(response(told(), DATA + DATA)), "protocol", "24 bytes belong"),
        (says(response(told(28))), "protocol", "ends inside y"),
        (says(response(told(shape=[3, 3]))), "protocol", "36"),
        (says(response(told(shape=[-2, -3]))), "protocol", "shape"),
        (says(response(told(datatype="FP31"))), "protocol", "FP31"),
        (says(response(json=9999)), "protocol", "9999"),
        (says(response(json=5)), "protocol", "not JSON"),
        (says(response(b"[" * 100_000, b"")), "protocol", "not JSON"),
        (says(b"220 mail.example ESMTP\r\n\r\n"), "protocol", "not HTTP"),
        (says(b"220 mail.example ESMTP, and waits"), "protocol", "not speak HTTP"),
        (says(bytes(range(256))), "protocol", "not speak HTTP"),
        (drips(b"SSH-", 0.01), "timeout", "0.5 s"),
        (says(b"HTTP/1.1 200 OK\r\n" + b"a" * 100_000), "protocol", "no end"),
        (says(http(b"", status="503 Service Unavailable")), "status", "503"),
        (says(http(b'{"error":"no such model"}', status="404 x")), "status", "no such model"),
        (says(http(b"x", "Content-Encoding: br")), "protocol", "br"),
        (says(http(b"x", "Content-Encoding: gzip")), "protocol", "not gzip"),
        (lambda connection, request: time.sleep(HANG_S), "timeout", "0.5 s"),
        (drips(response(), 0.1), "timeout", "0.5 s"),
    ],
)
def test_a_failure_has_its_kind(answer: Answer, kind: str, words: str) -> None:
    with serving(answer) as port:
        with pytest.raises(KserveError) as caught:
            ask(port, timeout=0.5 if kind == "timeout" else HANG_S)
        assert caught.value.kind == kind, caught.value
        assert words in str(caught.value)


def test_a_port_without_a_server_is_refused_ten_thousand_times() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    connection = connect(f"127.0.0.1:{port}")
    request = connection.prepare("m", {"x": VALUES})
    kinds = set()
    for _ in range(10_000):
        with pytest.raises(KserveError) as caught:
            connection.run(request)
        kinds.add(caught.value.kind)
    assert kinds == {"refused"}


def test_a_server_that_takes_nothing_is_a_timeout() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(KserveError) as caught,
    ):
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        connection = connect(address, options=ConnectionOptions(timeout=0.5))
        connection.infer("m", {"x": np.zeros(10_000_000, "f4")})
    assert caught.value.kind == "timeout"


def test_a_refusal_before_the_request_is_read_is_told() -> None:
    refusal = http(b'{"error":"too large"}', "Connection: close", status="413 Too Large")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.sendall(refusal)
            connection.shutdown(socket.SHUT_WR)
            time.sleep(0.3)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(KserveError) as caught:
            connect(f"127.0.0.1:{listener.getsockname()[1]}").infer(
                "m", {"x": np.zeros(4_000_000, "f4")}
            )
        thread.join()
    assert caught.value.kind in ("status", "reset")


def chunked(data: bytes, *fields: str) -> bytes:
    head = "\r\n".join(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *fields]) + "\r\n\r\n"
    parts = [data[place : place + 7] for place in range(0, len(data), 7)]
    return head.encode() + b"".join(b"%x;a=b\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_other_forms_of_an_answer_are_read(coding: str) -> None:
    body, length = told() + DATA, f"Inference-Header-Content-Length: {len(told())}"
    packed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    old = f"HTTP/1.0 200 OK\r\n{length}\r\n\r\n".encode() + body
    for data, then in (
        (chunked(body, length), "keep"),
        (http(packed, length, f"Content-Encoding: {coding}"), "keep"),
        (old, "end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + response(), "keep"),
        (http(json.dumps({"outputs": [
            {"name": "y", "datatype": "FP32", "shape": [2, 3], "data": VALUES.tolist()}
        ]}).encode()), "keep"),
    ):  # fmt: skip
        with serving(says(data, then=then)) as port:
            np.testing.assert_array_equal(ask(port, compression=coding)["y"], VALUES)


def test_a_connection_that_the_server_gave_up_is_opened_again() -> None:
    with serving(says(response(), then="end")) as port:
        connection = connect(f"127.0.0.1:{port}")
        for _ in range(2):
            assert connection.infer("m", {"x": VALUES})["y"].shape == (2, 3)
            time.sleep(0.6)


def test_threads_take_turns_on_one_connection() -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        says(response())(connection, request)

    with serving(answer) as port, connect(f"127.0.0.1:{port}") as connection:
        threads = [
            threading.Thread(
                target=lambda: [connection.infer("m", {"x": VALUES}) for _ in range(50)]
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 200
    assert len(set(seen)) == 1


def test_headers_go_with_every_request_and_cannot_break_it() -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        says(response())(connection, request)

    with serving(answer) as port:
        ask(port, headers=(("X-Key", "a b"),))
    assert b"\r\nX-Key: a b\r\n" in seen[0]
    for name, value in (("X", "a\r\nb"), ("X:", "a"), ("", "a"), ("X", "ä")):
        with pytest.raises(KserveError) as caught:
            connect("h", options=ConnectionOptions(headers=((name, value),)))
        assert caught.value.kind == "input"


def test_names_of_models_are_quoted() -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        seen.append(request.split(b"\r\n")[0])
        says(response())(connection, request)

    with serving(answer) as port, connect(f"127.0.0.1:{port}/a") as connection:
        connection.infer("m/x y", {"x": VALUES}, version="2")
    assert seen == [b"POST /a/v2/models/m%2Fx%20y/versions/2/infer HTTP/1.1"]
