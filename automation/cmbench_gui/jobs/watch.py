"""A run in progress: its steps as a tree, and new lines of its log, as events of a stream.

Twice a second it looks at the sizes of files, and reads what has grown: nothing that a machine
which measures would notice.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from cmbench import api
from cmbench.api import StepSummary
from cmbench.api.repeating import is_trouble
from cmbench.errors import Error
from cmbench.render.progress import progress_text
from cmbench_gui.jobs.control import Job

LOOK_S = 0.5
MOST_BYTES, MOST_LINES = 2_000_000, 20_000
"""Of a longer log the end is shown; the whole is one link away. The page holds as many lines."""
CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Branch:
    """A step with those below it, as the page draws it; ``since`` is when it started."""

    label: str
    status: str
    seconds: float
    version: str
    since: float
    below: tuple[Branch, ...]

    @property
    def script(self) -> str:
        """The alias of its script."""
        return self.label.partition(",")[0]

    @property
    def open(self) -> bool:
        """Whether something in it is worth to be seen at once: it runs, or has failed."""
        shown = ("", "failed", "interrupted", "ended")
        return self.status in shown or any(branch.open for branch in self.below)


def tree(job: Job) -> list[Branch]:
    """The steps of a run as they are now; of one that has died none runs any more."""
    below: dict[int, list[StepSummary]] = {}
    for step in api.steps(job.run):
        below.setdefault(step.caller, []).append(step)

    def branch(step: StepSummary) -> Branch:
        status = step.status or ("" if job.running else "ended")
        children = tuple(branch(child) for child in below.get(step.number, ()))
        return Branch(step.chain[-1], status, step.seconds, step.version, step.started, children)

    return [branch(step) for step in below.get(-1, ())]


def progress(job: Job) -> dict[str, Any]:
    """Return the progress of a run: ``text``, empty if unknown, and ``share`` of 1, if known."""
    figures = api.progress(job.run) if job.running else {}
    if not figures:
        return {"text": ""}
    done, total = figures.get("done"), figures.get("total")
    text = progress_text(figures)
    if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
        return {"text": text, "share": min(max(done / total, 0.0), 1.0)}
    return {"text": text}


class LogReader:
    """Whole new lines of a log, with their numbers and whether they look like trouble."""

    def __init__(self, path: str, at: int = 0, number: int = 0) -> None:
        self._path = path
        self.at = at
        self.number = number

    def lines(self) -> list[tuple[int, str, bool]]:
        """What has come since the last call, a part of it where it is much."""
        try:
            with open(self._path, "rb") as stream:
                if self.at == 0:
                    self._skip(stream)
                stream.seek(self.at)
                data = stream.read(CHUNK)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == CHUNK else b"")
        self.at += len(whole)
        lines = []
        for raw in whole.removesuffix(b"\n").split(b"\n") if whole else ():
            self.number += 1
            text = _shown(raw.decode("utf-8", "replace"))
            lines.append((self.number, text, is_trouble(text)))
        return lines

    def _skip(self, stream: BinaryIO) -> None:
        """Go to the first of the last lines; those before it are counted."""
        end = os.fstat(stream.fileno()).st_size
        start = max(end - MOST_BYTES, 0)
        stream.seek(start)
        last = io.BytesIO(stream.read(end - start)).readlines()
        if start and len(last) > 1:
            del last[0]  # a part of a line
        self.at = end - sum(map(len, last[-MOST_LINES:]))
        stream.seek(0)
        for start in range(0, self.at, CHUNK):
            self.number += stream.read(min(CHUNK, self.at - start)).count(b"\n")


def _shown(line: str) -> str:
    """What a terminal shows of a line that was written over itself, as bars of progress are."""
    return line.rstrip("\r").rpartition("\r")[2]


def message(event: str, data: Any, mark: str = "") -> str:
    """One server-sent event; ``mark`` is sent again when the browser comes back."""
    head = f"id: {mark}\n" if mark else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n"


async def events(
    look: Callable[[], Job], drawn: Callable[[Job], str], mark: str = ""
) -> AsyncIterator[str]:
    """The stream of a run as ``_send_events`` gives it; one that is removed has the end ``gone``.

    The answer has begun by then, so there is no other way to say it.
    """
    try:
        async for text in _send_events(look, drawn, mark):
            yield text
    except Error:
        yield message("end", {"status": "gone"})


async def _send_events(
    look: Callable[[], Job], drawn: Callable[[Job], str], mark: str
) -> AsyncIterator[str]:
    """The stream of a run: ``steps`` and ``progress`` where they change, ``log``, and ``end``.

    ``look`` finds the run as it is now, ``drawn`` makes the tree as HTML.
    """
    job = await asyncio.to_thread(look)
    at, _, number = mark.partition("-")
    reader = LogReader(os.path.join(job.run.folder, "log.txt"), _offset(at), _offset(number))
    shown, far = "", {"text": ""}
    while True:
        job = await asyncio.to_thread(look)
        lines = await asyncio.to_thread(reader.lines)
        text = await asyncio.to_thread(drawn, job)
        if text != shown:
            shown = text
            yield message("steps", {"html": text, "status": job.status, "now": time.time()})
        now = await asyncio.to_thread(progress, job)
        if now != far:
            far = now
            yield message("progress", far)
        if lines:
            yield message("log", lines, f"{reader.at}-{reader.number}")
        elif not job.running:
            yield message("end", {"status": job.status})
            return
        else:
            yield ": still here\n\n"
            await asyncio.sleep(LOOK_S)


def _offset(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0
