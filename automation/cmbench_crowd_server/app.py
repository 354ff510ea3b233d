"""The server as one application, and who may ask it.

Everybody who reaches the port may read; writing needs a token where there is a file of tokens.
Without one only this machine's own programs may write: not a foreign page in a browser.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
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
from cmbench_crowd_server import api, pages
from cmbench_gui import explorer
from cmbench_gui.access import is_loopback, sealing, with_headers
from cmbench_gui.pages import STATIC, failure
from cmbench_gui.server import report_style
from cmbench_gui.site import Site

TEMPLATES = Path(__file__).parent / "templates"
IDLE_S = 20.0
"""So long a request may send nothing."""
SLOWEST = 4096
"""Bytes in a second that a request sends at least, in the mean; a modem does."""
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def create_app(site: Site, server: api.CrowdServer) -> Starlette:
    """Return the application that serves ``site`` with the uploads of ``server``."""
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
    app.state.site = replace(site, templates=(*site.templates, TEMPLATES))
    app.state.crowd = server
    return app


class _Pace:
    """How long a request may still be waited for: it must go on, and not too slowly."""

    def __init__(self) -> None:
        self.taken = 0
        self._began = time.monotonic()

    def left(self) -> float:
        """Seconds until it is too slow."""
        until = self._began + IDLE_S + self.taken / SLOWEST
        return max(0.0, min(IDLE_S, until - time.monotonic()))


class Gate:
    """ASGI middleware: ends requests that do not go on, and those that pages of others send."""

    def __init__(self, app: ASGIApp, local: bool) -> None:
        self._app = app
        self._local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        sealed = sealing(send)
        if problem := _impossible(scope, request.headers.get("host", "")):
            await api.problem(problem)(scope, receive, sealed)
            return
        pace = _Pace()

        async def patient() -> Message:
            message = await asyncio.wait_for(receive(), pace.left())
            pace.taken += len(message.get("body", b""))
            return message

        writes = request.method not in ("GET", "HEAD")
        why = self._foreign(request, writes)
        if why:
            await api.problem(Error("bad-token", why, hint="use cm"))(scope, receive, sealed)
            return
        await self._app(scope, patient if writes else receive, sealed)

    def _foreign(self, request: Request, writes: bool) -> str:
        """Return why a browser should not have sent this; empty where it may."""
        host = request.headers.get("host", "")
        if self._local and not is_loopback(urlsplit(f"//{host}").hostname or ""):
            return "this server does not have that name"
        site = request.headers.get("sec-fetch-site", "none")
        if writes and ("origin" in request.headers or site != "none"):
            return "uploads from pages in a browser are not accepted"
        return ""


def _impossible(scope: Scope, host: str) -> Error | None:
    """Return why no address is as this request says: then none can be made of it anywhere."""
    if not scope["path"].isprintable() or b"%00" in scope["query_string"]:
        # PostgreSQL has no such texts, and no name of anything here is one.
        return Error("upload-not-found", "there is no such address", hint="see /api")
    if host and not _HOST.fullmatch(host):
        return Error("bad-value", "there is no valid Host header", hint="use cm, or a browser")
    return None


async def _known(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Error)
    if request.url.path.startswith("/api/"):
        return api.problem(problem)
    return failure(request, api.public_error(problem), api.STATUS.get(problem.code, 0))


async def _http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    error = Error("refused", f"{request.url.path}: {problem.detail}", hint="see /api")
    answer = api.problem(error) if request.url.path.startswith("/api/") else failure(request, error)
    answer.status_code = problem.status_code
    return answer


async def _slow(request: Request, problem: Exception) -> Response:
    words = f"nothing came for {IDLE_S:g} s, or less than {SLOWEST:,} bytes in a second"
    return api.problem(Error("too-slow", words, hint="continue from Upload-Offset"))


async def _gone(request: Request, problem: Exception) -> Response:
    # The answer is unread: received bytes stay, and the next request resumes there.
    return Response(status_code=400)


async def _unknown(request: Request, problem: Exception) -> Response:
    answer = await _known(request, internal(problem))
    # This one does not come past the gate.
    answer.raw_headers = with_headers(answer.raw_headers)
    return answer


def serve(app: Starlette, listener: socket.socket, proxied: bool) -> None:
    """Serve until Ctrl-C or SIGTERM; ``proxied`` trusts a proxy on this machine for addresses."""
    import uvicorn

    from cmbench_crowd_server.connections import MOST_AT_ONCE, MOST_OF_ONE, impatient

    config = uvicorn.Config(
        app,
        http=impatient(MOST_AT_ONCE if proxied else MOST_OF_ONE),
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
