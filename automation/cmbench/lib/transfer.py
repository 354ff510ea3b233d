"""One file over HTTP into a ``.part`` file, going on where an earlier attempt stopped.

Beside the part lies ``.part.json``, which says of what it is a part, and how much of it the disk
has for certain: after a loss of power, nothing else of it is trusted. Used by ``download``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cmbench.lib.files import CHUNK, Checksum, Progress, no_space
from cmbench.lib.urls import file_name

if TYPE_CHECKING:
    from requests import Response, Session

_SYNC_SECONDS = 1.0
"""How much of a transfer a loss of power may cost; more often, slow disks would hold it up."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_RETRIED_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
_GONE = "the file is not there any more: look for its new address"
_STATUS_HINTS = {
    401: "the server wants a user name and password: put them into ~/.netrc",
    403: "you have no access; accept the licence there, or put your credentials into ~/.netrc",
    404: _GONE,
    407: "the proxy wants credentials: export HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT",
    410: _GONE,
}
_NEVER_A_PAGE = re.compile(
    r".*\.(zip|tar|t?gz|bz2|xz|zst|whl|onnx|pth?|pb|bin|npz|npy|safetensors|deb|rpm)", re.IGNORECASE
)


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
class Wanted:
    """What the file must be, where that is known, and how to get it."""

    size: int | None
    checksum: Checksum | None
    progress: Progress | None
    policy: Policy
    verify: bool

    def report(self, done: int, total: int | None) -> None:
        """Tell whoever wants to know."""
        if self.progress is not None:
            self.progress(done, total)


class AttemptError(Exception):
    """One attempt failed; ``again`` says whether another may help, ``wait`` when, in seconds.

    ``clean`` marks a fault that may lie in what earlier attempts left and is now gone.
    """

    def __init__(
        self, code: str, reason: str, *, hint: str = "", again: bool = False, wait: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.hint = hint
        self.again = again
        self.wait = wait
        self.clean = False


@dataclass(frozen=True, slots=True)
class _Note:
    """Of what a part is a part. ``url`` is hashed: it may hold secrets.

    ``safe`` bytes have been given to the disk; the others are as written since the start of the
    machine that is named by ``boot``.
    """

    url: str
    validator: str
    total: int | None
    safe: int = 0
    boot: str = ""


@dataclass(frozen=True, slots=True)
class _Start:
    """Where an attempt begins, and what tells that the server still has the same file."""

    offset: int = 0
    validator: str = ""
    total: int | None = None


_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables that name trusted certificates; ``requests`` itself does not know the last one."""


def fetch_http(url: str, part: Path, wanted: Wanted, check: Callable[[], None]) -> None:
    """Bring ``url`` to ``part``; ``check`` raises ``AttemptError`` unless it is right.

    Raises AttemptError when all attempts are used up, and Error or OSError for a full disk.
    """
    from requests import Session

    policy = wanted.policy
    failures = 0
    with Session() as session:
        # Compressed on the way, a file would not have the length and the bytes that were promised.
        session.headers["Accept-Encoding"] = "identity"
        while True:
            failure = _attempt(session, url, part, wanted, check)
            if failure is None:
                return
            if failure.clean:
                continue
            failures += 1
            if not failure.again or failures >= policy.attempts:
                raise failure
            pause = max(failure.wait, policy.backoff * 2 ** (failures - 1))
            time.sleep(min(pause, policy.longest_wait))


def forget(part: Path) -> None:
    """Remove ``part`` and the note beside it."""
    part.unlink(missing_ok=True)
    note_of(part).unlink(missing_ok=True)


def note_of(part: Path) -> Path:
    """The file that says of what ``part`` is a part."""
    return part.with_name(part.name + ".json")


def _attempt(
    session: Session, url: str, part: Path, wanted: Wanted, check: Callable[[], None]
) -> AttemptError | None:
    start = _resume_point(part, url, wanted)
    resumed = False
    try:
        with _answer(session, url, start, wanted) as response:
            resumed = _goes_on(response, part, start)
            if response.status_code != 416:
                _receive(response, url, part, start if resumed else _Start(), wanted)
        check()
    except AttemptError as failure:
        # The fault may lie in what an earlier attempt left: that is gone now, so try once more.
        failure.clean = resumed and not part.exists()
        return failure
    return None


def _resume_point(part: Path, url: str, wanted: Wanted) -> _Start:
    """How many bytes of ``part`` to keep, and what tells whether they are still right."""
    try:
        known = _Note(**json.loads(note_of(part).read_text(encoding="utf-8")))
        length = part.stat().st_size
    except (OSError, ValueError, TypeError):
        return _Start()
    if not known.boot or known.boot != _boot():
        length = min(length, known.safe)
    if known.url == _hashed(url) and known.validator:
        return _Start(length, known.validator, known.total)
    # In the end a checksum tells whether bytes of one mirror fit those of another.
    return _Start(length, "", known.total) if wanted.checksum else _Start()


def _boot() -> str:
    """What names the time since the machine was started; empty where that is not known."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _answer(session: Session, url: str, start: _Start, wanted: Wanted) -> Response:
    """The server's answer; everything that is no file raises ``AttemptError``."""
    import requests

    headers = {"Range": f"bytes={start.offset}-"} if start.offset else {}
    if start.offset and start.validator:
        headers["If-Range"] = start.validator
    policy = wanted.policy
    timeout = (policy.connect_timeout, policy.read_timeout)
    try:
        # `verify` is given for each request: REQUESTS_CA_BUNDLE outweighs that of a session.
        response = session.get(
            url, headers=headers, stream=True, timeout=timeout, verify=_verify(wanted)
        )
    except requests.RequestException as problem:
        raise _network_failure(problem, url) from None
    except (UnicodeError, ValueError) as problem:
        raise AttemptError("bad-value", f"not a valid URL: {problem}", hint="check it") from None
    if response.status_code in (200, 206) or (response.status_code == 416 and start.offset):
        return response
    response.close()
    raise _status_failure(response)


def _verify(wanted: Wanted) -> bool | str | None:
    """What ``requests`` is told of certificates: a file of them, ``None`` for its own."""
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


def _network_failure(problem: Exception, url: str) -> AttemptError:
    from requests import exceptions

    host = urlsplit(url).hostname or ""
    kinds: tuple[tuple[type[Exception], str, str, bool], ...] = (
        (
            exceptions.ProxyError,
            "the proxy does not answer",
            "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY",
            True,
        ),
        (
            exceptions.SSLError,
            f"the TLS certificate of {host} is not trusted",
            "behind a company proxy, name its certificates: export REQUESTS_CA_BUNDLE=/path.pem",
            False,
        ),
        (exceptions.ConnectTimeout, f"{host} does not answer", "", True),
        (exceptions.ReadTimeout, f"{host} stopped answering", "", True),
        (exceptions.ConnectionError, f"no connection to {host}", "", True),
        (exceptions.TooManyRedirects, "too many redirects", "check the URL", False),
        (ValueError, "not a valid URL", "check the URL", False),  # InvalidURL, InvalidSchema ...
    )
    for kind, text, hint, again in kinds:
        if isinstance(problem, kind):
            detail = _cause(problem)
            reason = f"{text} ({detail})" if detail else text
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


def _goes_on(response: Response, part: Path, start: _Start) -> bool:
    """Whether the answer continues the part (and does not begin anew)."""
    if not start.offset or response.status_code == 200:
        return False
    span, _, total = response.headers.get("Content-Range", "").partition("/")
    first = span.removeprefix("bytes ").partition("-")[0].strip()
    # 416 with the length that is here already says that the part is whole.
    continues = str(start.offset) == (total if response.status_code == 416 else first)
    if not continues or _differs(response, start, total):
        forget(part)
        raise AttemptError(
            "download-failed", "the server's file and the part kept here differ", again=True
        )
    return True


def _differs(response: Response, start: _Start, total: str) -> bool:
    """Whether the answer is of another file than the part; not every server heeds ``If-Range``."""
    name = "ETag" if start.validator.startswith('"') else "Last-Modified"
    now = response.headers.get(name, "")
    if start.validator and now and now != start.validator:
        return True
    return start.total is not None and total.isdigit() and int(total) != start.total


def _receive(response: Response, url: str, part: Path, start: _Start, wanted: Wanted) -> None:
    offset = start.offset
    length = response.headers.get("Content-Length", "")
    total = offset + int(length) if length.isdigit() else None
    _require_plausible(response, url, total, wanted)
    if total is not None and shutil.disk_usage(part.parent).free < total - offset:
        raise no_space(part, total - offset)
    with open(part, "r+b" if offset else "wb") as out:
        out.seek(offset)
        out.truncate()
        # Only now: before, the part may be one of another file than the note would say.
        validator = _validator(response) or start.validator
        kept = _Kept(part, out, _Note(_hashed(url), validator, total, boot=_boot()))
        done, whole = _copy(response, kept, offset, total, wanted)
        kept.sync()
    if not whole or (total is not None and done < total):
        of = f" of {total}" if total is not None else ""
        raise AttemptError(
            "download-failed",
            f"the connection ended after {done}{of} bytes",
            hint="run the same command again: it goes on from there",
            again=True,
        )


def _require_plausible(response: Response, url: str, total: int | None, wanted: Wanted) -> None:
    if total is not None and wanted.size is not None and total != wanted.size:
        raise size_failure(wanted.size, total, "the server announces")
    kind = response.headers.get("Content-Type", "")
    if kind.startswith("text/html") and _NEVER_A_PAGE.fullmatch(file_name(url)):
        raise AttemptError(
            "download-failed",
            "the server sent a web page in place of the file",
            hint="open the URL in a browser: it may want a login or a licence to be accepted",
        )


def size_failure(expected: int, found: int, verb: str) -> AttemptError:
    """The failure for a file of the wrong size, in bytes."""
    return AttemptError(
        "size-mismatch",
        f"expected {expected} bytes, {verb} {found}",
        hint="the file was replaced there or is cut off: check the URL and the size",
    )


def _copy(
    response: Response, kept: _Kept, offset: int, total: int | None, wanted: Wanted
) -> tuple[int, bool]:
    """Bytes there are now, and whether the transfer came to its proper end."""
    limit = wanted.size if total is None else total
    pace = _Pace(wanted.policy)
    done = offset
    while limit is None or done <= limit:
        chunk = _next_chunk(response, wanted.policy)
        if not chunk:
            return done, chunk is not None
        kept.write(chunk)
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


class _Kept:
    """A part that is being written, and the note of how much of it outlives a loss of power."""

    def __init__(self, part: Path, out: IO[bytes], note: _Note) -> None:
        self._path = note_of(part)
        self._out = out
        self._note = note
        self.sync()

    def write(self, chunk: bytes) -> None:
        self._out.write(chunk)
        if time.monotonic() >= self._next:
            self.sync()

    def sync(self) -> None:
        """Give what has come to the disk."""
        self._out.flush()
        os.fsync(self._out.fileno())
        self._note = replace(self._note, safe=self._out.tell())
        draft = self._path.with_name(self._path.name + ".new")
        draft.write_text(json.dumps(asdict(self._note)), encoding="utf-8")
        os.replace(draft, self._path)
        self._next = time.monotonic() + _SYNC_SECONDS


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


def _hashed(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def _validator(response: Response) -> str:
    """What ``If-Range`` may carry: a strong ETag, or else the date of the last change."""
    etag = response.headers.get("ETag", "")
    if etag and not etag.startswith("W/"):
        return etag
    with suppress(KeyError):
        return response.headers["Last-Modified"]
    return ""
