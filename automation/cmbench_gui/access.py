"""Who may ask: one user, from pages of this server alone.

Whoever can press "run" is the user of this machine, and an open port is open to all who have an
account on it. So every page wants a cookie that only the printed address gives, and whatever writes
wants a token of the page and the page's own origin too. The host is checked against names that a
foreign site has pointed to this machine (DNS rebinding).
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from functools import cache
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cmbench.errors import Error
from cmbench_gui.pages import failure
from cmbench_gui.site import Site, site_of

MOST_BYTES = 256 * 1024
"""No form of ours is longer."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII)

HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob:; object-src 'none';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """ASGI middleware: refuses, lets in, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)

        body = b""
        if request.method not in ("GET", "HEAD"):
            body, receive = await _body(receive)
        answer = _refusal(request, body)
        await (answer or self._app)(scope, receive, sealing(send))


def sealing(send: Send) -> Send:
    """Return ``send`` such that every answer gets the headers of ours."""

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = with_headers(message["headers"])
        await send(message)

    return sealed


def with_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with those that every one of ours has."""
    own = {name for name, _ in headers}
    more = {**HEADERS, "cache-control": "no-store"}
    return headers + [(k.encode(), v.encode()) for k, v in more.items() if k.encode() not in own]


async def _body(receive: Receive) -> tuple[bytes, Receive]:
    """The body of a request, cut where it is too long, and a way to read it once more."""
    body, more = b"", True
    while more and len(body) <= MOST_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return whole.pop() if whole else await receive()

    return body, again


def _refusal(request: Request, body: bytes) -> Response | None:
    """The answer to a request that must not go on; ``None`` where it may."""
    site = site_of(request)
    if not _is_own(request.headers.get("host", ""), site):
        return _refused(request, "this server does not have that name", 400)
    if request.method not in ("GET", "HEAD", "POST"):
        return _refused(request, f"{request.method} is not supported", 405)
    if request.url.path.startswith("/enter/"):
        return _let_in(request, site)
    if request.url.path.startswith("/static/"):
        return None
    if not _same(request.cookies.get(site.cookie, ""), site.cookie_value):
        return _refused(request, "this browser has no access yet", 401)
    return _write_refusal(request, site, body) if request.method == "POST" else None


def _write_refusal(request: Request, site: Site, body: bytes) -> Response | None:
    if len(body) > MOST_BYTES:
        return _refused(request, "the request is too long", 413)
    headers = request.headers
    origin = headers.get("origin")
    foreign = origin is not None and origin.partition("://")[2] != headers["host"]
    if foreign or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return _refused(request, "the request came from a page of another site", 403)
    token = headers.get("x-token") or form_field(headers, body, "token")
    if not _same(token, site.token):
        return _refused(request, "the page is out of date", 403)
    return None


def form_field(headers: Mapping[str, str], body: bytes, name: str) -> str:
    """A field of a form of ours, which are short and hold no files; empty where there is none."""
    if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return ""
    return parse_qs(body.decode("utf-8", "replace")).get(name, [""])[0]


def _same(value: str, expected: str) -> bool:
    return hmac.compare_digest(value.encode(), expected.encode())


def _let_in(request: Request, site: Site) -> Response:
    if not _same(request.url.path.removeprefix("/enter/"), site.key.hex()):
        return _refused(request, "the key in that address is not the key of this server", 403)
    target = request.query_params.get("next", "/")
    # Only a path of this server: "//host" and "/\host" are other servers.
    inside = target.startswith("/") and not target.startswith(("//", "/\\"))
    answer = RedirectResponse(target if inside else "/", 303)
    answer.set_cookie(
        site.cookie, site.cookie_value, httponly=True, samesite="lax", max_age=31_536_000
    )
    return answer


def entrance(site: Site, page: str = "/") -> str:
    """The address that lets a browser in, and shows ``page``."""
    shown = "127.0.0.1" if site.address in ("", "0.0.0.0", "::") else site.address
    host = f"[{shown}]" if ":" in shown else shown
    query = "" if page == "/" else f"?next={quote(page, safe='/')}"
    return f"http://{host}:{site.port}/enter/{site.key.hex()}{query}"


def _is_own(host: str, site: Site) -> bool:
    """Whether a Host header names this server: an address, or a name that this machine has."""
    try:
        name = urlsplit(f"//{host}").hostname or "" if _HOST.fullmatch(host) else ""
    except ValueError:
        return False
    if name in ("localhost", site.address.lower()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return not is_loopback(site.address) and name in _names()
    return address.is_loopback or not is_loopback(site.address)


@cache
def _names() -> frozenset[str]:
    return frozenset(name.lower() for name in (socket.gethostname(), socket.getfqdn()))


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


_NEXT = {
    401: "open the address that the server printed when it started; "
    "`cm gui script` prints it again",
    403: "reload the page; if that does not help, open the address that `cm gui script` prints",
}


def _refused(request: Request, why: str, status: int) -> Response:
    hint = _NEXT.get(status, "open the address that `cm gui script` prints")
    return failure(request, Error("refused", why, hint=hint), status)
