"""An endpoint to measure against: streams of a known length, and every way to answer badly."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

Event = dict[str, Any]


def token(text: str, **more: Any) -> Event:
    """Return an event of the chat route with one token."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **more}]}


def role() -> Event:
    """Return the event that names a role, and has no token."""
    return {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}


def finish(reason: str = "length") -> Event:
    """Return the event that ends an answer."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def usage(tokens: int, prompt: int = 7, cached: int = 0) -> Event:
    """Return the event with the server's own counts."""
    details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached else {}
    return {
        "choices": [],
        "usage": {"completion_tokens": tokens, "prompt_tokens": prompt} | details,
    }


def as_sse(event: Event | str) -> bytes:
    """Return an event in the framing of server-sent events."""
    text = event if isinstance(event, str) else json.dumps(event, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


Piece = bytes | float
"""What a stream is made of: bytes that are sent at once, or seconds to wait."""
Script = Callable[["EndpointRequest"], Iterator[Piece]]


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """A request as the server has read it."""

    route: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """Return the whole prompt."""
        if "prompt" in self.body:
            return str(self.body["prompt"])
        return "\n".join(str(message["content"]) for message in self.body["messages"])


def answer(tokens: int = 4, gap: float = 0.0, ttft: float = 0.0) -> Script:
    """Return a script of a plain answer; times in seconds."""

    def stream(request: EndpointRequest) -> Iterator[Piece]:
        most = int(request.body.get("max_tokens") or tokens)
        count = min(tokens, most)
        yield as_sse(role())
        yield ttft
        for number in range(count):
            yield as_sse(token(f"w{number} "))
            yield gap
        yield as_sse(finish()) + as_sse(usage(count)) + as_sse("[DONE]")

    return stream


@dataclass(slots=True)
class EndpointLab:
    """A running server: its URL, the script it plays, and what it was asked."""

    url: str
    script: Script
    models: list[str] = field(default_factory=lambda: ["tiny"])
    requests: list[EndpointRequest] = field(default_factory=list)
    status: int = 200
    head: dict[str, str] = field(default_factory=dict)
    plain: bytes = b""
    close: bool = False
    refuses: Callable[[EndpointRequest], bool] = lambda _: False


class _Handler(socketserver.StreamRequestHandler):
    lab: ClassVar[EndpointLab]
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while self._one() and not self.lab.close:
            pass

    def _one(self) -> bool:
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) < 2:
            return False
        headers = {}
        while header := self.rfile.readline().decode("latin-1").strip():
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = json.loads(self.rfile.read(int(headers.get("content-length", 0))) or b"{}")
        request = EndpointRequest(line[1], headers, body)
        try:
            self._answer(request)
        except OSError:
            return False
        return True

    def _answer(self, request: EndpointRequest) -> None:
        if request.route.endswith("/models"):
            listed = {"data": [{"id": name} for name in self.lab.models]}
            return self._send(
                200, {"content-type": "application/json"}, json.dumps(listed).encode()
            )
        self.lab.requests.append(request)
        if self.lab.refuses(request):
            return self._send(400, {}, b'{"error": "the context is too short"}')
        if self.lab.status != 200 or self.lab.plain:
            return self._send(self.lab.status, self.lab.head, self.lab.plain)
        closing = "connection: close\r\n" if self.lab.close else ""
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            + closing.encode()
            + b"transfer-encoding: chunked\r\n\r\n"
        )
        for piece in self.lab.script(request):
            if isinstance(piece, float):
                time.sleep(piece)
            elif piece:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _send(self, status: int, head: dict[str, str], body: bytes) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        first = f"HTTP/1.1 {status} Status\r\n{lines}content-length: {len(body)}\r\n\r\n"
        self.wfile.write(first.encode() + body)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512


@contextmanager
def endpoint(script: Script | None = None, **settings: Any) -> Iterator[EndpointLab]:
    """Run a server on loopback that plays ``script``."""
    handler = type("_LabHandler", (_Handler,), {})
    with _Server(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        lab = EndpointLab(url, script or answer(), **settings)
        handler.lab = lab
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield lab
        finally:
            server.shutdown()
