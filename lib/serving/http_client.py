"""HTTP/1.1 over one connection that is kept: for clients whose times are figures.

``http.client`` reads headers with the parser of e-mails, joins what is sent, and reads chunks
through three layers of buffers; at some thousand requests a second that is most of what a client
does. Here a request goes out of several buffers, and its response comes whole in one buffer, or
read by read, each with its moment.

An exchange is written once, as steps: a generator that yields READ or WRITE where a socket that
does not block has to wait for that. ``complete`` runs those of a socket that blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

FIRST_BUFFER = 1 << 16
LARGEST_HEAD = 1 << 16
FIRST = b"HTTP/"
# Memory for a body grows with what arrives, up to this: a header alone reserves nothing.
STEP = 1 << 24
LARGEST_BODY = 1 << 32
# sendmsg takes 1,024 buffers at once.
MOST_PARTS = 1000
READ, WRITE = 1, 2
UNDER_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK)
CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,12}")

HttpFaultKind = Literal["refused", "reset", "timeout", "tls", "protocol"]
AddressInfo = tuple[Any, Any, int, str, Any]
"""One of ``getaddrinfo``: family, kind, protocol, name, address."""
Result = TypeVar("Result")
Steps = Generator[int, None, Result]
"""Yields READ or WRITE to be resumed when its socket is ready for that."""
Feed = Callable[[int, bytes], None]
"""Called with the moment of a read, in ns of ``perf_counter_ns``, and its bytes."""


def authority(host: str, port: int) -> str:
    """Return a host and a port as URLs and the header Host have them; IPv6 is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HttpFault(Exception):  # noqa: N818
    """A request without a response, or with one that breaks the protocol."""

    def __init__(self, kind: HttpFaultKind, message: str) -> None:
        super().__init__(message)
        self.kind: HttpFaultKind = kind


class NotHttpFault(HttpFault):
    """What answered speaks something else."""

    def __init__(self, message: str) -> None:
        super().__init__("protocol", message)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """Where the server listens, and what messages call it."""

    host: str
    port: int
    name: str


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The first lines of a response; ``length`` is None where the end of the connection ends it.

    The names of ``fields`` are in lower case.
    """

    status: int
    fields: dict[str, str]
    length: int | None
    chunked: bool
    closes: bool

    @property
    def kind(self) -> str:
        """Return the media type without parameters."""
        return self.fields.get("content-type", "").partition(";")[0].strip().lower()


class HttpClient:
    """One connection to a server, opened when it is needed; one request at a time.

    ``ask`` sends a request, then ``whole`` or ``stream`` takes the body of its response, all within
    ``timeout`` seconds. Each raises HttpFault, and ends the connection with that or whatever else
    is raised. With ``repeats`` a request is sent once more where the server closed a kept
    connection before it answered anything.

    With ``in_steps`` its socket does not block, and ``ask_steps`` and ``stream_steps`` are run by a
    loop, which throws TimeoutError into them after ``deadline`` (of ``time.monotonic``).
    """

    def __init__(
        self,
        server: HttpServer,
        timeout: float,
        tls: ssl.SSLContext | None,
        *,
        repeats: bool = False,
        in_steps: bool = False,
    ) -> None:
        self._server = server
        self._timeout = timeout
        self._tls = tls
        self._repeats = repeats
        self._in_steps = in_steps
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._is_interrupted = False
        self._buffer = bytearray(FIRST_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._filled = 0
        self._last_head: tuple[bytes, ResponseHead] | None = None
        self.deadline = 0.0
        self._places: list[AddressInfo] = []

    @property
    def open_socket(self) -> socket.socket | None:
        """Return the socket of the connection; None where it is closed."""
        return self._socket

    def ask(self, head: bytes, parts: Sequence[memoryview] = ()) -> ResponseHead:
        """Send a request; return the head of its response."""
        return complete(self.ask_steps(head, parts))

    def ask_steps(self, head: bytes, parts: Sequence[memoryview] = ()) -> Steps[ResponseHead]:
        """Do as ``ask`` does, in steps."""
        self.deadline = time.monotonic() + self._timeout
        self._is_interrupted = False
        try:
            was_open = self._close_if_ended()
            try:
                return (yield from self._send_once([memoryview(head), *parts]))
            except ConnectionError:
                if self._filled or self._is_interrupted or not (self._repeats and was_open):
                    raise
                self.close()
                return (yield from self._send_once([memoryview(head), *parts]))
        except BaseException as error:
            self._fail(error)
            raise

    def whole(self, head: ResponseHead) -> memoryview:
        """Return the body, decoded, which is valid until the next request."""
        try:
            if head.chunked or head.length is None:
                read = bytearray()

                def take(_: int, piece: bytes) -> None:
                    read.extend(piece)
                    _limit(len(read))

                complete(self._read_pieces(head, take))
                body = _decoded(head, memoryview(read))
            else:
                filled = complete(self._filled_body(self._start + head.length))
                body = _decoded(head, filled)
        except BaseException as error:
            self._fail(error)
            raise
        if head.closes:
            self.close()
        return body

    def stream(self, head: ResponseHead, feed: Feed) -> None:
        """Pass the body to ``feed``, read by read, as it comes."""
        complete(self.stream_steps(head, feed))

    def stream_steps(self, head: ResponseHead, feed: Feed) -> Steps[None]:
        """Do as ``stream`` does, in steps."""
        try:
            yield from self._read_pieces(head, feed)
        except BaseException as error:
            self._fail(error)
            raise
        if head.closes:
            self.close()

    def _fail(self, error: BaseException) -> None:
        """End the connection; raise HttpFault for what the system raised."""
        self.close()
        name = self._server.name
        if isinstance(error, TimeoutError):
            problem = f"{name} gave no whole answer within {self._timeout:g} s"
            raise HttpFault("timeout", problem) from error
        if isinstance(error, OSError):
            words = f": {error.strerror}" if error.strerror else f" {error}"
            raise HttpFault("reset", f"{name} closed the connection{words}") from error

    def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._socket is not None:
            self._poll.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def interrupt(self) -> None:
        """Have a thread that sends or receives find the end of the connection."""
        self._is_interrupted = True
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _close_if_ended(self) -> bool:
        """Return whether the connection is open; close it where the server has spoilt it.

        Its end, or bytes that no request asked for, would be taken for the next answer.
        """
        if self._socket is not None and self._poll.poll(0):
            self.close()
        return self._socket is not None

    def _send_once(self, parts: list[memoryview]) -> Steps[ResponseHead]:
        self._start = self._filled = 0
        connection = self._socket or (yield from self._open())
        try:
            yield from self._send(connection, parts)
        except (BrokenPipeError, ConnectionResetError):
            # A server may refuse a request before it has read all of it, and say why.
            head = yield from self._final_head()
            return replace(head, closes=True)
        return (yield from self._final_head())

    def _open(self) -> Steps[socket.socket]:
        try:
            connection = yield from self._connect()
        except TimeoutError:
            raise
        except OSError as error:
            problem = f"{self._server.name}: {error.strerror or error}"
            if isinstance(error, ConnectionRefusedError):
                problem = f"nothing listens at {self._server.name}"
            raise HttpFault("refused", problem) from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connection
        try:
            return (yield from self._shake_hands(connection, self._tls))
        except ssl.SSLCertVerificationError as error:
            problem = f"the certificate is not trusted: {error.verify_message}"
            raise HttpFault("tls", problem) from error
        except ssl.SSLError as error:
            problem = f"{self._server.name} does not speak TLS: {error.reason}"
            raise HttpFault("tls", problem) from error
        except TimeoutError as error:
            # A server without TLS may wait for the end of what it takes for a request.
            problem = f"{self._server.name} answered no TLS within {self._timeout:g} s"
            raise HttpFault("tls", problem) from error

    def _connect(self) -> Steps[socket.socket]:
        """Return a connection to the first address of the server that takes one."""
        # A loop would wait for the name, with all of its streams: it is looked up once.
        places, self._places = self._places or self._look_up(), []
        for number, (family, kind, protocol, _, place) in enumerate(places, 1):
            timeout = self._left()
            connection = self._use(socket.socket(family, kind, protocol))
            connection.settimeout(0.0 if self._in_steps else timeout)
            try:
                status = connection.connect_ex(place)
                if status in UNDER_WAY and self._in_steps:
                    yield WRITE
                    status = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if status:
                    raise OSError(status, os.strerror(status))
                self._places = places
                return connection
            except OSError:
                self.close()
                if number == len(places):
                    raise
        raise OSError("the name has no address")

    def _look_up(self) -> list[AddressInfo]:
        host, port = self._server.host, self._server.port
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    def _shake_hands(self, connection: socket.socket, tls: ssl.SSLContext) -> Steps[socket.socket]:
        """Return the connection with TLS; raise OSError, which an SSLError is."""
        host = self._server.host
        wrapped = tls.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
        self._use(wrapped)
        if not self._in_steps:
            wrapped.settimeout(self._left())
        yield from _when_ready(wrapped.do_handshake, READ)
        return wrapped

    def _use(self, connection: socket.socket) -> socket.socket:
        """Make a socket that of the connection."""
        self._socket = connection
        self._poll.register(connection, select.POLLIN)
        return connection

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _send(self, connection: socket.socket, parts: list[memoryview]) -> Steps[None]:
        if self._tls is not None or len(parts) > MOST_PARTS:
            parts = [memoryview(b"".join(parts))]
        while parts:
            if not self._in_steps:
                connection.settimeout(self._left())
            if self._tls is None:
                sent = yield from _when_ready(partial(connection.sendmsg, parts), WRITE)
            else:
                sent = yield from _when_ready(partial(connection.send, parts[0]), WRITE)
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if sent:
                parts[0] = parts[0][sent:]

    def _more(self, room: int = 1) -> Steps[int]:
        """Read once, after making room for ``room`` bytes at least; 0 at the end."""
        assert self._socket is not None
        if self._filled + room > len(self._buffer):
            size = max(2 * len(self._buffer), self._filled + room)
            larger = bytearray(size)
            larger[: self._filled] = self._view[: self._filled]
            # Earlier responses may still refer to the old buffer.
            self._buffer, self._view = larger, memoryview(larger)
        if not self._in_steps:
            self._socket.settimeout(self._left())
        elif self._tls is None:
            # With TLS, what a read is for may have come with what was read before.
            yield READ
        receive = partial(self._socket.recv_into, self._view[self._filled :])
        count = yield from _when_ready(receive, READ)
        self._filled += count
        return count

    def _final_head(self) -> Steps[ResponseHead]:
        """Return the head of the answer, after those that only say that it will come (1xx)."""
        while 100 <= (head := (yield from self._head())).status < 200:
            if head.status == 101:
                raise HttpFault("protocol", "the server wants another protocol (HTTP 101)")
        return head

    def _head(self) -> Steps[ResponseHead]:
        """Return the next head; the buffer then begins behind it."""
        start = self._start
        while (end := self._buffer.find(b"\r\n\r\n", start, self._filled)) < 0:
            if self._filled - start > LARGEST_HEAD:
                raise NotHttpFault("the head of the answer has no end")
            # What speaks something else may wait for the other side, as long as that waits.
            if self._filled - start >= len(FIRST) and not self._buffer.startswith(FIRST, start):
                line = bytes(self._view[start : min(self._filled, start + 40)])
                raise NotHttpFault(f"{self._server.name} does not speak HTTP: {line!r}")
            if not (yield from self._more()):
                where = "in the head of its answer" if self._filled > start else "without an answer"
                raise ConnectionResetError(where)
        text = bytes(self._view[start:end])
        self._start = end + 4
        if self._last_head is None or self._last_head[0] != text:
            self._last_head = (text, read_head(text))
        return self._last_head[1]

    def _filled_body(self, end: int) -> Steps[memoryview]:
        """Return the body that ends at a place of the buffer, after reading until there."""
        _limit(end - self._start)
        while self._filled < end:
            if not (yield from self._more(min(end - self._filled, STEP))):
                raise ConnectionResetError(f"{end - self._filled:,} bytes before the end")
        if self._filled > end:
            raise HttpFault("protocol", "more bytes than the answer's length says")
        return self._view[self._start : end]

    def _read_pieces(self, head: ResponseHead, feed: Feed) -> Steps[None]:
        """Pass a body on, read by read; what follows it ends the connection."""
        clock = time.perf_counter_ns
        chunks = ChunkDecoder() if head.chunked else None
        left, now, data = head.length, clock(), bytes(self._view[self._start : self._filled])
        while True:
            if chunks:
                data = chunks.decode(data)
                ended, excess = chunks.ended, chunks.ended and bool(chunks.rest)
            elif left is not None:
                excess, data = len(data) > left, data[:left]
                left -= len(data)
                ended = not left
            else:
                ended = excess = False
            if data:
                feed(now, data)
            if excess:
                self.close()
            if ended:
                return
            self._filled = 0
            if not (yield from self._more()):
                if head.closes and left is None and not chunks:
                    return
                raise ConnectionResetError("before the end of its answer")
            now, data = clock(), bytes(self._view[: self._filled])


def _when_ready(operation: Callable[[], Result], event: int) -> Steps[Result]:
    """Return what an operation of a socket returns once that does not have to wait for ``event``.

    TLS may have to read before it can write, and the reverse.
    """
    while True:
        try:
            return operation()
        except ssl.SSLWantReadError:
            event = READ
        except ssl.SSLWantWriteError:
            event = WRITE
        except BlockingIOError:
            pass
        yield event


def complete(steps: Steps[Result]) -> Result:
    """Run the steps of a connection that blocks to their end."""
    try:
        next(steps)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    raise AssertionError("a connection that blocks waits by itself")


class ChunkDecoder:
    """Takes the framing of chunks off, however reads cut it."""

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""
        self._left = 0
        self._after_chunk = False

    def decode(self, data: bytes) -> bytes:
        """Return the payload that ``data`` adds; raise HttpFault."""
        data = self.rest + data if self.rest else data
        self.rest = b""
        is_between = not self._left and not self._after_chunk
        parts, place = _plain_chunks(data) if is_between else ([], 0)
        while place < len(data) and not self.ended:
            if self._left:
                part = data[place : place + self._left]
                place += len(part)
                self._left -= len(part)
                self._after_chunk = not self._left
                parts.append(part)
                continue
            end = data.find(b"\r\n", place)
            if end < 0:
                self._keep(data[place:])
                break
            if self._after_chunk:
                if end != place:
                    raise HttpFault("protocol", "a chunk does not end where it should")
                self._after_chunk, place = False, end + 2
                continue
            self._left = self._size(data[place:end])
            if self._left:
                place = end + 2
            elif (closing := data.find(b"\r\n\r\n", end)) < 0:
                self._keep(data[place:])
                break
            else:
                self.ended, self.rest = True, data[closing + 4 :]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _keep(self, rest: bytes) -> None:
        if len(rest) > LARGEST_HEAD:
            raise HttpFault("protocol", "a chunk has no size")
        self.rest = rest

    @staticmethod
    def _size(line: bytes) -> int:
        size = line.partition(b";")[0].strip()
        if not CHUNK_SIZE.fullmatch(size):
            raise HttpFault("protocol", f"a chunk has the size {line[:20]!r}")
        return int(size, 16)


def _plain_chunks(data: bytes) -> tuple[list[bytes], int]:
    """Return the whole chunks that data begin with, and where they end.

    Only those which have no line end within, no extension and no leading zero: they are read
    several times faster than one by one.
    """
    lines = data.split(b"\r\n")
    # What follows the last line end is no line yet.
    sizes, chunks = lines[:-1:2], lines[1:-1:2]
    count = 0
    for size, chunk in zip(sizes, chunks, strict=False):
        if not chunk or (b"%x" % len(chunk) != size and b"%X" % len(chunk) != size):
            break
        count += 1
    return chunks[:count], sum(map(len, lines[: 2 * count])) + 4 * count


def read_head(text: bytes) -> ResponseHead:
    """Read the lines before a body; raises HttpFault (``protocol``)."""
    lines = text.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not _digits(words[1], 3):
        raise NotHttpFault(f"the answer is not HTTP ({lines[0][:60]!r})")
    fields: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not name or name != name.strip():
            raise HttpFault("protocol", f"{line[:60]!r} is not a header field")
        if key == "content-length" and fields.get(key, value.strip()) != value.strip():
            raise HttpFault("protocol", "the answer has two lengths")
        fields[key] = value.strip()
    return _head_of(words[0], int(words[1]), fields)


def _head_of(version: str, status: int, fields: dict[str, str]) -> ResponseHead:
    length = fields.get("content-length")
    if length is not None and not _digits(length):
        raise HttpFault("protocol", f'"{length[:30]}" is not a length')
    chunked = "chunked" in fields.get("transfer-encoding", "").lower()
    connection = fields.get("connection", "").lower()
    closes = "close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection)
    bare = status < 200 or status in (204, 304)
    size = 0 if bare else None if length is None else int(length)
    closes = closes or (size is None and not chunked)
    return ResponseHead(status, fields, size, chunked and not bare, closes)


def _digits(text: str, count: int = 0) -> bool:
    return text.isascii() and text.isdigit() and len(text) in ((count,) if count else range(1, 16))


def _decoded(head: ResponseHead, body: memoryview) -> memoryview:
    coding = head.fields.get("content-encoding", "identity")
    if coding == "identity" or not body:
        return body
    if coding not in ("gzip", "deflate"):
        raise HttpFault("protocol", f'an answer in the unknown coding "{coding}"')
    with contextlib.suppress(zlib.error):
        # 32: gzip or zlib, whichever it is.
        opened = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)
        data = opened.decompress(body, LARGEST_BODY)
        if opened.eof and not opened.unconsumed_tail:
            return memoryview(data)
    raise HttpFault("protocol", f"the answer is not {coding} data")


def _limit(size: int) -> None:
    if size > LARGEST_BODY:
        raise HttpFault("protocol", f"an answer of {size:,} bytes is too large")
