"""HTTP/1.1 over one connection that is kept: a request out of several buffers, a response into one.

``http.client`` reads headers with the parser of e-mails and joins what is sent; at some thousand
requests a second that is most of what a client does.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from .address import Address
from .errors import KserveError

FIRST_BUFFER = 1 << 16
LARGEST_HEAD = 1 << 16
FIRST = b"HTTP/"
# Memory for a body grows with what arrives, up to this: a header alone reserves nothing.
STEP = 1 << 24
LARGEST_BODY = 1 << 32
# A connection that lay still for so long may have been closed by the server.
IDLE_S = 0.5
# sendmsg takes 1,024 buffers at once.
MOST_PARTS = 1000


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The first lines of a response; ``length`` is None where the end of the connection ends it."""

    status: int
    fields: dict[str, str]
    length: int | None
    chunked: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response; ``body`` is valid until the next exchange."""

    status: int
    fields: dict[str, str]
    body: memoryview


class Exchange:
    """One connection to a server, opened when it is needed; one request at a time."""

    def __init__(self, address: Address, timeout: float, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self.timeout = timeout
        self._tls = tls
        self._socket: socket.socket | None = None
        self._buffer = bytearray(FIRST_BUFFER)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._last_head: tuple[bytes, ResponseHead] | None = None
        self._deadline = 0.0
        self._used = 0.0

    def send(self, head: bytes, parts: Sequence[memoryview]) -> HttpResponse:
        """Send ``head`` and ``parts``, and receive; the connection ends with a KserveError."""
        self._deadline = time.monotonic() + self.timeout
        try:
            connection = self._ready()
            try:
                self._send(connection, [memoryview(head), *parts])
            except (BrokenPipeError, ConnectionResetError):
                # A server may refuse a request before it has read all of it, and say why.
                reply = self._receive(connection)
                self.close()
                return reply
            return self._receive(connection)
        except KserveError:
            self.close()
            raise
        except TimeoutError as error:
            self.close()
            problem = f"{self.address} did not answer within {self.timeout:g} s"
            raise KserveError("timeout", problem) from error
        except OSError as error:
            self.close()
            raise KserveError("reset", f"{self.address} ended the connection: {error}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def interrupt(self) -> None:
        """Have a thread that sends or receives find the end of the connection."""
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _ready(self) -> socket.socket:
        now = time.monotonic()
        if self._socket is not None and now - self._used > IDLE_S:
            # Bytes or an end without a request: the server has closed this connection.
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if poll.poll(0):
                self.close()
        if self._socket is None:
            self._socket = self._open()
        return self._socket

    def _open(self) -> socket.socket:
        try:
            place = (self.address.host, self.address.port)
            connection = socket.create_connection(place, timeout=self._left())
        except TimeoutError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise KserveError("refused", f"{self.address}: {reason}") from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connection
        try:
            return self._tls.wrap_socket(connection, server_hostname=self.address.host)
        except ssl.SSLError as error:
            connection.close()
            raise KserveError("protocol", f"{self.address}: TLS: {error.reason}") from error

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _send(self, connection: socket.socket, parts: list[memoryview]) -> None:
        if self._tls is not None or len(parts) > MOST_PARTS:
            parts = [memoryview(b"".join(parts))]
        while parts:
            connection.settimeout(self._left())
            sent = connection.send(parts[0]) if self._tls else connection.sendmsg(parts)
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if sent:
                parts[0] = parts[0][sent:]

    def _receive(self, connection: socket.socket) -> HttpResponse:
        self._filled = 0
        start, head = self._head(connection, 0)
        while 100 <= head.status < 200:
            start, head = self._head(connection, start)
        body, closes = self._body(connection, start, head)
        self._used = time.monotonic()
        if closes:
            self.close()
        return HttpResponse(head.status, head.fields, body)

    def _more(self, connection: socket.socket, room: int = 1) -> int:
        """Read once, after making room for ``room`` bytes at least; 0 at the end."""
        if self._filled + room > len(self._buffer):
            size = max(2 * len(self._buffer), self._filled + room)
            larger = bytearray(size)
            larger[: self._filled] = self._view[: self._filled]
            # Earlier responses may still refer to the old buffer.
            self._buffer, self._view = larger, memoryview(larger)
        connection.settimeout(self._left())
        count = connection.recv_into(self._view[self._filled :])
        self._filled += count
        return count

    def _head(self, connection: socket.socket, start: int) -> tuple[int, ResponseHead]:
        """Return the end of the head that begins at ``start``, and the head."""
        while (end := self._buffer.find(b"\r\n\r\n", start, self._filled)) < 0:
            if self._filled - start > LARGEST_HEAD:
                raise KserveError("protocol", "the head of the answer has no end")
            # What speaks something else may wait for the other side, as long as that waits.
            if self._filled - start >= len(FIRST) and not self._buffer.startswith(FIRST, start):
                raise KserveError("protocol", f"{self.address} does not speak HTTP")
            if not self._more(connection):
                what = "in the head of its answer" if self._filled > start else "without an answer"
                raise KserveError("reset", f"{self.address} ended the connection {what}")
        text = bytes(self._view[start:end])
        if self._last_head is None or self._last_head[0] != text:
            self._last_head = (text, read_head(text))
        return end + 4, self._last_head[1]

    def _body(
        self, connection: socket.socket, start: int, head: ResponseHead
    ) -> tuple[memoryview, bool]:
        """Return the body, and whether the connection ends with it."""
        if head.chunked:
            body = self._chunks(connection, start)
        elif head.length is None:
            while self._more(connection, STEP // 16):
                self._limit(self._filled - start)
            return self._decoded(head, self._view[start : self._filled]), True
        else:
            self._limit(head.length)
            self._fill(connection, start + head.length)
            body = self._view[start : start + head.length]
            if self._filled > start + head.length:
                raise KserveError("protocol", "more bytes than the answer's length says")
        return self._decoded(head, body), head.closes

    def _limit(self, size: int) -> None:
        if size > LARGEST_BODY:
            raise KserveError("protocol", f"an answer of {size:,} bytes is too large")

    def _fill(self, connection: socket.socket, end: int) -> None:
        while self._filled < end:
            if not self._more(connection, min(end - self._filled, STEP)):
                missing = end - self._filled
                problem = f"{self.address} ended the connection, {missing:,} bytes before the end"
                raise KserveError("reset", problem)

    def _chunks(self, connection: socket.socket, start: int) -> memoryview:
        body = bytearray()
        while True:
            size, start = self._chunk_size(connection, start)
            self._limit(len(body) + size)
            self._fill(connection, start + size + 2)
            if bytes(self._view[start + size : start + size + 2]) != b"\r\n":
                raise KserveError("protocol", "a chunk does not end where it should")
            if not size:
                return memoryview(body)
            body += self._view[start : start + size]
            start += size + 2

    def _chunk_size(self, connection: socket.socket, start: int) -> tuple[int, int]:
        while (end := self._buffer.find(b"\r\n", start, self._filled)) < 0:
            self._fill(connection, self._filled + 1)
            if self._filled - start > LARGEST_HEAD:
                raise KserveError("protocol", "the size of a chunk has no end")
        word = bytes(self._view[start:end]).partition(b";")[0].strip()
        try:
            if not word.isalnum():
                raise ValueError
            return int(word, 16), end + 2
        except ValueError as error:
            raise KserveError("protocol", f"{word[:20]!r} is not a size of a chunk") from error

    def _decoded(self, head: ResponseHead, body: memoryview) -> memoryview:
        coding = head.fields.get("content-encoding", "identity")
        if coding == "identity" or not body:
            return body
        if coding not in ("gzip", "deflate"):
            raise KserveError("protocol", f'an answer in the unknown coding "{coding}"')
        with contextlib.suppress(zlib.error):
            # 32: gzip or zlib, whichever it is.
            opened = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)
            data = opened.decompress(body, LARGEST_BODY)
            if opened.eof and not opened.unconsumed_tail:
                return memoryview(data)
        raise KserveError("protocol", f"the answer is not {coding} data")


def read_head(text: bytes) -> ResponseHead:
    """Read the lines before a body; raises KserveError (``protocol``)."""
    lines = text.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not _digits(words[1], 3):
        raise KserveError("protocol", f"the answer is not HTTP ({lines[0][:60]!r})")
    fields: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not name or name != name.strip():
            raise KserveError("protocol", f"{line[:60]!r} is not a header field")
        if key == "content-length" and fields.get(key, value.strip()) != value.strip():
            raise KserveError("protocol", "the answer has two lengths")
        fields[key] = value.strip()
    return _head_of(words[0], int(words[1]), fields)


def _head_of(version: str, status: int, fields: dict[str, str]) -> ResponseHead:
    length = fields.get("content-length")
    if length is not None and not _digits(length):
        raise KserveError("protocol", f'"{length[:30]}" is not a length')
    chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    connection = fields.get("connection", "").lower()
    closes = "close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection)
    bare = status < 200 or status in (204, 304)
    size = 0 if bare else None if length is None else int(length)
    return ResponseHead(status, fields, size, chunked and not bare, closes)


def _digits(text: str, count: int = 0) -> bool:
    return text.isascii() and text.isdigit() and len(text) in ((count,) if count else range(1, 16))
