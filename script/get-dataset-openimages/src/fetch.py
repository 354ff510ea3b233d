"""Download many small files of one place, several at a time.

    fetch.py LIST.json

LIST.json holds ``url`` (the place, ending in a slash), ``names`` and ``folder``. Files that the
folder holds are kept. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AT_ONCE = 16
TRIES = 3
TIMEOUT_S = 60.0
SHOW_EVERY_S = 0.5


class FetchError(Exception):
    """A file cannot be had; the text says which and why."""


def fetch(url: str, target: Path) -> None:
    """Download one file; tries again after errors of the network or the server."""
    for attempt in range(TRIES):
        failure = _attempt(url, target)
        if failure is None:
            return
        if isinstance(failure, urllib.error.HTTPError) and failure.code < 500:
            break
        time.sleep(0.2 * 4**attempt)
    raise FetchError(f"cannot download {url}: {failure}") from failure


def _attempt(url: str, target: Path) -> Exception | None:
    """Download once; returns what went wrong, if anything did."""
    unfinished = target.with_name(target.name + ".part")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            data = answer.read()
            wanted = answer.headers.get("Content-Length")
        if wanted is not None and len(data) != int(wanted):
            return FetchError(f"{len(data)} of {wanted} bytes came")
        unfinished.write_bytes(data)
        os.replace(unfinished, target)
    except (OSError, http.client.HTTPException) as error:
        return error
    return None


class Progress:
    """Counts files and tells whoever started this program, at most twice a second."""

    def __init__(self, total: int) -> None:
        self._lock = threading.Lock()
        self._total = total
        self._done = 0
        self._shown = 0.0
        self._file = os.environ.get("CM_PROGRESS_FILE")

    def one_more(self) -> None:
        """A further file is complete."""
        with self._lock:
            self._done += 1
            now = time.monotonic()
            if not self._file or (now < self._shown + SHOW_EVERY_S and self._done < self._total):
                return
            self._shown = now
            told = {"label": "pictures", "done": self._done, "total": self._total, "unit": "files"}
            beside = Path(self._file + ".part")
            beside.write_text(json.dumps(told), encoding="utf-8")
            os.replace(beside, self._file)


def fetch_all(place: str, names: Sequence[str], folder: Path) -> int:
    """Download what ``folder`` lacks; returns how many files that were."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in names if not (folder / name).is_file()]
    progress = Progress(len(wanted))

    def one(name: str) -> None:
        fetch(place + urllib.parse.quote(name), folder / name)
        progress.one_more()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(one, name) for name in wanted]
        try:
            for job in jobs:
                job.result()
        except FetchError:
            pool.shutdown(cancel_futures=True)
            raise
    return len(wanted)


def main(arguments: Sequence[str] | None = None) -> int:
    """Download what the list asks for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    told = json.loads(Path(words[0]).read_text(encoding="utf-8"))
    folder = Path(told["folder"])
    try:
        count = fetch_all(told["url"], told["names"], folder)
    except (OSError, FetchError) as error:
        print(f"fetch: {error}", file=sys.stderr)
        there = sum(1 for name in told["names"] if (folder / name).is_file())
        print(f"fetch: {there} of {len(told['names'])} files are in {folder}", file=sys.stderr)
        return 1
    print(f"{count} files downloaded, {len(told['names']) - count} were in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
