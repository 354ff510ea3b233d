"""The server as one application, and who may ask it.

Everybody who reaches the port may read; writing needs a token where there is a file of tokens.
Without one only this machine's own programs may write: not a page of somebody else in a browser.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cmbench.errors import Error, internal
from cmbench_crowd.server import api, pages
from cmbench_gui import explorer
from cmbench_gui.guard import is_loopback, with_headers
from cmbench_gui.pages import STATIC, failure
from cmbench_gui.server import report_style
from cmbench_gui.site import Site

IDLE_S = 20.0
"""So long a request may send nothing."""
HEADER_S = 10.0
"""So long its first line and headers may take."""
MOST_AT_ONCE = 200
"""Connections."""


def create_app(site: Site, server: api.Server) -> Starlette:
    """The application that serves ``site`` with the uploads of ``server``."""
    app = Starlette(
        routes=[
            *api.routes(),
            *pages.routes(),
            *explorer.routes(),
            Route("/static/report.css", report_style),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Gate, local=server.tokens is None)],
        exception_handlers={
            Error: _known,
            HTTPException: _http,
            TimeoutError: _slow,
            ClientDisconnect: _gone,
            Exception: _unknown,
        },
    )
    app.state.site = site
    app.state.crowd = server
    return app


class Gate:
    """ASGI middleware: ends requests that do not go on, and those that pages of others send."""

    def __init__(self, app: ASGIApp, local: bool) -> None:
        self._app = app
        self._local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = with_headers(message["headers"])
            await send(message)

        async def patient() -> Message:
            return await asyncio.wait_for(receive(), IDLE_S)

        writes = request.method not in ("GET", "HEAD")
        why = self._foreign(request, writes)
        if why:
            await api.problem(Error("bad-token", why, hint="use cm"))(scope, receive, sealed)
            return
        await self._app(scope, patient if writes else receive, sealed)

    def _foreign(self, request: Request, writes: bool) -> str:
        """Why a browser should not have sent this; empty where it may."""
        host = request.headers.get("host", "")
        name = urlsplit(f"//{host}").hostname if "/" not in host and "@" not in host else None
        if self._local and not is_loopback(name or ""):
            return "this server does not go by that name"
        site = request.headers.get("sec-fetch-site", "none")
        if writes and ("origin" in request.headers or site != "none"):
            return "uploads are not taken from pages in a browser"
        return ""


async def _known(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Error)
    if request.url.path.startswith("/api/"):
        return api.problem(problem)
    return failure(request, problem, api.STATUS.get(problem.code, 0))


async def _http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    error = Error("refused", f"{request.url.path}: {problem.detail}", hint="see /api")
    answer = api.problem(error) if request.url.path.startswith("/api/") else failure(request, error)
    answer.status_code = problem.status_code
    return answer


async def _slow(request: Request, problem: Exception) -> Response:
    words = f"nothing came for {IDLE_S:g} s"
    return api.problem(Error("too-slow", words, hint="go on from Upload-Offset"))


async def _gone(request: Request, problem: Exception) -> Response:
    # Nobody reads it: what has come stays, and the next request goes on there.
    return Response(status_code=400)


async def _unknown(request: Request, problem: Exception) -> Response:
    return await _known(request, internal(problem))


def _impatient() -> type[asyncio.Protocol]:
    """The protocol of connections, loaded when it is served."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        """Hangs up where a request's first line and headers take too long."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self._wait()
            super().data_received(data)

        def _wait(self) -> None:
            before = self.cycle
            self.loop.call_later(HEADER_S, lambda: self._hang_up(before))

        def _hang_up(self, before: Any) -> None:
            if self.cycle is before and not self.transport.is_closing():
                self.transport.close()

    return Impatient


def serve(app: Starlette, listener: socket.socket, proxied: bool) -> None:
    """Serve until Ctrl-C or SIGTERM; ``proxied`` believes a proxy on this machine who has asked."""
    import uvicorn

    config = uvicorn.Config(
        app,
        http=_impatient(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=proxied,
        forwarded_allow_ips="127.0.0.1" if proxied else None,
        limit_concurrency=MOST_AT_ONCE,
        timeout_graceful_shutdown=2,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
