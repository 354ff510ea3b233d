"""HTTP/1.1 over one socket: a request out, a stream of server-sent events in.

``http.client`` reads a chunk at a time through three layers of buffers; the figures are moments of
reads, so this reads what the kernel has, and takes the time next to the call.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from common.problems import bad_value

from .faults import (
    API_HINT,
    LEAST_SECRET,
    EndpointFault,
    error_text,
    network_fault,
    read_json,
    refusal,
)

READ = 1 << 16
LONGEST_HEAD = 1 << 16
LONGEST_ERROR = 1 << 16
LONGEST_DOCUMENT = 1 << 24
PORTS = {"http": 80, "https": 443}
HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{1,12}")
ROUTES = ("/chat/completions", "/completions", "/models")

Feed = Callable[[int, bytes], None]
"""Called with the moment of a read, in ns of ``perf_counter_ns``, and its bytes."""


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """Where the API is: ``base`` is the path in front of its routes, such as ``/v1``."""

    scheme: str
    host: str
    port: int
    base: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.base}"


def parse_address(text: str) -> EndpointAddress:
    """Return the address of ``http://HOST:PORT/v1``; the scheme and ``/v1`` may be left out.

    A route at the end (``/chat/completions``) is dropped. Raises Problem.
    """
    whole = text if "://" in text else f"http://{text}"
    hint = "--url=http://HOST:PORT/v1"
    try:
        parts = urlsplit(whole)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise bad_value(f"--url={text}: {error}", hint=hint) from error
    if parts.scheme not in PORTS or not parts.hostname or parts.query or parts.fragment:
        raise bad_value(f"--url={text} is not the URL of an API", hint=hint)
    if parts.username is not None or parts.password is not None:
        raise bad_value(
            "--url holds a user or a password",
            hint="--api_key_env=NAME of a variable with the key",
        )
    base = parts.path.rstrip("/")
    for route in ROUTES:
        base = base.removesuffix(route)
    return EndpointAddress(parts.scheme, parts.hostname, port, base or "/v1")


@dataclass(frozen=True, slots=True)
class StreamHead:
    """Status and headers (names in lower case) of a response."""

    status: int
    headers: Mapping[str, str]

    @property
    def kind(self) -> str:
        """Return the media type without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def stays_open(self) -> bool:
        """Return whether another request may follow on the same connection."""
        words = self.headers.get("connection", "").lower().split(",")
        return "close" not in map(str.strip, words)

    @property
    def length(self) -> int:
        """Return how many bytes follow, -1 where the end of the connection ends them.

        Raises EndpointFault for what is no length.
        """
        if self.status in (204, 304):
            return 0
        text = self.headers.get("content-length", "")
        if text and not (text.isascii() and text.isdigit()):
            raise EndpointFault("protocol", f"the answer has the length {text[:20]}")
        return int(text) if text else -1

    def require_plain(self) -> None:
        """Raise EndpointFault for a compressed body: its reads are not those of tokens."""
        for name, plain in (("content-encoding", ""), ("transfer-encoding", "chunked")):
            coding = self.headers.get(name, "").lower()
            if coding not in ("", "identity", plain):
                raise EndpointFault(
                    "protocol",
                    f"the answer is compressed ({coding[:20]}), though identity was asked for",
                    "take out the proxy that compresses, or have it leave out this route",
                )


class EndpointConnection:
    """A connection that is opened when it is needed, and again after the server has closed it."""

    def __init__(
        self,
        address: EndpointAddress,
        *,
        timeout: float,
        headers: tuple[tuple[str, str], ...] = (),
        tls_ca: str = "",
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._context = _tls_context(tls_ca) if address.scheme == "https" else None
        host = f"{address.host}:{address.port}"
        lines = [("Host", host), ("Accept", "text/event-stream, application/json"),
                 ("Accept-Encoding", "identity"), *headers]  # fmt: skip
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines).encode("latin-1")
        # A key is sent as "Bearer KEY"; a server may quote either.
        words = [value.removeprefix("Bearer ") for _, value in headers]
        self._secrets = tuple(word for word in words if len(word) >= LEAST_SECRET)
        self._socket: socket.socket | None = None
        self._rest = b""
        self._deadline = 0.0
        self._was_idle = False

    def request_head(self, route: str, size: int) -> bytes:
        """Return the head of a request with a body of ``size`` bytes; of a GET without one."""
        method = "POST" if size else "GET"
        body = f"Content-Type: application/json\r\nContent-Length: {size}\r\n" if size else ""
        line = f"{method} {self.address.base}{route} HTTP/1.1\r\n{body}"
        return line.encode("ascii") + self._headers + b"\r\n"

    def exchange(self, request: bytes, feed: Feed) -> StreamHead:
        """Send ``request`` and pass what a 200 answers to ``feed``, read by read.

        Raises EndpointFault. A server may have closed an idle connection: then the request, of
        which nothing was answered, is sent once more over a new one.
        """
        self._deadline = time.monotonic() + self._timeout
        try:
            try:
                head = self._ask(request)
            except (ConnectionError, _ClosedError):
                if not self._was_idle:
                    raise
                self.close()
                head = self._ask(request)
            if head.status != 200:
                raise refusal(head.status, head.headers, self._beginning(head))
            head.require_plain()
            self._read_body(head, feed)
        except _ClosedError as error:
            self.close()
            raise EndpointFault("reset", "the server closed the connection") from error
        except TimeoutError as error:
            self.close()
            raise EndpointFault(
                "timeout", f"not complete after {self._timeout:g} s", "--timeout=SECONDS"
            ) from error
        except OSError as error:
            self.close()
            raise network_fault(self.address.host, self.address.port, error) from error
        except EndpointFault as error:
            self.close()
            raise self.without_secrets(error) from None
        # What follows an answer is none to the next request.
        if self._rest or not head.stays_open:
            self.close()
        return head

    def without_secrets(self, fault: EndpointFault) -> EndpointFault:
        """Return a failure without the values of the headers, which a server may send back."""
        return fault.without(self._secrets)

    def get(self, route: str) -> Any:
        """Return the JSON that a GET answers; raise EndpointFault."""
        body = _Beginning(LONGEST_DOCUMENT)
        try:
            self.exchange(self.request_head(route, 0), body.take)
            return read_json(body.data)
        except ValueError:
            text = f"{route} is not JSON: {error_text(body.data[:80])}"
            raise self.without_secrets(EndpointFault("protocol", text, API_HINT)) from None
        except _LongError as error:
            self.close()
            raise EndpointFault("protocol", f"{route} has no end", API_HINT) from error

    def interrupt(self) -> None:
        """Have a request that another thread waits for fail at once."""
        if (open_socket := self._socket) is not None:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    def _ask(self, request: bytes) -> StreamHead:
        if self._socket is not None and self._is_spoilt(self._socket):
            self.close()
        self._was_idle = self._socket is not None
        if self._socket is None:
            self._socket = self._open()
        self._socket.sendall(request)
        return self._read_head()

    @staticmethod
    def _is_spoilt(idle: socket.socket) -> bool:
        """Return whether an idle connection was closed, or has bytes that nobody requested.

        They would be taken for the next answer. Under TLS that cannot be seen beforehand.
        """
        if isinstance(idle, ssl.SSLSocket):
            return False
        idle.settimeout(0)
        try:
            idle.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _open(self) -> socket.socket:
        address = (self.address.host, self.address.port)
        plain = socket.create_connection(address, timeout=self._timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return plain
        return self._context.wrap_socket(plain, server_hostname=self.address.host)

    def _receive(self) -> bytes:
        assert self._socket is not None
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        # A stream may trickle: the time for all of it counts, not that of a read.
        if left < self._timeout / 2:
            self._socket.settimeout(left)
        data = self._socket.recv(READ)
        if not data:
            raise _ClosedError
        return data

    def _read_head(self) -> StreamHead:
        """Return the head of the answer, after those that only say that it will come (1xx)."""
        assert self._socket is not None
        self._socket.settimeout(self._timeout)
        while (head := self._read_one_head()).status in range(100, 200):
            if head.status == 101:
                raise EndpointFault("protocol", "the server wants another protocol (HTTP 101)")
        return head

    def _read_one_head(self) -> StreamHead:
        data = self._rest
        while b"\r\n\r\n" not in data:
            if len(data) > LONGEST_HEAD or (data and not b"HTTP/".startswith(data[:5])):
                raise EndpointFault("protocol", f"this is not HTTP: {data[:40]!r}", API_HINT)
            data += self._receive()
        head, _, self._rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if len(words) < 2 or not words[1].isdigit():
            raise EndpointFault("protocol", f"this is not HTTP: {first[:40]!r}", API_HINT)
        pairs = (line.partition(":") for line in lines)
        return StreamHead(int(words[1]), {name.lower(): value.strip() for name, _, value in pairs})

    def _read_body(self, head: StreamHead, feed: Feed) -> None:
        if "chunked" in head.headers.get("transfer-encoding", "").lower():
            self._read_chunks(feed)
        else:
            self._read_bytes(head.length, feed)

    def _read_chunks(self, feed: Feed) -> None:
        clock = time.perf_counter_ns
        chunks = _ChunkDecoder()
        data, now = self._rest, clock()
        while True:
            payload = chunks.decode(data)
            if payload:
                feed(now, payload)
            if chunks.ended:
                break
            data = self._receive()
            now = clock()
        self._rest = chunks.rest

    def _read_bytes(self, left: int, feed: Feed) -> None:
        """Read ``left`` bytes, or where it is below 0 until the server closes the connection."""
        clock = time.perf_counter_ns
        data, self._rest = self._rest, b""
        while True:
            if left >= 0:
                data, self._rest = data[:left], data[left:]
                left -= len(data)
            if data:
                feed(clock(), data)
            if left == 0:
                return
            try:
                data = self._receive()
            except _ClosedError:
                if left > 0:
                    raise
                self.close()
                return

    def _beginning(self, head: StreamHead) -> bytes:
        """Return what a refusal says, as far as it is of use and comes at all."""
        body = _Beginning(LONGEST_ERROR)
        with contextlib.suppress(_ClosedError, _LongError, OSError, EndpointFault):
            head.require_plain()
            self._read_body(head, body.take)
        return body.data


class _ClosedError(Exception):
    """The server has closed the connection."""


class _LongError(Exception):
    """A body is longer than its kind can be."""


class _Beginning:
    """Takes the reads of a body; raises _LongError beyond ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.data = b""

    def take(self, _: int, data: bytes) -> None:
        """Add the bytes of a read."""
        self.data += data
        if len(self.data) > self._most:
            raise _LongError


class _ChunkDecoder:
    """Takes the framing of chunks off, however reads cut it."""

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""
        self._left = 0
        self._after_chunk = False

    def decode(self, data: bytes) -> bytes:
        """Return the payload that ``data`` adds; raise EndpointFault."""
        data = self.rest + data if self.rest else data
        parts, place, self.rest = [], 0, b""
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
            if self._after_chunk and end == place:
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
        if len(rest) > LONGEST_HEAD:
            raise EndpointFault("protocol", "a chunk has no size")
        self.rest = rest

    @staticmethod
    def _size(line: bytes) -> int:
        size = line.partition(b";")[0].strip()
        if not HEXADECIMAL.fullmatch(size):
            raise EndpointFault("protocol", f"a chunk has the size {line[:20]!r}")
        return int(size, 16)


def _tls_context(authorities: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authorities or None)
    except OSError as error:
        raise bad_value(f"--tls_ca={authorities}: {error.strerror or error}") from error


def models(connection: EndpointConnection) -> Iterator[str]:
    """Yield the names of the models that the server lists; raise EndpointFault."""
    answer = connection.get("/models")
    entries = answer.get("data") if isinstance(answer, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("id") if isinstance(entry, dict) else None
        # What cannot be printed cannot be typed after --model either.
        if isinstance(name, str) and name.isprintable():
            yield name
