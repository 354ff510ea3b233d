"""What a user sees while a run goes on: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from cmbench.lib.text_files import size_text
from cmbench.plan.resolved_step import Frame
from cmbench.run.step import Reporter, StepEnd

_WIDTH = 80


class Silent:
    """Says nothing but what the requested script prints for its user."""

    watches = False

    def __init__(self, out: IO[str] | None, verbose: bool = False) -> None:
        self._out = out
        self._verbose = verbose

    def begin(self, total: int) -> None:
        """Nothing is shown."""

    def started(self, frame: Frame, depth: int) -> None:
        """Nothing is shown."""

    def left(self, frame: Frame) -> None:
        """Nothing is shown."""

    def finished(self, frame: Frame, depth: int, end: StepEnd) -> None:
        """Nothing is shown."""

    def progress(self, data: Mapping[str, Any]) -> None:
        """Nothing is shown."""

    def output(self, line: str) -> None:
        """Show a step's own output if it was asked for."""
        if self._verbose:
            self.say(line)

    def say(self, line: str) -> None:
        """Show a line of the requested script."""
        if self._out is None:
            return
        try:
            print(line, file=self._out, flush=True)
        except OSError:
            # Nobody reads any more (``| head``), or it is full; the run itself goes on.
            self._out = None

    def note(self, text: str) -> None:
        """Nothing is shown."""

    def waiting(self, text: str) -> None:
        """Show why nothing happens: it may be so for an hour."""
        self.say(text)

    def end(self) -> None:
        """Nothing to tidy."""


class Plain(Silent):
    """One line per finished step that did something, and one every ten seconds of long work."""

    watches = True

    def __init__(self, out: IO[str], verbose: bool = False) -> None:
        super().__init__(out, verbose)
        self._total = 0
        self._last_progress = 0.0

    def begin(self, total: int) -> None:
        self._total = total

    def started(self, frame: Frame, depth: int) -> None:
        self._last_progress = time.monotonic()

    def finished(self, frame: Frame, depth: int, end: StepEnd) -> None:
        if end.status != "fact":
            self.say(step_line(frame, depth, end))

    def progress(self, data: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last_progress >= 10:
            self._last_progress = now
            self.say("          ... " + progress_text(data))

    def note(self, text: str) -> None:
        self.say("          " + text)

    def waiting(self, text: str) -> None:
        self.note(text)


class Live(Silent):
    """Finished steps scroll by; below them the running ones, their times and progress bars."""

    watches = True

    def __init__(self, out: IO[str], verbose: bool = False) -> None:
        super().__init__(out, verbose)
        self._open: dict[Frame, tuple[int, float]] = {}
        self._progress: dict[str, str] = {}
        self._note = ""
        from rich.console import Console
        from rich.live import Live as Area

        self._console = Console(file=out, highlight=False)
        self._area = Area(
            console=self._console,
            refresh_per_second=8,
            transient=True,
            get_renderable=self._picture,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, total: int) -> None:
        self._area.start()

    def started(self, frame: Frame, depth: int) -> None:
        self._open = {**self._open, frame: (depth, time.monotonic())}

    def left(self, frame: Frame) -> None:
        self._open = {key: row for key, row in self._open.items() if key is not frame}
        self._progress = {}

    def finished(self, frame: Frame, depth: int, end: StepEnd) -> None:
        self._note = ""
        if end.status != "fact":
            self.say(step_line(frame, depth, end, self._console.width))

    def progress(self, data: Mapping[str, Any]) -> None:
        self._progress = {
            **self._progress,
            str(data.get("label", "")): progress_text(data, bar=True),
        }

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self._note = text

    def waiting(self, text: str) -> None:
        self.note(text)

    def end(self) -> None:
        self._area.stop()

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        now, running = time.monotonic(), self._open
        width = self._console.width - 1
        rows: list[Any] = [
            Text(f"{now - since:8.1f} s  {'  ' * depth}{frame.label}"[:width])
            for frame, (depth, since) in ((step, running[step]) for step in _as_tree(running))
        ]
        rows += [Text(f"            {text}"[:width]) for text in self._progress.values()]
        if self._note:
            rows.append(Text("            " + self._note))
        return Group(*rows)


def _as_tree(frames: Iterable[Frame], below: Frame | None = None) -> Iterator[Frame]:
    """Running steps, each below the one that it works for."""
    for frame in frames:
        if frame.parent is below:
            yield frame
            yield from _as_tree(frames, frame)


def choose_reporter(out: str, quiet: bool, silent: bool, verbose: bool) -> Reporter:
    """The reporter for ``--out``, ``--quiet``, ``-s`` and ``-v`` on this standard output."""
    if out != "con":
        return Silent(sys.stderr if out == "json" and verbose else None, verbose)
    if silent:
        return Silent(None)
    if quiet:
        return Silent(sys.stdout, verbose)
    if sys.stdout is not None and sys.stdout.isatty():
        try:
            return Live(sys.stdout, verbose)
        except ImportError:
            pass
    return Plain(sys.stdout, verbose) if sys.stdout else Silent(None)


def step_line(frame: Frame, depth: int, end: StepEnd, width: int = _WIDTH) -> str:
    """``  made    2.1 s    get-generic-python-lib,_package.numpy 2.4.6`` in at most ``width``."""
    version = end.outcome.version if end.outcome else ""
    word = {"done": "ok", "cached": "cached", "failed": "FAILED"}[end.status]
    seconds = "" if end.status == "cached" else f"{end.seconds:.1f} s"
    line = f"{word:<7}{seconds:>8}  {'  ' * depth}{frame.label}"
    if version and version not in frame.label:
        line += f" ({version})"
    return line if len(line) <= width else line[: width - 3] + "..."


def progress_text(data: Mapping[str, Any], bar: bool = False) -> str:
    """``Offline performance 12 of 60 s`` with a bar where there is room for one."""
    done, total = _number(data.get("done")), _number(data.get("total"))
    unit = str(data.get("unit", ""))
    label = str(data.get("label", ""))[:40]
    if not total:
        return f"{label} {_amount(done, unit)}".strip()
    share = min(max(done / total, 0.0), 1.0)
    text = f"{label} {_amount(done, unit)} of {_amount(total, unit)}"
    if bar:
        filled = round(share * 20)
        return f"[{'#' * filled}{'.' * (20 - filled)}] {share:4.0%} {text}"
    return f"{text} ({share:.0%})"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _amount(value: float, unit: str) -> str:
    if unit in ("B", "bytes"):
        return size_text(value)
    text = f"{value:.1f}" if value < 10 and value % 1 else f"{value:.0f}"
    return f"{text} {unit}".strip()
