"""The protocol over HTTP, without any package."""

from __future__ import annotations

import json
import re
import ssl
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from serving.http_client import HttpClient, HttpFault, HttpServer

from .address import Address
from .connection import Connection, ConnectionOptions, as_inputs, as_outputs
from .errors import KserveError
from .regions import RegionSlice
from .tensors import WireTensor
from .wire import Outputs, ResponseLayout, decode_outputs, encode_request, read_json, read_layout

# The paths of the gRPC service's methods; those in the second table are posts.
ASKED = {
    "ServerMetadata": "/v2",
    "ServerLive": "/v2/health/live",
    "ServerReady": "/v2/health/ready",
    "ModelReady": "{model}/ready",
    "ModelMetadata": "{model}",
    "ModelConfig": "{model}/config",
    "ModelStatistics": "{model}/stats",
    "SystemSharedMemoryStatus": "/v2/systemsharedmemory/status",
}
POSTED = {
    "RepositoryIndex": "/v2/repository/index",
    "RepositoryModelLoad": "/v2/repository/models/{model_name}/load",
    "RepositoryModelUnload": "/v2/repository/models/{model_name}/unload",
    "SystemSharedMemoryRegister": "/v2/systemsharedmemory/region/{name}/register",
    "SystemSharedMemoryUnregister": "/v2/systemsharedmemory/region/{name}/unregister",
}
LENGTH = "inference-header-content-length"
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The bytes of a request, and the slices for its outputs."""

    head: bytes
    parts: tuple[memoryview, ...]
    outputs: Outputs


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response; ``body`` is valid until the next request."""

    status: int
    fields: Mapping[str, str]
    body: memoryview


class HttpConnection(Connection):
    """A persistent HTTP connection."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        super().__init__(address, options)
        self._client = HttpClient(
            HttpServer(address.host, address.port, str(address)),
            options.timeout,
            tls_context(address, options),
        )
        self._fields = _fields(address, options)
        self._lock = threading.Lock()
        # Answers of one model differ in their tensors, seldom in their JSON.
        self._layout: tuple[bytes, ResponseLayout] = (b"", ResponseLayout(()))

    def prepare(
        self,
        model: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | Mapping[str, RegionSlice | None] = (),
        version: str = "",
    ) -> HttpRequest:
        """Return the bytes of a request, made once."""
        places = as_outputs(outputs)
        text, parts = encode_request(as_inputs(inputs), places)
        extra = f"Inference-Header-Content-Length: {len(text)}\r\n"
        extra += "Content-Type: application/octet-stream\r\n"
        coding = self.options.compression
        if coding != "none":
            extra += f"Content-Encoding: {coding}\r\nAccept-Encoding: {coding}\r\n"
            text, parts = compressed(coding, [memoryview(text), *parts]), []
        size = len(text) + sum(len(part) for part in parts)
        path = f"{_model(model, version)}/infer"
        return HttpRequest(self._head("POST", path, size, extra) + text, tuple(parts), places)

    def run(self, request: HttpRequest) -> dict[str, WireTensor]:
        """Send them; the outputs lie in the buffer that the next answer goes to."""
        with self._lock:
            reply = self._exchange(request.head, request.parts)
            if reply.status != 200:
                raise _refusal(reply)
            text, data = self._split(reply)
            if text != self._layout[0]:
                self._layout = (text, read_layout(text))
            return decode_outputs(self._layout[1], data, request.outputs)

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def interrupt(self) -> None:
        """End the connection under the thread that waits for it."""
        self._client.interrupt()

    def _split(self, reply: HttpResponse) -> tuple[bytes, memoryview]:
        length = reply.fields.get(LENGTH)
        if length is None:
            return bytes(reply.body), reply.body[:0]
        if not length.isascii() or not length.isdigit() or int(length[:12]) > len(reply.body):
            raise KserveError("protocol", f'"{length[:30]}" bytes of JSON in {len(reply.body)}')
        return bytes(reply.body[: int(length)]), reply.body[int(length) :]

    def _exchange(self, head: bytes, parts: Sequence[memoryview] = ()) -> HttpResponse:
        try:
            answer = self._client.ask(head, parts)
            return HttpResponse(answer.status, answer.fields, self._client.whole(answer))
        except HttpFault as fault:
            raise KserveError(fault.kind, str(fault)) from fault

    def _head(self, method: str, path: str, size: int, extra: str = "") -> bytes:
        first = f"{method} {self.address.path}{path} HTTP/1.1\r\n"
        return f"{first}{self._fields}{extra}Content-Length: {size}\r\n\r\n".encode("latin-1")

    def _get(self, question: str, fields: dict[str, Any]) -> HttpResponse:
        named = {name: quote(str(value), safe="") for name, value in fields.items()}
        if "name" in fields:
            named["model"] = _model(fields["name"], fields.get("version", ""))
        if question in ASKED:
            head = self._head("GET", ASKED[question].format(**named), 0)
            return self._exchange(head)
        # What the path says is not said again.
        body = {key: value for key, value in fields.items() if key not in ("name", "model_name")}
        text = json.dumps(body).encode()
        head = self._head("POST", POSTED[question].format(**named), len(text))
        return self._exchange(head + text)

    def _ask(self, question: str, **fields: Any) -> Any:
        with self._lock:
            reply = self._get(question, fields)
            if reply.status != 200:
                raise _refusal(reply)
            text = bytes(reply.body)
        return read_json(text) if text.strip() else {}

    def _is(self, question: str, **fields: Any) -> bool:
        with self._lock:
            return self._get(question, fields).status == 200


def tls_context(address: Address, options: ConnectionOptions) -> ssl.SSLContext | None:
    """Return the TLS context; None for an address without TLS.

    Raises KserveError when the CA file cannot be read.
    """
    if not address.tls:
        return None
    try:
        return ssl.create_default_context(cafile=options.tls_ca or None)
    except (OSError, ssl.SSLError) as error:
        raise KserveError("input", f"{options.tls_ca}: {error}") from error


def compressed(coding: str, parts: Sequence[memoryview]) -> bytes:
    """``parts`` as one compressed text; the protocol's "deflate" is that of zlib.

    Raises KserveError for another coding.
    """
    bits = {"gzip": 31, "deflate": zlib.MAX_WBITS}
    if coding not in bits:
        raise KserveError(
            "input", f'"{coding}" is not a compression method; there are gzip and deflate'
        )
    packer = zlib.compressobj(1, wbits=bits[coding])
    return b"".join([*(packer.compress(part) for part in parts), packer.flush()])


def _fields(address: Address, options: ConnectionOptions) -> str:
    lines = [f"Host: {address}"]
    for name, value in options.headers:
        if not _FIELD.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise KserveError("input", f"{name!r} with this value is not a header field")
        lines.append(f"{name}: {value}")
    return "".join(f"{line}\r\n" for line in lines)


def _model(name: str, version: str) -> str:
    if not name:
        raise KserveError("input", "no model is named")
    path = f"/v2/models/{quote(name, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path


def _refusal(reply: HttpResponse) -> KserveError:
    """What a server says to a request that it does not serve."""
    text = bytes(reply.body[:2000]).decode("utf-8", errors="replace").strip()
    try:
        content = json.loads(text)
        text = content["error"] if isinstance(content, dict) and "error" in content else text
    except ValueError:
        pass
    return KserveError(
        "status", f"{reply.status}: {text or 'no reason given'}", status=reply.status
    )
