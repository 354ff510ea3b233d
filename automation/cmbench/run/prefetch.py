"""Downloads that a plan is sure of, begun before their steps have their turn.

Only what is certain to be wanted and has a checksum is fetched ahead. A failure here is nobody's
failure: the step itself tries again, with all its mirrors, and explains what it meets.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cmbench.errors import Error
from cmbench.format.env import MISSING, Pending
from cmbench.lib.yes_no import is_no
from cmbench.plan.node import Node, sure
from cmbench.plan.resolved_step import Frame

FETCHER = "9cdc8dc41aae437e"
"""The uid of the script that takes what was fetched ahead: download-file."""
AT_ONCE = 3
"""Transfers at a time: more of them do not make one line faster, and servers mind."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One file: its addresses in order, its checksum, its size in bytes if known."""

    urls: tuple[str, ...]
    checksum: str
    size: int | None
    verify: bool


def certain(root: Node) -> list[Wish]:
    """The files that steps of the plan will want whatever happens, each once."""
    found: dict[str, Wish] = {}
    for node in sure(root):
        if node.frame is not None and node.frame.script.uid == FETCHER:
            wish = _wish(node.frame)
            if wish is not None:
                found.setdefault(wish.checksum, wish)
    return list(found.values())


def _wish(frame: Frame) -> Wish | None:
    def known(name: str) -> str:
        value = frame.env.peek("CM_" + name, MISSING)
        if value is MISSING or isinstance(value, Pending) or "<<<" in str(value):
            return ""
        return str(value).strip()

    checksum, size = known("DOWNLOAD_CHECKSUM"), known("DOWNLOAD_SIZE")
    # A mirror may hold another file, with a checksum of its own.
    others = [n for n in range(1, 5) if known(f"DOWNLOAD_CHECKSUM{n}") in ("", checksum)]
    urls = [known("DOWNLOAD_URL"), *(known(f"DOWNLOAD_URL{n}") for n in others)]
    urls = [url for url in urls if url]
    if checksum and not _is_checksum(checksum):
        # The step itself is going to say so.
        return None
    local = isinstance(frame.env.peek("CM_DOWNLOAD_LOCAL_FILE_PATH"), Pending)
    if local or known("DOWNLOAD_LOCAL_FILE_PATH") or not checksum or not urls:
        return None
    if not all(url.startswith(("http://", "https://")) for url in urls):
        return None
    folder, name = known("DOWNLOAD_PATH"), known("DOWNLOAD_RENAME_FILE")
    name = name or known("DOWNLOAD_FILENAME") or urls[0].rpartition("/")[2].partition("?")[0]
    if folder and os.path.exists(os.path.join(folder, name)):
        return None
    return Wish(
        tuple(urls),
        checksum,
        int(size) if size.isdigit() else None,
        not is_no(known("VERIFY_SSL")),
    )


def _is_checksum(text: str) -> bool:
    from cmbench.lib.files import parse_checksum

    try:
        parse_checksum(text)
    except Error:
        return False
    return True


class _Stopped(BaseException):
    """The run is over; what has come so far stays, to be gone on with."""


class Prefetcher:
    """Fetches ``wishes`` into ``folder`` in the background; tells ``note`` what it begins."""

    def __init__(self, folder: str, wishes: list[Wish], note: Callable[[str], None]) -> None:
        self.folder = folder
        self._wishes = list(reversed(wishes))
        self._note = note
        self._over = False
        self._go = threading.Event()
        self._go.set()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin; returns at once."""
        count = len(self._wishes)
        files = f"{count} file{'' if count == 1 else 's'}"
        self._note(
            f"fetching {files} ahead of the steps that want {'it' if count == 1 else 'them'}"
        )
        from cmbench.lib.download_spool import announce

        try:
            for place in self._places():
                announce(place)
        except OSError as problem:
            self._note(f"not fetched ahead: {problem}")
            return
        for _ in range(min(AT_ONCE, count)):
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """Let no transfer go on; waits for their ends, but for a server no longer than that."""
        self._over = True
        self._go.set()
        for thread in self._threads:
            thread.join(seconds / len(self._threads))
        from cmbench.lib.download_spool import forgo

        for place in self._places():
            with suppress(OSError):
                forgo(place)

    def _places(self) -> list[Path]:
        """Where the files of the wishes that nobody has begun are going to wait."""
        from cmbench.lib.download_spool import place_of

        places = [place_of(self.folder, wish.checksum) for wish in list(self._wishes)]
        return [place for place in places if place is not None]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the network and the disk rest while somebody measures."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    def _work(self) -> None:
        from cmbench.lib.download import download
        from cmbench.lib.download_spool import begin, place_of, under_way

        while self._rested():
            try:
                wish = self._wishes.pop()
            except IndexError:
                return
            try:
                place = place_of(self.folder, wish.checksum)
                assert place is not None
                if under_way(place) or not begin(place):
                    # Another run or the step itself is at it: twice would help nobody.
                    continue
                download(
                    wish.urls,
                    place,
                    size=wish.size,
                    checksum=wish.checksum,
                    progress=self._progress,
                    verify=wish.verify,
                )
            except _Stopped:
                return
            except (Error, OSError) as problem:
                text = problem.message if isinstance(problem, Error) else str(problem)
                self._note(f"not fetched ahead: {text}")

    def _rested(self) -> bool:
        """Wait while somebody measures; whether the run still goes on."""
        self._go.wait()
        return not self._over

    def _progress(self, done: int, total: int | None) -> None:
        if not self._rested():
            raise _Stopped
