"""A parcel to a server over HTTP, going on where an earlier attempt stopped.

After any failure at any time, the same parcel is sent again: the server knows its id, and lists
what is missing. The server is not trusted: what it answers is bounded in size, time and form.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cmbench.errors import Error
from cmbench.lib.secrecy import mask
from cmbench_crowd import manifest as m
from cmbench_crowd.bundle import UploadBundle

if TYPE_CHECKING:
    from requests import Response, Session

CHUNK = 1 << 20
_API, _WORK, _READY = "/api/v1/runs", "/api/v1/work", "/api/v1/ready"
_DAY_S = 86_400
_LONGEST = 1 << 20
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
_GONE = frozenset((404, 410))
_ELSEWHERE = frozenset((409, 416))
TOKEN_HEADER = "X-Cmbench-Delete-Token"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often something without progress is tried again; all times in seconds."""

    attempts: int = 5
    pause: float = 1.0
    connect: float = 10.0
    read: float = 30.0


@dataclass(frozen=True, slots=True)
class CrowdClient:
    """One server: ``base`` is its address without a path at the end, ``token`` what it may want."""

    base: str
    token: str = ""
    patience: RetryPolicy = field(default_factory=RetryPolicy)

    @classmethod
    def at(cls, url: str, token: str = "", patience: RetryPolicy | None = None) -> CrowdClient:
        """Return the client of a URL; raise ``bad-value`` unless https, or http on loopback."""
        why = _why_not(url.strip())
        if why:
            raise Error("bad-value", f"--server: {why}", hint="write --server=https://HOST")
        return cls(url.strip().rstrip("/"), token, patience or RetryPolicy())

    def ready(self) -> None:
        """Check once whether an upload would be accepted now; send no data of this machine.

        Raises ``wrong-clock`` for one that is a day off the server's, and as ``withdraw``.
        """
        once = replace(self, patience=replace(self.patience, attempts=1))
        with once._session() as session:
            answer = once._ask(session, "GET", _READY)
        with suppress(TypeError, ValueError):
            server_time = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
            ahead = time.time() - server_time
            if abs(ahead) > _DAY_S:
                way = "ahead of" if ahead > 0 else "behind"
                raise Error(
                    "wrong-clock",
                    f"the clock of this machine is {abs(ahead) / _DAY_S:,.0f} days {way} that of "
                    f"{self.base}, and a result contains its date",
                    hint="set it, for example: `sudo timedatectl set-ntp true`",
                )

    def send(
        self,
        parcel: UploadBundle,
        earlier: Mapping[str, Any],
        note: Callable[[dict[str, Any]], None],
        say: Callable[[str], None] = lambda text: None,
    ) -> dict[str, Any]:
        """Send a parcel; returns what the server says of it.

        ``earlier`` is the state of an earlier attempt, and ``note`` stores that of this one.
        Raises ``server-refused``, ``server-unreachable``, ``bad-server``, ``upload-removed``.
        """
        with self._session() as session:
            answer = self._begin(session, parcel)
            state = {"id": answer["id"], "manifest": m.digest(parcel.data), "done": False}
            state["delete_token"] = answer.get("delete_token") or earlier.get("delete_token", "")
            note(state)
            for sha256, offset in answer["wanted"]:
                self._file(session, answer["id"], sha256, parcel.files[sha256], offset)
                say(f"sent {len(parcel.files[sha256]):,} bytes of {_name(parcel, sha256)}")
            self._ask(session, "POST", f"{_API}/{answer['id']}/finalize")
            note({**state, "done": True})
            return self._json(self._ask(session, "GET", f"{_API}/{answer['id']}"))

    def withdraw(self, run: str, token: str) -> None:
        """Let the server remove a result; one that is not there any more is removed.

        Raises ``server-refused``, ``server-unreachable``, ``bad-server``.
        """
        with self._session() as session:
            self._ask(
                session,
                "DELETE",
                f"{_API}/{run}",
                headers={TOKEN_HEADER: token},
                fine=_GONE,
            )

    def status(self, run: str) -> dict[str, Any]:
        """Return what the server says of a result; raise as ``withdraw``."""
        with self._session() as session:
            return self._json(self._ask(session, "GET", f"{_API}/{run}"))

    def work(self) -> list[Any]:
        """Return the open work of the server; raise as ``withdraw``."""
        with self._session() as session:
            items = self._json(self._ask(session, "GET", _WORK)).get("work")
        if not isinstance(items, list):
            raise self._lies("it did not send a list of work")
        return items

    def lease(self, data: bytes, signature: str) -> dict[str, Any]:
        """Lease work to the key that has signed ``data``; raise as ``withdraw``."""
        headers = {"Content-Type": "application/json", m.SIGNATURE_HEADER: signature}
        with self._session() as session:
            answer = self._ask(session, "POST", f"{_WORK}/lease", data=data, headers=headers)
            lease = self._json(answer)
        if not _ID.fullmatch(str(lease.get("id", ""))):
            raise self._lies("it did not give the work an id")
        return lease

    def give_back(self, unit: str, data: bytes, signature: str) -> None:
        """Give leased work back; raises as ``withdraw``, and ``bad-value``."""
        if not _ID.fullmatch(unit):
            raise Error(
                "bad-value",
                f"{unit!r:.80} is not an id of work",
                hint="`cm lease crowd --server=URL` lists what this device has leased",
            )
        headers = {"Content-Type": "application/json", m.SIGNATURE_HEADER: signature}
        with self._session() as session:
            self._ask(session, "POST", f"{_WORK}/{unit}/return", data=data, headers=headers)

    def _session(self) -> Session:
        import requests

        session = requests.Session()
        # Else ~/.netrc and the version of Python would be sent.
        session.auth = _no_login
        # A proxy of the environment is for other machines: it would read what goes to this one.
        session.trust_env = not _is_loopback(urlsplit(self.base).hostname or "")
        session.headers.clear()
        session.headers["User-Agent"] = "cmbench"
        if self.token:
            session.headers["Authorization"] = f"Bearer {self.token}"
        return session

    def _begin(self, session: Session, parcel: UploadBundle) -> dict[str, Any]:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": m.digest(parcel.data),
            m.SIGNATURE_HEADER: parcel.signature,
        }
        more = {"data": parcel.data, "headers": headers, "fine": frozenset((410,))}
        answer = self._ask(session, "POST", _API, **more)
        if answer.status_code == 410:
            raise Error(
                "upload-removed",
                f"{self.base} has removed {parcel.manifest.id}, at its sender's request",
                hint="the same command sends it again; a bundle must be made again first",
            )
        fields = self._json(answer)
        if not _ID.fullmatch(str(fields.get("id", ""))):
            raise self._lies("it did not give the result an id")
        missing = fields.get("wanted")
        if not isinstance(missing, list) or len(missing) > len(m.ROLES):
            raise self._lies("it does not say which files it wants")
        token = fields.get("delete_token")
        if token is not None and not (isinstance(token, str) and len(token) <= 200):
            raise self._lies("its delete token is not text")
        fields["wanted"] = [self._wanted(item, parcel) for item in missing]
        return fields

    def _wanted(self, item: object, parcel: UploadBundle) -> tuple[str, int]:
        sha256, offset = "", -1
        if isinstance(item, dict):
            sha256, offset = str(item.get("sha256")), item.get("offset", 0)
        data = parcel.files.get(sha256)
        if data is None or not isinstance(offset, int) or not 0 <= offset <= len(data):
            raise self._lies("it wants a file that is not in the manifest")
        return sha256, offset

    def _file(self, session: Session, run: str, sha256: str, data: bytes, offset: int) -> None:
        """Send one file from an offset on; resume where bytes were lost."""
        path, left = f"{_API}/{run}/files/{sha256}", self.patience.attempts
        while offset < len(data):
            end = min(offset + CHUNK, len(data))
            lost = self._part(session, path, data, offset, end)
            if not lost:
                offset, left = end, self.patience.attempts
                continue
            left -= 1
            self._pause(left, lost)
            reached = self._reached(session, path, len(data))
            left = self.patience.attempts if reached > offset else left
            offset = reached

    def _part(self, session: Session, path: str, data: bytes, start: int, end: int) -> str:
        """Send one part of a file; why it did not arrive, or nothing."""
        body = data[start:end]
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
        packed = gzip.compress(body, 6, mtime=0)
        if len(packed) < len(body):
            body = packed
            headers["Content-Encoding"] = "gzip"
        answer = self._once(session, "PUT", path, data=body, headers=headers)
        if isinstance(answer, str):
            return answer
        if answer.status_code in _ELSEWHERE:
            return "it expects another part of the file"
        self._fine(answer)
        return ""

    def _reached(self, session: Session, path: str, size: int) -> int:
        answer = self._ask(session, "HEAD", path)
        text = answer.headers.get("Upload-Offset", "")
        if not re.fullmatch(r"\d{1,12}", text) or int(text) > size:
            raise self._lies("it does not say how much of a file it has")
        return int(text)

    def _ask(self, session: Session, method: str, path: str, **more: Any) -> Response:
        """One request, again while the server cannot be reached; all are safe to repeat."""
        fine = more.pop("fine", frozenset())
        left = self.patience.attempts
        while isinstance(answer := self._once(session, method, path, **more), str):
            left -= 1
            self._pause(left, answer)
        return answer if answer.status_code in fine else self._fine(answer)

    def _once(self, session: Session, method: str, path: str, **more: Any) -> Response | str:
        """Return the answer to one request, or why none is valid."""
        import requests
        import urllib3

        patience = self.patience
        try:
            answer = session.request(
                method,
                self.base + path,
                timeout=(patience.connect, patience.read),
                allow_redirects=False,
                stream=True,
                **more,
            )
            answer._content = self._body(answer)
        except requests.exceptions.SSLError as problem:
            raise self._unreachable(
                f"its certificate is not trusted: {_root_cause(problem)}"
            ) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as problem:
            return _root_cause(problem)
        if answer.status_code in _AGAIN:
            return f"it answers {answer.status_code} {self._detail(answer)}".strip()
        return answer

    def _body(self, answer: Response) -> bytes:
        """Return the whole answer, in bounded time and size: a server may send a byte a second."""
        until = time.monotonic() + self.patience.read
        body = b""
        # As few bytes at once as come: a larger piece would wait for all of it.
        for piece in iter(lambda: answer.raw.read1(1 << 16, decode_content=True), b""):
            body += piece
            if len(body) > _LONGEST:
                raise self._lies(f"its answer is longer than {_LONGEST:,} bytes")
            if time.monotonic() > until:
                raise TimeoutError("its answer does not end")
        return body

    def _fine(self, answer: Response) -> Response:
        if 200 <= answer.status_code < 300:
            return answer
        if 300 <= answer.status_code < 400:
            raise self._lies("it redirects to another address, which is not followed")
        raise Error(
            "server-refused",
            f"{self.base} refuses: {self._detail(answer) or answer.status_code}",
            hint=_HINTS.get(answer.status_code, "fix what it names"),
        )

    def _detail(self, answer: Response) -> str:
        """Return the words of a problem (RFC 9457), bounded; empty where the server gives none."""
        try:
            fields = json.loads(answer.content)
            words = (fields.get("code"), fields.get("detail"))
        except (ValueError, AttributeError, RecursionError):
            return ""
        return ": ".join(str(word)[:500] for word in words if isinstance(word, str))

    def _json(self, answer: Response) -> dict[str, Any]:
        try:
            fields = json.loads(answer.content)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise self._lies("its answer is not a JSON object: it may be another kind of server")
        return fields

    def _pause(self, left: int, why: str) -> None:
        """Wait before the next attempt, longer every time; raise if none is left."""
        if left <= 0:
            raise self._unreachable(why)
        time.sleep(self.patience.pause * 2 ** (self.patience.attempts - left - 1))

    def _lies(self, why: str) -> Error:
        return Error(
            "bad-server",
            f"{self.base} is not a server of results: {why}",
            hint="check --server; nothing more was sent",
        )

    def _unreachable(self, why: str) -> Error:
        return Error(
            "server-unreachable",
            f"{self.base} cannot be reached: {why}",
            hint="nothing is lost: repeat the command to continue\n"
            "without a network: `cm bundle crowd ID --output=FILE`, then on another machine "
            "`cm upload crowd FILE --server=URL`",
        )


_HINTS = {
    401: "the server needs a token: --token_file=FILE",
    403: "the token is not valid: --token_file=FILE",
    413: "leave out what is too large, such as --without=files.accuracy-log",
    429: "too many results in a short time: try again later",
}


def _no_login(request: Any) -> Any:
    return request


def _why_not(url: str) -> str:
    """Return why a URL is no server that may be sent to; empty where it is one."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "it is not a URL"
    if parts.scheme not in ("https", "http") or not host:
        return "it is not an address of a server"
    if parts.scheme == "http" and not _is_loopback(host):
        return "over http others could read and change what is sent"
    extra = (parts.username, parts.password, parts.query, parts.fragment)
    return "it has more than a host and a path" if any(extra) else ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _root_cause(problem: Exception) -> str:
    """Return why a request has failed, in the words of whatever was first to fail."""
    seen: list[BaseException] = [problem]
    while cause := _inner(seen[-1]):
        seen.append(cause)
    words = re.sub(r"^\w+\([^()]*\): ", "", str(seen[-1]))[:300]
    if any(type(error).__name__ in _OF_PROXIES for error in seen):
        name = next(filter(os.environ.get, _PROXIES), _PROXIES[0])
        words = f"the proxy of the environment ({name}) does not work: {words}"
    return mask(words)


def _inner(problem: BaseException) -> BaseException | None:
    within = (getattr(problem, "reason", None), *problem.args)
    return next((error for error in within if isinstance(error, Exception)), None)


_OF_PROXIES = ("ProxyError", "InvalidProxyURL", "ProxySchemeUnknown")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def _name(parcel: UploadBundle, sha256: str) -> str:
    return next(file.role for file in parcel.manifest.files if file.sha256 == sha256)
