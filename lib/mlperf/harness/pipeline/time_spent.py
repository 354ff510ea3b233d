"""Where the time of workers goes: in the backend's call, in work around it, in waiting."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from ..backends.base import Array, Feeds, Predictor
from ..backends.generation import AnswerStream, TokenGenerator
from ..jobs import DeviceTime, TimeSpent


@dataclass(slots=True)
class WorkerClock:
    """The time of one worker, in seconds of ``perf_counter``; only its own thread writes.

    Taking it costs a batch about 0.4 microseconds. ``worked_s`` is from taking a batch to its
    answer, ``called_s`` the part of it in the backend.
    """

    began: float = 0.0
    ended: float = 0.0
    worked_s: float = 0.0
    called_s: float = 0.0
    predictors: Sequence[Predictor] = ()

    def restart(self) -> None:
        """Forget everything: what comes next is measured."""
        self.began = self.ended = self.worked_s = self.called_s = 0.0


class TimedPredictor(Predictor):
    """A predictor whose calls are timed."""

    def __init__(self, inner: Predictor, clock: WorkerClock) -> None:
        self._inner = inner
        self._clock = clock
        self.length_step = inner.length_step
        self.few_callers = inner.few_callers

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``Predictor``."""
        began = time.perf_counter()
        try:
            return self._inner.predict(feeds)
        finally:
            self._clock.called_s += time.perf_counter() - began

    def buffer(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """See ``Predictor``."""
        return self._inner.buffer(shape, dtype)


class TimedGenerator(TokenGenerator):
    """A generator whose calls are timed, with the first tokens that are passed on in them."""

    def __init__(self, inner: TokenGenerator, clock: WorkerClock) -> None:
        self._inner = inner
        self._clock = clock

    def generate(self, prompts: Sequence[Array], stream: AnswerStream) -> None:
        """See ``TokenGenerator``."""
        began = time.perf_counter()
        try:
            self._inner.generate(prompts, stream)
        finally:
            self._clock.called_s += time.perf_counter() - began


def timed(team: Mapping[str, Predictor], clock: WorkerClock) -> dict[str, Predictor]:
    """Return the predictors of one worker, timed by its clock."""
    clock.predictors = tuple(team.values())
    return {
        name: TimedGenerator(one, clock)
        if isinstance(one, TokenGenerator)
        else TimedPredictor(one, clock)
        for name, one in team.items()
    }


def spent(clocks: Sequence[WorkerClock]) -> TimeSpent | None:
    """Return where the time of all workers went; None where nothing was answered."""
    working = [clock for clock in clocks if clock.began]
    if not working:
        return None
    # Other processes know the other clock, which is the same one on Linux.
    shift = time.monotonic() - time.perf_counter()
    return TimeSpent(
        workers=len(clocks),
        began_s=min(clock.began for clock in working) + shift,
        ended_s=max(clock.ended for clock in working) + shift,
        worked_s=sum(clock.worked_s for clock in working),
        called_s=sum(clock.called_s for clock in working),
        device=_device_time(clocks),
    )


def _device_time(clocks: Sequence[WorkerClock]) -> DeviceTime | None:
    """Return the timed calls of all predictors together; None where none times its device."""
    times = [one.device_time() for clock in clocks for one in clock.predictors]
    known = [time for time in times if time is not None]
    if not known:
        return None
    return DeviceTime(
        sum(time.called_s for time in known),
        sum(time.copied_s for time in known),
        sum(time.computed_s for time in known),
        sum(time.calls for time in known),
    )
