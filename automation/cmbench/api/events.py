"""Events of a run, as values: one for everything that a page or a log can show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cmbench.lib.secrecy import Secrets
from cmbench.plan.step_run import StepRun
from cmbench.run.reporter import StepEnd
from cmbench.values import field, immutable


@immutable(frozen=True, slots=True, eq=False, repr=False)
class EventStep:
    """A step of a run; ``number`` names it while it runs, ``caller`` is that of who needs it.

    ``status`` (``done``, ``cached``, ``fact``, ``failed``, ``interrupted``) and what follows are
    known at its end.
    """

    label: str
    depth: int
    number: int
    caller: int = 0
    status: str = ""
    seconds: float = 0.0
    version: str = ""
    why: str = ""
    error: str = ""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Event:
    """One thing that happened; ``kind`` is one of these.

    ``began`` (``data``: ``total``, about how many steps there are) and ``ended``; ``started``,
    ``left`` (it has ended) and ``finished`` (its turn in the order of the plan has come) of
    ``step``; ``progress`` (``data``: ``label``, ``done``, ``total``, ``unit``, ``more``);
    ``output``, a line of a step, under ``verbose``; ``said``, a line of the requested script for
    its user; ``note``; ``waiting``, for whom; ``warning``, and ``faults``, which can be left out
    where little is to be shown.
    """

    kind: str
    text: str = ""
    step: EventStep | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the event in one line."""
        step = f"{self.step.label} {self.step.status}".strip() if self.step is not None else ""
        return " ".join(str(part) for part in (self.kind, self.text, step, self.data or "") if part)


OnEvent = Callable[[Event], None]


class EventPublisher:
    """Passes reports of a run to ``on_event``, as events; ``failed`` is the exception of that."""

    def __init__(self, on_event: OnEvent | None, secrets: Secrets | None = None) -> None:
        self._on_event = on_event
        self._secrets = secrets or Secrets()
        self.failed: BaseException | None = None
        self.watches = on_event is not None and bool(getattr(on_event, "watches", True))

    def tell(self, kind: str, text: str = "", step: EventStep | None = None, **data: Any) -> None:
        """Pass one event to ``on_event``."""
        if self._on_event is None:
            return
        try:
            shown = self._secrets
            self._on_event(Event(kind, text and shown.text(text), step, data and shown.data(data)))
        except BaseException as problem:
            self.failed = problem
            raise

    def begin(self, total: int) -> None:
        """A run of about ``total`` steps starts."""
        self.tell("began", total=total)

    def started(self, step_run: StepRun, depth: int) -> None:
        """A step has started."""
        self.tell("started", step=self._step(step_run, depth))

    def left(self, step_run: StepRun) -> None:
        """A step does not run any more."""
        self.tell("left", step=self._step(step_run, 0))

    def finished(self, step_run: StepRun, depth: int, end: StepEnd) -> None:
        """A step has ended."""
        shown = self._secrets.text
        why, error = shown(end.why), end.error and shown(end.error)
        hidden = StepEnd(end.status, end.seconds, why, end.outcome, error)
        self.tell("finished", step=self._step(step_run, depth, hidden))

    def progress(self, data: Mapping[str, Any]) -> None:
        """A long piece of work moved on."""
        self.tell("progress", **data)

    def output(self, line: str) -> None:
        """A line of a step's own output."""
        self.tell("output", line)

    def say(self, line: str) -> None:
        """A line of the requested script for its user."""
        self.tell("said", line)

    def note(self, text: str) -> None:
        """Something a user should know."""
        self.tell("note", text)

    def waiting(self, text: str) -> None:
        """Whom the run waits for."""
        self.tell("waiting", text)

    def end(self) -> None:
        """The run is over."""
        self.tell("ended")

    def _step(self, step_run: StepRun, depth: int, end: StepEnd | None = None) -> EventStep:
        label, step_id = self._secrets.known(step_run.step.label), id(step_run)
        caller = id(step_run.parent) if step_run.parent is not None else 0
        if end is None:
            return EventStep(label, depth, step_id, caller)
        version = self._secrets.known(end.outcome.version) if end.outcome else ""
        return EventStep(
            label, depth, step_id, caller, end.status, end.seconds, version, end.why, end.error
        )
