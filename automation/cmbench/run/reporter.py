"""What receives the events of the steps of a run, and the lines that they print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from cmbench.format.model import StepOutcome
from cmbench.lib.secrecy import Secrets
from cmbench.plan.step_run import StepRun
from cmbench.run.log import RunLog
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.run.workers import Crew


@immutable(frozen=True, slots=True, eq=False, repr=False)
class StepEnd:
    """How a step ended: ``done``, ``cached``, ``fact``, ``failed`` or ``interrupted``."""

    status: str
    seconds: float
    why: str = ""
    outcome: StepOutcome | None = None
    error: str = ""


class Reporter(Protocol):
    """A receiver of the events of steps; ``watches`` says whether it shows progress at all."""

    watches: bool

    def begin(self, total: int) -> None:
        """A run of about ``total`` steps starts."""

    def started(self, step_run: StepRun, depth: int) -> None:
        """A step has started."""

    def left(self, step_run: StepRun) -> None:
        """A step does not run any more; ``finished`` follows when its turn has come."""

    def finished(self, step_run: StepRun, depth: int, end: StepEnd) -> None:
        """A step has ended."""

    def progress(self, data: Mapping[str, Any]) -> None:
        """A long piece of work moved on: label, done, total, unit."""

    def output(self, line: str) -> None:
        """A line of a step's own output, wanted by ``-v``."""

    def say(self, line: str) -> None:
        """A line that the requested script itself prints for the user."""

    def note(self, text: str) -> None:
        """Something a user should know, such as why a cache entry is not used."""

    def waiting(self, text: str) -> None:
        """Whom the run waits for."""

    def end(self) -> None:
        """The run is over; the terminal is left as it was found."""


class StepOutput:
    """Writes what steps print into ``log``, and reports it; ``verbose`` is that of ``-v``."""

    def __init__(
        self,
        reporter: Reporter,
        log: RunLog | None = None,
        verbose: bool = False,
        crew: Crew | None = None,
    ) -> None:
        self.reporter = reporter
        self.verbose = verbose
        self._log = log
        self._crew = crew

    @contextmanager
    def captured(self, step_run: StepRun, secrets: Secrets) -> Iterator[None]:
        """What ``customize.py`` prints goes into the log, of a step that speaks to the user too."""
        from contextlib import redirect_stderr, redirect_stdout

        def learned(show: Callable[..., None], lines: Sequence[str]) -> None:
            # It may print what it has only just put into the env.
            secrets.learn(step_run.env.written_now())
            show(*lines)

        shown = partial(learned, self.say if step_run.speaks else self.log)
        logged = partial(learned, self.log)
        with redirect_stdout(_LineWriter(shown)), redirect_stderr(_LineWriter(logged)):
            yield

    def say(self, *lines: str) -> None:
        """Take lines that the requested script prints for its user."""
        self._write_log(lines)
        for line in lines:
            self.reporter.say(line)

    def _write_log(self, lines: Sequence[str]) -> None:
        if self._log is not None:
            lane = self._lane()
            self._log.line("\n".join([lane + line for line in lines]))

    def _lane(self) -> str:
        """Return the prefix of output lines of this thread, empty without parallel steps."""
        task = self._crew.here if self._crew is not None else None
        return f"[{task.label}] " if task is not None else ""

    def log(self, *lines: str) -> None:
        """Take lines of a step's own output, which only ``-v`` shows."""
        self._write_log(lines)
        for line in lines if self.verbose else ():
            self.reporter.output(self._lane() + line)


class _LineWriter:
    """A text stream that passes whole lines on, those of one text together."""

    def __init__(self, take: Callable[[Sequence[str]], None]) -> None:
        self._take = take
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._take(lines)
        return len(text)

    def flush(self) -> None:
        """Nothing is held back but an unfinished line."""

    def isatty(self) -> bool:
        return False
