"""Download many small files of one URL, several at a time.

    python -m modelzoo.datasets.openimages.fetch LIST.json

LIST.json holds ``url`` (ending in a slash), ``names`` and ``folder``. Files that the
folder holds are kept. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from modelzoo import program
from modelzoo.program import ProgramError
from modelzoo.progress import Progress

AT_ONCE = 16
TRIES = 3
TIMEOUT_S = 60.0


def fetch(url: str, target: Path) -> None:
    """Download one file; tries again after errors of the network or the server.

    Raises ProgramError when none of the tries succeeds.
    """
    for attempt in range(TRIES):
        failure = _attempt(url, target)
        if failure is None:
            return
        if isinstance(failure, urllib.error.HTTPError) and failure.code < 500:
            break
        time.sleep(0.2 * 4**attempt)
    raise ProgramError(f"cannot download {url}: {failure}") from failure


def _attempt(url: str, target: Path) -> Exception | None:
    """Download once; returns what went wrong, if anything did."""
    unfinished = target.with_name(target.name + ".part")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            data = answer.read()
            wanted = answer.headers.get("Content-Length")
        if wanted is not None and len(data) != int(wanted):
            return ProgramError(f"{len(data)} of {wanted} bytes came")
        unfinished.write_bytes(data)
        os.replace(unfinished, target)
    except (OSError, http.client.HTTPException) as error:
        return error
    return None


def fetch_all(place: str, names: Sequence[str], folder: Path) -> int:
    """Download what ``folder`` lacks; returns how many files that were."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in names if not (folder / name).is_file()]
    progress = Progress("images", len(wanted), "files")

    def one(name: str) -> None:
        fetch(place + urllib.parse.quote(name), folder / name)
        progress.more()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(one, name) for name in wanted]
        try:
            for job in jobs:
                job.result()
        except ProgramError:
            pool.shutdown(cancel_futures=True)
            raise
    return len(wanted)


def main(arguments: Sequence[str] | None = None) -> int:
    """Download the files of the list."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    request = json.loads(Path(words[0]).read_text(encoding="utf-8"))
    folder = Path(request["folder"])

    def work() -> str:
        try:
            count = fetch_all(request["url"], request["names"], folder)
        except (OSError, ProgramError):
            count_present = sum(1 for name in request["names"] if (folder / name).is_file())
            print(
                f"fetch: {count_present} of {len(request['names'])} files are in {folder}",
                file=sys.stderr,
            )
            raise
        return f"{count} files downloaded, {len(request['names']) - count} were in {folder}"

    return program.run("fetch", work)


if __name__ == "__main__":
    sys.exit(main())
