"""A connection to the API: where it is, what is sent, and what a body must be."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from common.problems import bad_value
from serving.http_client import (
    Feed,
    HttpClient,
    HttpFault,
    HttpServer,
    ResponseHead,
    Steps,
    authority,
    complete,
)

from .faults import (
    API_HINT,
    LEAST_SECRET,
    EndpointFault,
    error_text,
    from_network,
    read_json,
    refusal,
)

LONGEST_ERROR = 1 << 16
LONGEST_DOCUMENT = 1 << 24
PORTS = {"http": 80, "https": 443}
ROUTES = ("/chat/completions", "/completions", "/models")


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """Where the API is: ``base`` is the path in front of its routes, such as ``/v1``."""

    scheme: str
    host: str
    port: int
    base: str

    def __str__(self) -> str:
        return f"{self.scheme}://{authority(self.host, self.port)}{self.base}"


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


class EndpointConnection:
    """A connection that is opened when it is needed, and again after the server has closed it.

    One ``in_steps`` is for a loop; ``client`` is what that waits with.
    """

    def __init__(
        self,
        address: EndpointAddress,
        *,
        timeout: float,
        headers: tuple[tuple[str, str], ...] = (),
        tls_ca: str = "",
        in_steps: bool = False,
    ) -> None:
        self.address = address
        host = authority(address.host, address.port)
        lines = [("Host", host), ("Accept", "text/event-stream, application/json"),
                 ("Accept-Encoding", "identity"), *headers]  # fmt: skip
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines).encode("latin-1")
        # A key is sent as "Bearer KEY"; a server may quote either.
        words = [value.removeprefix("Bearer ") for _, value in headers]
        self._secrets = tuple(word for word in words if len(word) >= LEAST_SECRET)
        context = _tls_context(tls_ca) if address.scheme == "https" else None
        server = HttpServer(address.host, address.port, host)
        self.client = HttpClient(server, timeout, context, repeats=True, in_steps=in_steps)

    def request_head(self, route: str, size: int) -> bytes:
        """Return the head of a request with a body of ``size`` bytes; of a GET without one."""
        method = "POST" if size else "GET"
        body = f"Content-Type: application/json\r\nContent-Length: {size}\r\n" if size else ""
        line = f"{method} {self.address.base}{route} HTTP/1.1\r\n{body}"
        return line.encode("ascii") + self._headers + b"\r\n"

    def exchange(self, request: bytes, feed: Feed) -> ResponseHead:
        """Send ``request`` and pass what a 200 answers to ``feed``, read by read.

        Raises EndpointFault. A server may have closed an idle connection: then the request, of
        which nothing was answered, is sent once more over a new one.
        """
        return complete(self.exchange_steps(request, feed))

    def exchange_steps(self, request: bytes, feed: Feed) -> Steps[ResponseHead]:
        """Do as ``exchange`` does, in steps."""
        try:
            head = yield from self.client.ask_steps(request)
            if head.status != 200:
                body = yield from self._beginning(head)
                raise refusal(head.status, head.fields, body)
            _require_plain(head)
            yield from self.client.stream_steps(head, feed)
        except HttpFault as fault:
            raise self.without_secrets(from_network(fault)) from fault
        except EndpointFault as fault:
            self.close()
            raise self.without_secrets(fault) from None
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
        self.client.interrupt()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self.client.close()

    def _beginning(self, head: ResponseHead) -> Steps[bytes]:
        """Return what a refusal says, as far as it is of use and comes at all."""
        body = _Beginning(LONGEST_ERROR)
        with contextlib.suppress(_LongError, HttpFault, EndpointFault):
            _require_plain(head)
            yield from self.client.stream_steps(head, body.take)
        return body.data


def _require_plain(head: ResponseHead) -> None:
    """Raise EndpointFault for a compressed body: its reads are not those of tokens."""
    for name, plain in (("content-encoding", ""), ("transfer-encoding", "chunked")):
        coding = head.fields.get(name, "").lower()
        if coding not in ("", "identity", plain):
            raise EndpointFault(
                "protocol",
                f"the answer is compressed ({coding[:20]}), though identity was asked for",
                "take out the proxy that compresses, or have it leave out this route",
            )


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
