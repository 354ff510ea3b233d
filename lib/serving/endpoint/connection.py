"""HTTP/1.1 over one socket: a request out, a stream of server-sent events in.

``http.client`` reads a chunk at a time through three layers of buffers; the figures are moments of
reads, so this reads what the kernel has, and takes the time next to the call.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from common.problems import Hint, bad_value

READ = 1 << 16
LONGEST_HEAD = 1 << 16
HTML = "a page of HTML, and no answer of the API"
PORTS = {"http": 80, "https": 443}
HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{1,12}")
ROUTES = ("/chat/completions", "/completions", "/models")

Feed = Callable[[int, bytes], None]
"""Called with the moment of a read, in ns of ``perf_counter_ns``, and its bytes."""


class EndpointFault(Exception):  # noqa: N818
    """A request that failed. ``kind`` is counted in results; ``hint`` is the next step."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = Hint(hint)


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
        return self.headers.get("connection", "keep-alive").lower() != "close"


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
        lines = [("Host", host), ("Accept", "text/event-stream, application/json"), *headers]
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines).encode("latin-1")
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
                raise _refusal(head, self._whole(head))
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
            raise _network_fault(self.address, error) from error
        except EndpointFault:
            self.close()
            raise
        if not head.stays_open:
            self.close()
        return head

    def get(self, route: str) -> Any:
        """Return the JSON that a GET answers; raise EndpointFault."""
        parts: list[bytes] = []
        self.exchange(self.request_head(route, 0), lambda _, data: parts.append(data))
        try:
            return json.loads(b"".join(parts))
        except ValueError as error:
            raise EndpointFault("protocol", f"{route} is not JSON: {parts[:1]!r:.80}") from error

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
        self._was_idle = self._socket is not None
        if self._socket is None:
            self._socket = self._open()
        self._socket.sendall(request)
        return self._read_head()

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
        assert self._socket is not None
        self._socket.settimeout(self._timeout)
        data = self._rest
        while b"\r\n\r\n" not in data:
            if len(data) > LONGEST_HEAD or (data and not b"HTTP/".startswith(data[:5])):
                raise EndpointFault("protocol", f"this is not HTTP: {data[:40]!r}")
            data += self._receive()
        head, _, self._rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if len(words) < 2 or not words[1].isdigit():
            raise EndpointFault("protocol", f"this is not HTTP: {first[:40]!r}")
        pairs = (line.partition(":") for line in lines)
        return StreamHead(int(words[1]), {name.lower(): value.strip() for name, _, value in pairs})

    def _read_body(self, head: StreamHead, feed: Feed) -> None:
        clock = time.perf_counter_ns
        if "chunked" in head.headers.get("transfer-encoding", "").lower():
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
            return
        length = head.headers.get("content-length", "")
        left = int(length) if length.isdigit() else -1
        data, self._rest = self._rest, b""
        while True:
            if data:
                feed(clock(), data if left < 0 else data[:left])
                left = left if left < 0 else max(0, left - len(data))
            if left == 0:
                return
            try:
                data = self._receive()
            except _ClosedError:
                if left > 0:
                    raise
                self.close()
                return

    def _whole(self, head: StreamHead) -> bytes:
        parts: list[bytes] = []
        with contextlib.suppress(_ClosedError, OSError):
            self._read_body(head, lambda _, data: parts.append(data))
        return b"".join(parts)


class _ClosedError(Exception):
    """The server has closed the connection."""


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


def _refusal(head: StreamHead, body: bytes) -> EndpointFault:
    """Return what a status other than 200 means, in the server's words."""
    message = " ".join(error_text(body).split())[:300]
    kind, hint = f"status-{head.status}", ""
    if head.status in (401, 403):
        hint = "--api_key_env=NAME of a variable that holds the key"
    elif head.status == 404 or message == HTML:
        hint = "does the URL end in /v1, and is the model's name right? --url, --model"
    elif head.status in (429, 503):
        wait = head.headers.get("retry-after", "")
        hint = f"the server asks to wait {wait} s" if wait else "fewer requests in flight"
    return EndpointFault(kind, f"HTTP {head.status}: {message or 'no reason'}", hint)


def error_text(body: bytes) -> str:
    """Return the message of an error of the API, or the text itself."""
    try:
        document = json.loads(body)
    except ValueError:
        return HTML if body.lstrip()[:1] == b"<" else body.decode("utf-8", "replace")
    error = document.get("error", document) if isinstance(document, dict) else document
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return error if isinstance(error, str) else json.dumps(error)


def _network_fault(address: EndpointAddress, error: OSError) -> EndpointFault:
    if isinstance(error, ssl.SSLCertVerificationError):
        return EndpointFault("tls", f"the certificate is not trusted: {error.verify_message}",
                             "--tls_ca=FILE")  # fmt: skip
    if isinstance(error, ssl.SSLError):
        return EndpointFault("tls", f"no TLS: {error.reason}", "http:// or https:// in --url")
    if isinstance(error, ConnectionRefusedError):
        return EndpointFault("refused", f"nothing listens at {address.host}:{address.port}")
    if isinstance(error, socket.gaierror):
        return EndpointFault("refused", f"{address.host}: {error.strerror}", "check --url")
    return EndpointFault("reset", str(error.strerror or error))


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
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            yield entry["id"]
