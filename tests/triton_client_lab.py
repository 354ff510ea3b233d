"""What tests of the Triton client share: its path, and a server that lies, stalls or resets."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[socket.socket, bytes], None]


def receive(connection: socket.socket) -> bytes:
    """One request with its body; empty at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(1 << 16)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def says(data: bytes, *, then: str = "keep") -> Answer:
    """Send ``data``; then keep the connection, ``end`` it, or ``reset`` it."""

    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(data)
        if then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if then != "keep":
            connection.close()

    return answer


def drips(data: bytes, pause: float) -> Answer:
    """Send ``data`` byte by byte: no read takes long, the answer never ends."""

    def answer(connection: socket.socket, request: bytes) -> None:
        for place in range(len(data)):
            connection.sendall(data[place : place + 1])
            time.sleep(pause)

    return answer


def http(body: bytes, *fields: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """A response as a server writes it."""
    lines = [f"HTTP/1.1 {status}", *fields]
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@contextmanager
def serving(answer: Answer) -> Iterator[int]:
    """A server on loopback that answers each request by ``answer``; its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    listener.settimeout(0.05)
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        try:
            while not ended.is_set() and (request := receive(connection)):
                answer(connection, request)
        except OSError:
            pass
        finally:
            connection.close()

    def accept() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            connection.settimeout(30)
            threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
            threads[-1].start()

    main = threading.Thread(target=accept, daemon=True)
    main.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ended.set()
        listener.close()
        main.join()
