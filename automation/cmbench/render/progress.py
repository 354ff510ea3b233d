"""What a user sees while a run goes on: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

from cmbench.api.events import Event, EventStep
from cmbench.errors import coloured, visible
from cmbench.format.model import RunOptions
from cmbench.lib.text_files import size_text
from common.problems import Hint

_WIDTH = 80
_BAR = 10


def show_warning(text: str) -> None:
    """Print a warning on standard error: on a terminal in its width, elsewhere as it is."""
    shown = visible(text)
    text = _in_columns(shown) if _on_screen(sys.stderr) else shown
    print(coloured(text, sys.stderr), file=sys.stderr)


def _on_screen(out: IO[str] | None) -> bool:
    return out is not None and out.isatty()


def _in_columns(text: str) -> str:
    from common.text import terminal_width, wrapped  # Most runs warn of nothing.

    width = terminal_width()
    lines = [
        [line] if len(line) <= width else wrapped(line, rest="  ", width=width)
        for line in (text.lines() if isinstance(text, Hint) else text.splitlines())
    ]
    return "\n".join(part for parts in lines for part in parts)


class SilentProgress:
    """Shows events: nothing but what the requested script says, for whom it waits, and warnings.

    ``warns``: warnings too; ``faults``: also the faults in the metas of scripts.
    """

    watches = False
    """Whether the engine looks at what a running step reports, such as its progress."""

    def __init__(self, out: IO[str] | None, warns: bool = False, faults: bool = False) -> None:
        self._out = out
        self._warns = warns
        self._faults = faults

    def __call__(self, event: Event) -> None:
        """Show an event of a kind that this view knows."""
        show = getattr(self, event.kind, None)
        if show is not None:
            show(event)

    def say(self, line: str) -> None:
        """Show a line."""
        if self._out is None:
            return
        try:
            print(coloured(visible(line), self._out), file=self._out, flush=True)
        except OSError:
            # The reader has gone (``| head``), or the disk is full; the run itself continues.
            self._out = None

    def output(self, event: Event) -> None:
        """Show a line of a step."""
        self.say(event.text)

    said = output
    waiting = output

    def warning(self, event: Event) -> None:
        """Show a warning, away from the results."""
        if self._warns:
            show_warning(event.text)

    def faults(self, event: Event) -> None:
        """Show a fault in a script of a foreign repository."""
        if self._faults:
            self.warning(event)


class PlainProgress(SilentProgress):
    """One line per finished step that did something, and one every ten seconds of long work."""

    watches = True
    _last_progress = 0.0

    def started(self, event: Event) -> None:
        """Remember the start: progress is first shown ten seconds later."""
        self._last_progress = time.monotonic()

    def finished(self, event: Event) -> None:
        """Show the line of a step."""
        if event.step is not None and event.step.status != "fact":
            self.say(step_line(event.step))

    def progress(self, event: Event) -> None:
        """Show progress, not too often."""
        now = time.monotonic()
        if now - self._last_progress >= 10:
            self._last_progress = now
            self.say("          ... " + progress_text(event.data))

    def note(self, event: Event) -> None:
        """Show a note below the steps."""
        self.say("          " + event.text)

    waiting = note


class QuietProgress(SilentProgress):
    """What runs and how far it is: ten seconds after the start, and then once a minute."""

    watches = True
    first_s, every_s = 10.0, 60.0

    def __init__(self, out: IO[str] | None) -> None:
        super().__init__(out, warns=True)
        self._open: dict[int, str] = {}
        self._progress = ""
        self._over = threading.Event()

    def began(self, event: Event) -> None:
        """Begin to look at the clock: a step need not report anything while it runs."""
        self._over.clear()
        with suppress(RuntimeError):  # No more threads: the run does not need to be told of.
            threading.Thread(
                target=self._report_until_end, args=(time.monotonic(),), daemon=True
            ).start()

    def started(self, event: Event) -> None:
        """Remember what runs."""
        if event.step is not None:
            self._open = {**self._open, event.step.number: event.step.label}

    def left(self, event: Event) -> None:
        """Forget a step that has ended."""
        if event.step is not None:
            gone = event.step.number
            self._open = {key: label for key, label in self._open.items() if key != gone}
            self._progress = ""

    def progress(self, event: Event) -> None:
        """Keep the newest progress."""
        self._progress = progress_text(event.data)

    def ended(self, event: Event) -> None:
        """Say no more."""
        self._over.set()

    def _report_until_end(self, since: float) -> None:
        wait = self.first_s
        while not self._over.wait(wait):
            wait = self.every_s
            label = next(reversed(self._open.values()), "")
            if label or self._progress:
                lead = f"running{time.monotonic() - since:6.0f} s  "
                self.say(lead + fitting(label, self._progress, _WIDTH - len(lead)))


class LiveProgress(SilentProgress):
    """Finished steps scroll by; below them the running ones, and one line of progress."""

    watches = True

    def __init__(self, out: IO[str], warns: bool = False, faults: bool = False) -> None:
        super().__init__(out, warns, faults)
        self._open: dict[int, tuple[EventStep, float]] = {}
        self._progress = ""
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

    def began(self, event: Event) -> None:
        """Begin to draw."""
        self._area.start()

    def started(self, event: Event) -> None:
        """Add a running step."""
        if event.step is not None:
            self._open = {**self._open, event.step.number: (event.step, time.monotonic())}

    def left(self, event: Event) -> None:
        """Take away a step that has ended."""
        if event.step is not None:
            gone = event.step.number
            self._open = {key: row for key, row in self._open.items() if key != gone}
            self._progress = ""

    def finished(self, event: Event) -> None:
        """Let the line of a step scroll by."""
        self._note = ""
        if event.step is not None and event.step.status != "fact":
            self.say(step_line(event.step, self._console.width))

    def progress(self, event: Event) -> None:
        """Keep the newest progress: the text of a long measurement changes all the time."""
        self._progress = progress_text(event.data, bar=True)

    def say(self, line: str) -> None:
        """Let a line scroll by."""
        from rich.text import Text

        shown = Text.from_ansi(coloured(visible(line), self._console.file))
        self._console.print(shown, soft_wrap=True)

    def warning(self, event: Event) -> None:
        """Let a warning scroll by too: standard error may be the terminal drawn on."""
        if not _on_screen(sys.stderr):
            super().warning(event)
        elif self._warns:
            self.say(_in_columns(event.text))

    def note(self, event: Event) -> None:
        """Show a note below the running steps."""
        self._note = visible(event.text, lines=False)

    waiting = note

    def ended(self, event: Event) -> None:
        """Leave the terminal as it was found."""
        self._area.stop()

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        now = time.monotonic()
        width = self._console.width - 1
        lines = [
            f"{now - since:8.1f} s  {'  ' * step.depth}{step.label}"
            for step, since in _as_tree(self._open.values())
        ]
        lead = " " * 12
        texts = (fitting("", text, width - len(lead)) for text in (self._progress, self._note))
        below = [f"{lead}{text}" for text in texts if text]
        # The innermost steps are those that work; lines above the screen could not be erased.
        room = max(self._console.height - len(below) - 1, 1)
        return Group(*(Text(shortened(line, width)) for line in lines[-room:] + below))


def _as_tree(
    rows: Collection[tuple[EventStep, float]], below: int = 0
) -> Iterator[tuple[EventStep, float]]:
    """Return the running steps, below the steps that wait for them."""
    for step, since in rows:
        if step.caller == below:
            yield step, since
            yield from _as_tree(rows, step.number)


def screen(console: bool, options: RunOptions) -> SilentProgress:
    """Return the view for ``--out``, ``--quiet``, ``-s`` and ``-v``; ``console``: it was typed."""
    if options.out == "json":
        return SilentProgress(sys.stderr if options.verbose else None)
    if not console:
        return SilentProgress(None)
    if options.silent:
        return SilentProgress(None, warns=True)
    if options.quiet:
        return QuietProgress(sys.stdout)
    return _most_detailed()


def _most_detailed() -> SilentProgress:
    """Return the view with the most detail that this standard output can show."""
    if sys.stdout is None:
        return SilentProgress(None, warns=True, faults=True)
    if sys.stdout.isatty():
        with suppress(ImportError):
            return LiveProgress(sys.stdout, warns=True, faults=True)
    return PlainProgress(sys.stdout, warns=True, faults=True)


_STATUS = {"done": "ok", "cached": "cached", "failed": "FAILED", "interrupted": "stopped"}


def step_line(step: EventStep, width: int = _WIDTH) -> str:
    """``  made    2.1 s    get-generic-python-lib,_package.numpy 2.4.6`` in at most ``width``."""
    word = _STATUS[step.status]
    seconds = "" if step.status == "cached" else f"{step.seconds:.1f} s"
    line = f"{word:<7}{seconds:>8}  {'  ' * step.depth}{step.label}"
    if step.version and step.version not in step.label:
        line += f" ({step.version})"
    return shortened(line, width)


def fitting(label: str, progress: str, room: int) -> str:
    """Return a step and its progress in ``room`` characters: the name of the step is cut first.

    Where that is not enough, the last parts of the progress are left out, each as a whole.
    """
    while len(progress) > room and ", " in progress:
        progress = progress.rpartition(", ")[0]
    left = room - len(progress) - len(": ")
    if label and progress and len(label) > left:
        label = shortened(label, left) if left > 12 else ""
    return shortened(": ".join(part for part in (label, progress) if part), room)


def shortened(text: str, room: int) -> str:
    """``text`` in ``room`` characters, with dots where something is left out."""
    return text if len(text) <= room else f"{text[: room - 3]}..."


def progress_text(data: Mapping[str, Any], bar: bool = False) -> str:
    """``Offline performance 12 s of 60 s (20%), 9 samples/s``; ``bar`` draws the share in front.

    Behind a bar the amounts come last: 80 columns cut them, and not the time that is left.
    """
    done, total = _number(data.get("done")), _number(data.get("total"))
    unit = visible(str(data.get("unit", "")), lines=False)
    label = shortened(visible(str(data.get("label", "")), lines=False), 40)
    more = visible(str(data.get("more", "")), lines=False)[:80]
    tail = f", {more}" if more else ""
    if not total:
        return f"{label} {_amount(done, unit)}{tail}".strip()
    share = min(max(done / total, 0.0), 1.0)
    amounts = f"{_amount(done, unit)} of {_amount(total, unit)}"
    if bar:
        filled = round(share * _BAR)
        drawn = f"[{'#' * filled}{'.' * (_BAR - filled)}]"
        return f"{drawn} {share:4.0%} {label}{tail}, {amounts}"
    return f"{label} {amounts} ({share:.0%}){tail}"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _amount(value: float, unit: str) -> str:
    if unit in ("B", "bytes"):
        return size_text(value)
    text = f"{value:.1f}" if value < 10 and value % 1 else f"{value:.0f}"
    return f"{text} {unit}".strip()
