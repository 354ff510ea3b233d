"""One file over HTTP into a ``PartialFile``, going on where an earlier attempt stopped.

Used by ``download``, which knows of mirrors, of places, and of what is there already.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cmbench.lib.files import CHUNK, Checksum, Progress, file_checksum, no_space
from cmbench.lib.partial_file import PartialFile, PartSource
from cmbench.lib.text_files import sha256, size_text
from cmbench.lib.urls import file_name

if TYPE_CHECKING:
    from requests import Response, Session

_RETRIED_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
_LOGIN = "open the URL in a browser: it may want a login or a licence to be accepted"
_TRUST = "behind a company proxy, name its certificates: `export REQUESTS_CA_BUNDLE=/path.pem`"
_GONE = "the file is no longer there: find its new address"
_STATUS_HINTS = {
    401: "the server wants a user name and password: put them into ~/.netrc",
    403: "you have no access; accept the licence there, or put your credentials into ~/.netrc",
    404: _GONE,
    407: "the proxy wants credentials: `export HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT`",
    410: _GONE,
}
_NEVER_A_PAGE = re.compile(
    r".*\.(zip|tar|t?gz|bz2|xz|zst|whl|onnx|pth?|pb|bin|npz|npy|safetensors|deb|rpm)", re.IGNORECASE
)
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html[\s>])", re.IGNORECASE)
_PACKED = re.compile(r".*\.(t?gz|gzip)", re.IGNORECASE)
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables that name trusted certificates; ``requests`` itself does not know the last one."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient a download is; times in seconds, ``slowest`` in bytes a second.

    A transfer that brings less than ``slowest`` on average over ``patience`` counts as stalled.
    """

    attempts: int = 4
    backoff: float = 1.0
    longest_wait: float = 30.0
    connect_timeout: float = 20.0
    read_timeout: float = 60.0
    slowest: int = 100
    patience: float = 120.0


@dataclass(frozen=True, slots=True)
class FileRequest:
    """What the file must be, where that is known, and how to get it.

    ``name`` is what its user calls it, ``size`` is in bytes.
    """

    name: str
    size: int | None
    checksum: Checksum | None
    progress: Progress | None
    policy: Policy
    verify: bool

    def report(self, done: int, total: int | None) -> None:
        """Call all listeners."""
        if self.progress is not None:
            self.progress(done, total)

    def check(self, path: Path) -> None:
        """Raise AttemptError unless ``path`` has the size and the checksum that are wanted."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            raise size_failure(self.size, size, "it has")
        if self.checksum is None:
            return
        digest = file_checksum(path, self.checksum.algorithm)
        if digest != self.checksum.value:
            raise AttemptError(
                "checksum-mismatch",
                f"expected {self.checksum}, got {digest} ({size_text(size)})",
                hint="the file was replaced or damaged: check the URL and the checksum",
            )

    def fits(self, path: Path) -> bool:
        """Whether ``check`` finds nothing wrong."""
        with suppress(AttemptError):
            self.check(path)
            return True
        return False


@dataclass(eq=False)
class AttemptError(Exception):
    """One attempt failed; ``again`` says whether another may help, ``wait`` when, in seconds.

    ``clean`` marks a fault that may lie in what earlier attempts left and is now gone.
    """

    code: str
    reason: str
    hint: str = ""
    again: bool = False
    wait: float = 0.0
    clean: bool = False


def fetch_http(url: str, part: PartialFile, wanted: FileRequest) -> None:
    """Bring the whole of ``url`` into ``part``, checked.

    Raises AttemptError when all attempts are used up, and Error or OSError for a full disk.
    """
    from requests import Session

    policy = wanted.policy
    failures = 0
    with Session() as session:
        # Compressed on the way, a file would not have the length and the bytes that were promised.
        session.headers["Accept-Encoding"] = "identity"
        while True:
            failure = _attempt(session, url, part, wanted)
            if failure is None:
                return
            if failure.clean:
                continue
            failures += 1
            if not failure.again or failures >= policy.attempts:
                raise failure
            pause = max(failure.wait, policy.backoff * 2 ** (failures - 1))
            time.sleep(min(pause, policy.longest_wait))


def _attempt(
    session: Session, url: str, part: PartialFile, wanted: FileRequest
) -> AttemptError | None:
    offset = part.resume(url, any_source=wanted.checksum is not None)
    resumed = False
    try:
        with _answer(session, url, part.note, offset, wanted) as response:
            resumed = _goes_on(response, part, offset)
            if response.status_code != 416:
                _receive(response, url, part, offset if resumed else 0, wanted)
        _check(part, url, wanted)
    except AttemptError as failure:
        # The fault may lie in what an earlier attempt left: that is gone now, so try once more.
        failure.clean = resumed and not part.path.exists()
        return failure
    return None


def _check(part: PartialFile, url: str, wanted: FileRequest) -> None:
    """Raise AttemptError, and remove what came, unless it is what was wanted."""
    try:
        if part.note.encoding and not (wanted.checksum and wanted.fits(part.path)):
            part.unpack()
        _require_content(part, url, wanted)
        wanted.check(part.path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        part.forget()
        raise AttemptError("download-failed", f"it is damaged: {problem}", again=True) from None
    except AttemptError:
        part.forget()
        raise


def _require_content(part: PartialFile, url: str, wanted: FileRequest) -> None:
    """Raise AttemptError for a page or for nothing, in place of a file that cannot be that."""
    if wanted.checksum or wanted.size is not None or not _never_a_page(url, wanted):
        return
    with open(part.path, "rb") as stream:
        head = stream.read(256)
    if not head:
        raise AttemptError("download-failed", "the server sent an empty file", hint=_LOGIN)
    if _PAGE.match(head):
        raise _page_failure()


def _answer(
    session: Session, url: str, known: PartSource, offset: int, wanted: FileRequest
) -> Response:
    """The server's answer; everything that is no file raises ``AttemptError``."""
    import requests

    headers = {"Range": f"bytes={offset}-"} if offset else {}
    if offset and known.validator:
        headers["If-Range"] = known.validator
    policy = wanted.policy
    timeout = (policy.connect_timeout, policy.read_timeout)
    try:
        # `verify` is given for every request: REQUESTS_CA_BUNDLE outweighs that of a session.
        response = session.get(
            url, headers=headers, stream=True, timeout=timeout, verify=_verify(wanted)
        )
    except requests.RequestException as problem:
        raise _network_failure(problem, url) from None
    except (UnicodeError, ValueError) as problem:
        raise AttemptError("bad-value", f"not a valid URL: {problem}", hint="check it") from None
    failure = _downgrade(response, wanted)
    if response.status_code not in (200, 206) and not (response.status_code == 416 and offset):
        failure = _status_failure(response)
    if failure is not None:
        response.close()
        raise failure
    return response


def _downgrade(response: Response, wanted: FileRequest) -> AttemptError | None:
    """The failure for a redirect to http, where neither sender nor content is verified."""
    schemes = [urlsplit(each.url).scheme for each in (*response.history, response)]
    downgraded = ("https", "http") in pairwise(schemes)
    if not downgraded or wanted.checksum or not wanted.verify:
        return None
    return AttemptError(
        "download-failed",
        "the server redirects from https to http, where anybody can change the file",
        hint="give the checksum that the file must have, or another URL",
    )


def _verify(wanted: FileRequest) -> bool | str | None:
    """The certificates for ``requests``: a file of them, ``None`` for its own."""
    if not wanted.verify:
        import urllib3

        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return False
    name = next((name for name in _CERTIFICATES if os.environ.get(name)), "")
    if not name:
        return None
    path = os.environ[name]
    if not os.path.exists(path):
        text = f"{name}={path}: there is no such file of certificates"
        raise AttemptError("bad-value", text, hint=f"correct {name}, or unset it")
    return path


def _status_failure(response: Response) -> AttemptError:
    status = response.status_code
    wait = response.headers.get("Retry-After", "")
    return AttemptError(
        "download-failed",
        f"the server answered {status} {response.reason or ''}".strip(),
        hint=_STATUS_HINTS.get(status, ""),
        again=status in _RETRIED_STATUS,
        wait=float(wait) if wait.isdigit() else 0.0,
    )


_TROUBLES = (
    ("ProxyError", "the proxy does not answer", "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY", True),
    ("SSLError", "the TLS certificate of {} is not trusted", _TRUST, False),
    ("ConnectTimeout", "{} does not answer", "", True),
    ("ReadTimeout", "{} stopped answering", "", True),
    ("ConnectionError", "no connection to {}", "", True),
    ("TooManyRedirects", "too many redirects", "check the URL", False),
    ("InvalidURL", "not a valid URL", "check the URL", False),
    ("InvalidSchema", "not a valid URL", "check the URL", False),
)
"""Exceptions of ``requests``, the special ones first: what they mean, what to do, worth a retry."""


def _network_failure(problem: Exception, url: str) -> AttemptError:
    from requests import exceptions

    for kind, text, hint, again in _TROUBLES:
        if isinstance(problem, getattr(exceptions, kind)):
            detail = _cause(problem)
            reason = text.format(urlsplit(url).hostname or "")
            reason += f" ({detail})" if detail else ""
            return AttemptError("download-failed", reason, hint=hint, again=again)
    return AttemptError("download-failed", type(problem).__name__, again=True)


def _cause(problem: BaseException) -> str:
    """The operating system's or the TLS library's own words, from the bottom of the chain."""
    words = ""
    seen: set[int] = set()
    pending: list[Any] = [problem]
    while pending:
        item = pending.pop()
        if not isinstance(item, BaseException) or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, OSError) and isinstance(item.strerror, str):
            words = item.strerror
        pending += [item.__cause__, item.__context__, getattr(item, "reason", None), *item.args]
    return words[:200]


def _goes_on(response: Response, part: PartialFile, offset: int) -> bool:
    """Whether the answer continues the part (and does not begin anew)."""
    if not offset or response.status_code == 200:
        return False
    span, _, total = response.headers.get("Content-Range", "").partition("/")
    first = span.removeprefix("bytes ").partition("-")[0].strip()
    # 416 with the length that is here already says that the part is whole.
    continues = str(offset) == (total if response.status_code == 416 else first)
    if not continues or _differs(response, part.note, total):
        part.forget()
        raise AttemptError(
            "download-failed", "the server's file and the part kept here differ", again=True
        )
    return True


def _differs(response: Response, known: PartSource, total: str) -> bool:
    """Whether the answer is of another file than the part; not every server heeds ``If-Range``."""
    name = "ETag" if known.validator.startswith('"') else "Last-Modified"
    now = response.headers.get(name, "")
    if known.validator and now and now != known.validator:
        return True
    return known.total is not None and total.isdigit() and int(total) != known.total


def _receive(
    response: Response, url: str, part: PartialFile, offset: int, wanted: FileRequest
) -> None:
    length = response.headers.get("Content-Length", "")
    total = offset + int(length) if length.isdigit() else None
    encoding = _encoding(response, url, wanted)
    _require_plausible(response, url, None if encoding else total, wanted)
    if total is not None and shutil.disk_usage(part.path.parent).free < total - offset:
        raise no_space(part.path, total - offset)
    validator = _validator(response) or (part.note.validator if offset else "")
    limit = wanted.size if total is None and not encoding else total
    with part.writing(offset, PartSource(sha256(url), validator, total, encoding=encoding)):
        done, whole = _copy(response, part, offset, limit, wanted)
    if not whole or done < (total or 0):
        of = "" if total is None else f" of {total}"
        raise AttemptError(
            "download-failed",
            f"the connection ended after {done}{of} bytes",
            hint="run the same command again: it goes on from there",
            again=True,
        )


def _encoding(response: Response, url: str, wanted: FileRequest) -> str:
    """How the server has packed the file on the way; many say so of a file that is a .gz itself."""
    named = response.headers.get("Content-Encoding", "").strip().lower()
    names = (file_name(url), file_name(response.url), wanted.name)
    itself = "gzip" in response.headers.get("Content-Type", "") or any(
        map(_PACKED.fullmatch, names)
    )
    return "gzip" if named in ("gzip", "x-gzip") and not itself else ""


def _require_plausible(
    response: Response, url: str, total: int | None, wanted: FileRequest
) -> None:
    if total is not None and wanted.size is not None and total != wanted.size:
        raise size_failure(wanted.size, total, "the server announces")
    kind = response.headers.get("Content-Type", "")
    if kind.startswith("text/html") and _never_a_page(url, wanted):
        raise _page_failure()


def _never_a_page(url: str, wanted: FileRequest) -> bool:
    return any(_NEVER_A_PAGE.fullmatch(name) for name in (file_name(url), wanted.name))


def _page_failure() -> AttemptError:
    return AttemptError(
        "download-failed", "the server sent a web page instead of the file", hint=_LOGIN
    )


def size_failure(expected: int, actual: int, verb: str) -> AttemptError:
    """The failure for a file of the wrong size, in bytes."""
    return AttemptError(
        "size-mismatch",
        f"expected {expected} bytes, {verb} {actual}",
        hint="the file was replaced there or is truncated: check the URL and the size",
    )


def _copy(
    response: Response, part: PartialFile, done: int, limit: int | None, wanted: FileRequest
) -> tuple[int, bool]:
    """Bytes there are now, and whether the transfer came to its proper end."""
    pace = _Pace(wanted.policy)
    while limit is None or done <= limit:
        chunk = _next_chunk(response, wanted.policy)
        if not chunk:
            return done, chunk is not None
        part.write(chunk)
        done += len(chunk)
        wanted.report(done, limit)
        pace.add(len(chunk))
    return done, True


def _next_chunk(response: Response, policy: Policy) -> bytes | None:
    """What has come; empty at the end, ``None`` where the connection broke."""
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    raw = response.raw
    try:
        # Undecoded, as `curl` and `wget` do: a .tar.gz must stay one. Without `read1` (urllib3
        # before 2.1) small pieces keep a slow transfer visible.
        if hasattr(raw, "read1"):
            return bytes(raw.read1(CHUNK, decode_content=False))
        return bytes(raw.read(1 << 14, decode_content=False))
    except ReadTimeoutError:
        raise _stalled(policy.read_timeout) from None
    except (HTTPError, OSError):
        return None


class _Pace:
    """Notices a transfer that is alive but brings next to nothing."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._since = time.monotonic()
        self._amount = 0

    def add(self, count: int) -> None:
        self._amount += count
        elapsed = time.monotonic() - self._since
        if elapsed > self._policy.patience:
            if self._amount < self._policy.slowest * elapsed:
                raise _stalled(elapsed)
            self._since, self._amount = time.monotonic(), 0


def _stalled(seconds: float) -> AttemptError:
    return AttemptError(
        "download-failed",
        f"the transfer stalled for {seconds:.0f} s",
        hint="run the same command again: it goes on from there",
        again=True,
    )


def _validator(response: Response) -> str:
    """What ``If-Range`` may carry: a strong ETag, or else the date of the last change."""
    etag = response.headers.get("ETag", "")
    if etag and not etag.startswith("W/"):
        return etag
    with suppress(KeyError):
        return response.headers["Last-Modified"]
    return ""
