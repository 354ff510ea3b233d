"""The interface for programs: uploads that can be resumed, their state, and the list of work.

Errors are problems by RFC 9457, with the ``code`` of the error next to ``detail``.
"""

from __future__ import annotations

import hmac
import json
import re
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cmbench.errors import Error, visible
from cmbench_crowd import manifest as m
from cmbench_crowd_server import claims, work
from cmbench_crowd_server.checker import Checker
from cmbench_crowd_server.files import Files, Unpacker
from cmbench_crowd_server.ledger import (
    QUEUED,
    RECEIVING,
    Ledger,
    Row,
    manifest_of,
    public,
    sender_of,
)

T = TypeVar("T")

BASE = "/api/v1"
DELETE_HEADER = "X-Cmbench-Delete-Token"
_RANGE = re.compile(r"bytes (\d{1,12})-(\d{1,12})/(\d{1,12})")
_LONGEST_ASKED = 4096
_OLDEST = "2020-01-01"
_GUESSES, _MINUTE_S = 20, 60.0
_TICK_S = 3.0

STATUS = {
    "bad-file": 422,
    "bad-manifest": 422,
    "bad-signature": 422,
    "bad-token": 403,
    "bad-value": 400,
    "file-error": 500,
    "file-not-found": 500,
    "internal": 500,
    "lease-not-found": 404,
    "needs-token": 401,
    "no-database": 503,
    "no-space": 507,
    "no-work": 404,
    "not-writable": 500,
    "too-large": 413,
    "too-many": 429,
    "too-slow": 408,
    "upload-not-found": 404,
    "upload-removed": 410,
    "wrong-offset": 409,
    "wrong-state": 409,
}

_OWN = {
    "file-error": "the server cannot read or write its files",
    "file-not-found": "the server cannot find its files",
    "internal": "the server failed because of a bug",
    "no-database": "the server's database failed",
    "no-space": "the server's disk is full",
    "not-writable": "the server has no permission to write its files",
}
"""What is not the client's fault, without names of the server's folders."""

_BY_PROXIES = frozenset(("forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-real-ip"))
"""Headers of requests that a proxy has handed on."""


class TokenFile:
    """The words of a file, which is read again when it is another one."""

    def __init__(self) -> None:
        self._seen: tuple[int, ...] = ()
        self._words: tuple[bytes, ...] = ()

    def of(self, path: Path) -> tuple[bytes, ...]:
        """Return the words that are in the file now; none where it cannot be read."""
        try:
            seen, changed = _identity(path)
            # Clocks of files tick slowly: one that has just changed may change again unseen.
            if seen != self._seen or time.time() - changed < _TICK_S:
                # A byte that is no text spoils its own token, not those of all others.
                text = path.read_text(encoding="utf-8-sig", errors="replace")
                self._words = tuple(word.encode() for word in text.split())
                self._seen = seen
        except OSError:
            self._seen, self._words = (), ()
        return self._words


def _identity(path: Path) -> tuple[tuple[int, ...], float]:
    """Return the identity of a file and its content, and its time of change in s since 1970."""
    status = path.stat()
    names = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return names, max(status.st_mtime, status.st_ctime)


@dataclass(frozen=True, slots=True)
class CrowdServer:
    """The state of the handlers; without ``tokens``, a file, writing needs no token."""

    ledger: Ledger
    files: Files
    checker: Checker
    tokens: Path | None = None
    proxied: bool = False
    guesses: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=10_000))
    """When which network has named a wrong token."""
    words: TokenFile = field(default_factory=TokenFile)

    def network(self, request: Request) -> str:
        """Return the network of the client; empty if that is this machine, for trials.

        Requests that a proxy forwards without a trusted address are of one network.
        """
        address = request.client.host if request.client else ""
        proxied = self.proxied or not _BY_PROXIES.isdisjoint(request.headers)
        return self.ledger.network(address, proxied)

    def check_token(self, request: Request) -> None:
        """Let in who has a token that is in the file now.

        Raises ``needs-token``, ``bad-token``, and ``too-many`` for a network that guesses.
        """
        if self.tokens is None:
            return
        word, _, token = request.headers.get("authorization", "").partition(" ")
        if word.lower() != "bearer" or not token.strip():
            raise Error("needs-token", "this server needs a token", hint="ask who runs it")
        network = self.network(request)
        since = time.monotonic() - _MINUTE_S
        if sum(at > since and who == network for at, who in self.guesses) >= _GUESSES:
            raise Error("too-many", "too many wrong tokens came from here", hint="wait a minute")
        tokens = self.words.of(self.tokens)
        if not any(hmac.compare_digest(token.strip().encode(), valid) for valid in tokens):
            self.guesses.append((time.monotonic(), network))
            raise Error(
                "bad-token", "this token is not, or no longer, valid", hint="ask for a new one"
            )


def server_of(request: Request) -> CrowdServer:
    """Return the server that a request is for."""
    server: CrowdServer = request.app.state.crowd
    return server


async def work_of(make: Callable[[], T]) -> T:
    """Return what ``make`` gives, in a thread."""
    return await to_thread.run_sync(make)


def public_error(error: Error) -> Error:
    """Return an error as others may see it; the server's own is printed on its terminal."""
    if error.code not in _OWN:
        return error
    print(visible(error.render()), file=sys.stderr, flush=True)
    return Error(error.code, _OWN[error.code], hint="try again later; what was received is kept")


def problem(error: Error) -> Response:
    """An error as a problem."""
    error = public_error(error)
    status = STATUS.get(error.code, 400)
    body: dict[str, Any] = {"type": "about:blank", "title": error.code, "status": status}
    body |= {"code": error.code, "detail": error.message, "hint": error.hint}
    body |= {"commands": list(error.hint.commands)}
    headers = {"retry-after": "3600"} if status == 429 else {}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


async def post_run(request: Request) -> Response:
    """Take a signed manifest: 201, or 200 where it is here already."""
    server = server_of(request)
    server.check_token(request)
    data = await _body(request, m.LARGEST)
    manifest = await work_of(lambda: m.verify(data, request.headers.get(m.SIGNATURE_HEADER, "")))
    if request.headers.get("idempotency-key", m.digest(data)) != m.digest(data):
        raise Error(
            "bad-value",
            "Idempotency-Key is not the SHA-256 of the manifest",
            hint="leave it out, or correct it",
        )
    network = server.network(request)
    server.files.check_room(sum(file.bytes for file in manifest.files))
    _check_day(manifest)
    claims.refuse(manifest)
    new = await work_of(lambda: server.ledger.receive(data, manifest, network))
    state = (await work_of(lambda: server.ledger.row(manifest.id)))["state"]
    missing = await work_of(lambda: _wanted(server.files, manifest)) if state == RECEIVING else []
    answer = {
        "id": manifest.id,
        "wanted": missing,
        "delete_token": server.ledger.delete_token(manifest.id),
    }
    return JSONResponse(answer, 201 if new else 200)


def _check_day(manifest: m.Manifest) -> None:
    """Raise ``bad-manifest`` for a result of days to come; a clock may be a day ahead."""
    latest = (datetime.now(timezone.utc) + timedelta(days=1)).date().isoformat()
    if not _OLDEST <= manifest.created <= latest:
        words = f"the manifest is refused: created is {manifest.created}, not {_OLDEST} to {latest}"
        raise Error("bad-manifest", words, hint="set the clock of the machine, and measure again")


def _wanted(files: Files, manifest: m.Manifest) -> list[dict[str, Any]]:
    missing = []
    for file in manifest.files:
        if not file.bytes and not files.is_whole(manifest.id, file):
            with files.writing(manifest.id, file):
                pass
            files.finish(manifest.id, file)
        if not files.is_whole(manifest.id, file):
            missing.append({"sha256": file.sha256, "offset": files.offset(manifest.id, file)})
    return missing


async def head_file(request: Request) -> Response:
    """Where a file goes on: ``Upload-Offset``."""
    server = server_of(request)
    row, file = await work_of(lambda: _requested_file(server, request))
    return _offset(server.files.offset(row["id"], file))


async def put_file(request: Request) -> Response:
    """Append to a file, from the byte on that ``Content-Range`` names."""
    server = server_of(request)
    server.check_token(request)
    row, file = await work_of(lambda: _requested_file(server, request))
    run, files = row["id"], server.files
    if files.is_whole(run, file):
        return _offset(file.bytes)
    if row["state"] != RECEIVING:
        raise Error(
            "wrong-state", "nothing more is accepted for this result", hint="send another one"
        )
    start, end = _range(request, file)
    files.check_room(end - start)
    unpacker = Unpacker(end - start, _is_packed(request))
    with files.writing(run, file) as part:
        if part.size != start:
            words = f"the next byte is {part.size}, not {start}"
            raise Error(
                "wrong-offset", words, hint="ask for Upload-Offset with HEAD, and continue there"
            )
        async for piece in _pieces(request, unpacker):
            await work_of(lambda piece=piece: part.write(piece))  # type: ignore[misc]
        reached = part.size
        if reached == file.bytes:
            await work_of(lambda: files.finish(run, file))
    return _offset(reached)


async def _pieces(request: Request, unpacker: Unpacker) -> AsyncIterator[bytes]:
    async for data in request.stream():
        for piece in unpacker.feed(data):
            yield piece


def _offset(bytes_: int) -> Response:
    return Response(status_code=204, headers={"upload-offset": str(bytes_)})


def _is_packed(request: Request) -> bool:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding not in ("identity", "gzip"):
        raise Error("bad-value", f"Content-Encoding {encoding:.20} is not known", hint="use gzip")
    return encoding == "gzip"


def _range(request: Request, file: m.ManifestFile) -> tuple[int, int]:
    """Return the bytes of the file that a request brings, as Python counts them."""
    header = request.headers.get("content-range", "")
    match = _RANGE.fullmatch(header)
    first, last, total = map(int, match.groups()) if match else (0, 0, -1)
    if total != file.bytes or not first <= last < total:
        words = f"Content-Range is {header[:60]!r}"
        hint = f"write bytes FIRST-LAST/{file.bytes}"
        raise Error("bad-value", words, hint=hint)
    return first, last + 1


def _requested_file(server: CrowdServer, request: Request) -> tuple[Row, m.ManifestFile]:
    row = server.ledger.row(request.path_params["id"])
    sha256 = request.path_params["sha256"]
    file = next(
        (candidate for candidate in manifest_of(row).files if candidate.sha256 == sha256), None
    )
    if file is None:
        raise Error("upload-not-found", "its manifest names no such file", hint="check the digest")
    return row, file


async def finalize(request: Request) -> Response:
    """All files are here: let them be checked."""
    server, run = server_of(request), request.path_params["id"]
    server.check_token(request)
    row = await work_of(lambda: server.ledger.row(run))
    if row["state"] == RECEIVING:
        lacking = await work_of(lambda: _wanted(server.files, manifest_of(row)))
        if lacking:
            words = f"{len(lacking)} files are not complete yet"
            raise Error("wrong-state", words, hint="send what POST /api/v1/runs asks for")
        await work_of(lambda: server.ledger.move(run, (RECEIVING,), QUEUED))
        server.checker.wake()
    return JSONResponse(public(await work_of(lambda: server.ledger.row(run))), 202)


async def get_run(request: Request) -> Response:
    """The state of a result, its tier, and which checks it has passed."""
    server, run = server_of(request), request.path_params["id"]
    return JSONResponse(public(await work_of(lambda: server.ledger.row(run))))


async def delete_run(request: Request) -> Response:
    """Remove a result with all of its files."""
    server, run = server_of(request), request.path_params["id"]
    token = request.headers.get(DELETE_HEADER, "")
    await work_of(lambda: server.checker.remove(run, token))
    return Response(status_code=204)


async def ready(request: Request) -> Response:
    """Report whether an upload would be accepted now from this client."""
    server = server_of(request)
    server.check_token(request)
    await work_of(lambda: server.files.check_room(0))
    return Response(status_code=204)


async def get_work(request: Request) -> Response:
    """Return the open work."""
    ledger = server_of(request).ledger
    items = await work_of(lambda: work.open_work(ledger))
    return JSONResponse({"work": [work.public_work(item) for item in items[: work.MOST_LISTED]]})


async def lease_work(request: Request) -> Response:
    """Lease work to the key that has signed ``{"key": …, "do": "lease", "work": id or ""}``."""
    server = server_of(request)
    server.check_token(request)
    sender, requested = await _signed(request, "lease")
    network = server.network(request)
    lease = await work_of(lambda: work.lease(server.ledger, sender, requested, network))
    return JSONResponse(lease, 201)


async def return_work(request: Request) -> Response:
    """Give back a lease of the key that has signed ``{"key": …, "do": "return", "work": id}``."""
    server, name = server_of(request), request.path_params["id"]
    server.check_token(request)
    sender, signed = await _signed(request, "return")
    if signed != name:
        raise _not_signed()
    await work_of(lambda: work.give_back(server.ledger, name, sender))
    return Response(status_code=204)


async def _signed(request: Request, does: str) -> tuple[str, str]:
    """Who has signed that this is to be done, and with which work; raises ``bad-signature``."""
    data = await _body(request, _LONGEST_ASKED)
    try:
        fields = json.loads(data)
        key, work_ = str(fields["key"]), fields["work"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _not_signed() from None
    signed = m.is_signed(data, key, request.headers.get(m.SIGNATURE_HEADER, ""))
    if not signed or fields.get("do") != does or not isinstance(work_, str):
        raise _not_signed()
    return sender_of(key), work_


def _not_signed() -> Error:
    words = "the request is not signed by the key that it names, for what it asks"
    return Error("bad-signature", words, hint="sign the bytes of the body")


async def _body(request: Request, most: int) -> bytes:
    body = b""
    async for data in request.stream():
        body += data
        if len(body) > most:
            raise Error("too-large", f"it has more than {most:,} bytes", hint="send less")
    return body


@dataclass(frozen=True, slots=True)
class Operation:
    """One request that is answered."""

    method: str
    path: str
    does: Callable[[Request], Any]
    answers: Mapping[int, str]
    token: bool = False

    @property
    def summary(self) -> str:
        """A summary in a sentence."""
        return (self.does.__doc__ or "").strip().partition("\n")[0]


_RUN, _FILE = f"{BASE}/runs/{{id}}", f"{BASE}/runs/{{id}}/files/{{sha256}}"
_WORK = f"{BASE}/work"
OPERATIONS = (
    Operation("GET", f"{BASE}/ready", ready, {204: "it would"}, True),
    Operation("POST", f"{BASE}/runs", post_run, {201: "new", 200: "known already"}, True),
    Operation("HEAD", _FILE, head_file, {204: "Upload-Offset"}),
    Operation("PUT", _FILE, put_file, {204: "Upload-Offset"}, True),
    Operation("POST", f"{_RUN}/finalize", finalize, {202: "queued for the checks"}, True),
    Operation("GET", _RUN, get_run, {200: "what is known"}),
    Operation("DELETE", _RUN, delete_run, {204: f"removed; {DELETE_HEADER} is needed"}),
    Operation("GET", _WORK, get_work, {200: "a list"}),
    Operation("POST", f"{_WORK}/lease", lease_work, {201: "id, seed, deadline, spec"}, True),
    Operation("POST", f"{_WORK}/{{id}}/return", return_work, {204: "given back"}, True),
)


def document() -> dict[str, Any]:
    """Return all of it in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        answers = {str(code): {"description": words} for code, words in operation.answers.items()}
        answers["default"] = {"description": "application/problem+json with code, detail, hint"}
        described: dict[str, Any] = {"summary": operation.summary, "responses": answers}
        names = re.findall(r"{(\w+)}", operation.path)
        text = {"type": "string"}
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": text} for name in names
        ]
        if operation.token:
            described["security"] = [{"token": []}, {}]
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    info = {"title": "Results of volunteers", "version": "1"}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {"securitySchemes": schemes},
    }


async def openapi(request: Request) -> Response:
    """The description of this interface for programs."""
    return JSONResponse(document())


def routes() -> list[Route]:
    """Return all of them."""
    listed = [
        Route(operation.path, operation.does, methods=[operation.method])
        for operation in OPERATIONS
    ]
    return [*listed, Route(f"{BASE}/openapi.json", openapi)]
