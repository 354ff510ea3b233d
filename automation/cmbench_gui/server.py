"""The server: the pages of all parts as one application, on a port of this machine."""

from __future__ import annotations

import socket
from contextlib import suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cmbench.errors import Error, internal
from cmbench_gui import composer, explorer, jobs
from cmbench_gui.access import Guard
from cmbench_gui.pages import STATIC, failure
from cmbench_gui.site import Site


def create_app(site: Site) -> Starlette:
    """The application that serves ``site``."""
    app = Starlette(
        routes=[
            *composer.routes(),
            *jobs.routes(),
            *explorer.routes(),
            Route("/static/report.css", report_style),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={Error: _known, HTTPException: _http, Exception: _unknown},
    )
    app.state.site = site
    return app


async def report_style(request: Request) -> Response:
    """The style sheet of reports: a result looks the same on a page and in a file."""
    from starlette.responses import FileResponse

    from mlperf.pages.render import COMPONENTS

    return FileResponse(COMPONENTS / "style.css", media_type="text/css")


async def _known(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Error)
    return failure(request, problem)


async def _http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    error = Error("refused", f"{request.url.path}: {problem.detail}", hint="go to the first page")
    return failure(request, error, problem.status_code)


async def _unknown(request: Request, problem: Exception) -> Response:
    return failure(request, internal(problem), 500)


def listening(address: str, port: int, any_port: bool = False) -> socket.socket:
    """A socket that listens; with ``any_port`` the next free one where ``port`` is taken.

    Raises ``cannot-listen``.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    reason = ""
    for candidate in range(port, min(65536, port + (20 if any_port else 1))):
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, candidate))
            made.listen(128)
        except OSError as problem:
            made.close()
            reason = problem.strerror or str(problem)
        else:
            return made
    raise Error(
        "cannot-listen",
        f"no page can be served at {address}, port {port}: {reason}",
        hint=f"use another port: --port={port + 1}; 0 takes any that is free",
    )


def serve(app: Starlette, listener: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; open streams are cut off after two seconds."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    try:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        composer.close(app.state)
