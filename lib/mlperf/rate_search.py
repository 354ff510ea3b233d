"""Looking for the highest rate at which queries are still answered in time.

Nothing here runs anything: ``search`` is given a function that tries a rate. The share of late
queries of one short run is a matter of luck, because late queries come in bursts. But its
logarithm grows steeply and almost evenly with the rate, so a line through all tries
estimates the rate at which the share is just allowed far better than any single try.

The harness finds the rate of Server so, the Triton client the highest one under a bound on p99.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

BRACKET, CLOSE, CONFIRM = "bracket", "close in", "confirm"

# When a rate in time and one too high are this close, there is nothing left to find.
PRECISION = 0.01
# Closing in also ends when the last tries have moved the estimate by less than this.
SETTLED = 0.006
LEAST_CLOSING = 6
# After a confirmation with room to spare, when it is worth it. Where one was far from the limit,
# the next step is as long as two.
STEP_UP = 1.05
WORTH_IT = 1.01
FIRST_STEP = 1.25
LARGEST_STEP = 2.0

# Shares further than this factor from the allowed one only say on which side of it they are.
USEFUL = math.log(8.0)
# How much the rate may grow with the share, both as logarithms.
LEAST, USUAL, LARGEST = 1 / 200, 1 / 25, 1 / 5
# By so much a rate without late queries may have been lucky, one with many unlucky.
LUCK = 1.04
# The spread of shares (as logarithms) at which the tries count as much as what is usual.
TRUST = 0.4


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a search may take.

    The most tries that look for a rate in time and one too high, that close in, that confirm;
    how much longer each kind is than the first; and ``whole_s``, the seconds of all of them at
    worst. A confirmation at the very limit would pass every second time: the first is at
    ``margin`` of the estimate, and the rate goes to ``back`` of it after one that failed. Only a
    ``patient`` search looks for more after one that passed.
    """

    bracket: int = 8
    closing: int = 10
    confirmations: int = 6
    longer: Mapping[str, int] = field(default_factory=lambda: {BRACKET: 1, CLOSE: 3, CONFIRM: 12})
    whole_s: float = math.inf
    margin: float = 0.99
    back: float = 0.98
    patient: bool = True

    @property
    def most_tries(self) -> int:
        """Return the greatest number of runs of a search."""
        return self.bracket + self.closing + self.confirmations

    @property
    def first_s(self) -> float:
        """So long a first try may be that all together stay within ``whole_s``."""
        counts = {BRACKET: self.bracket, CLOSE: self.closing, CONFIRM: self.confirmations}
        return self.whole_s / sum(count * self.longer[kind] for kind, count in counts.items())


THOROUGH = Effort()
# What the figure of a tiny form is for: to show that the way works, and about how fast.
QUICK = Effort(8, 4, 3, {BRACKET: 1, CLOSE: 1, CONFIRM: 3}, 75.0, 0.9, 0.8, patient=False)


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One short run: its rate in samples/s, the share of late queries, and what was allowed.

    One that ``fell_behind`` answered more slowly than it was asked: in a run that is short beside
    the latency limit no query need be late for that.
    """

    qps: float
    late_share: float
    allowed_share: float
    queries: int
    tail_ms: float | None
    seconds: float
    purpose: str
    fell_behind: bool = field(default=False, metadata={"when_given": True})

    @property
    def passed(self) -> bool:
        """Return whether few enough queries were late."""
        return self.late_share <= self.allowed_share and not self.fell_behind

    def in_words(self) -> str:
        """What came of it."""
        if self.fell_behind:
            return "fell behind"
        return "in time" if self.passed else "too late"

    @property
    def excess(self) -> float:
        """Return the logarithm of late over allowed queries; below zero when it passed.

        Without a late query it is that of half a query, the most that such a run can show.
        """
        share = max(self.late_share, 0.5 / max(self.queries, 1))
        if self.fell_behind:
            return USEFUL * 2
        return math.log(share / self.allowed_share) if self.allowed_share > 0 else USEFUL * 2

    @property
    def useful(self) -> bool:
        """Return whether the share is near the allowed one, and more than nothing."""
        return self.late_share > 0 and not self.fell_behind and abs(self.excess) <= USEFUL


@dataclass(frozen=True, slots=True)
class RateSearchResult:
    """The result of a search: the rate, None when not even the least was answered in time."""

    qps: float | None
    tries: tuple[RateTrial, ...]
    confirmed: bool


Attempt = Callable[[float, str], RateTrial]


def search(
    start: float, attempt: Attempt, least: float = 0.0, effort: Effort = THOROUGH
) -> RateSearchResult:
    """The highest rate that passes, found from ``start``; ``attempt(qps, purpose)`` tries one.

    It gives up below the rate ``least``.
    """
    tries: list[RateTrial] = []
    if not _bracket(start, attempt, least, tries, effort):
        return RateSearchResult(None, tuple(tries), False)
    _close_in(attempt, tries, effort)
    guess = _estimate(tries)
    first = _highest_in_time(tries) if guess is None else effort.margin * guess
    best = _confirm(first, attempt, tries, effort)
    return RateSearchResult(best or effort.back * tries[-1].qps, tuple(tries), best is not None)


def _confirm(qps: float, attempt: Attempt, tries: list[RateTrial], effort: Effort) -> float | None:
    """The highest rate that a longer run has confirmed, from ``qps`` downwards or upwards."""
    best: float | None = None
    failed = math.inf
    back, up = effort.back, STEP_UP
    for _ in range(effort.confirmations):
        tries.append(attempt(qps, CONFIRM))
        last, guess = tries[-1], _estimate(tries) or 0.0
        if last.passed:
            best = qps
            if not effort.patient:
                break
            # This long run counts more than all before it, which something may have disturbed.
            qps = min(effort.margin * max(guess, _meeting([last])), up * qps)
            up = up if last.useful else up * up
        else:
            failed = qps
        if best is None:
            lower = back * qps
            qps = min(lower, max(effort.margin * guess, lower / STEP_UP)) if guess else lower
            back = back if last.useful else back * back
            continue
        if failed < math.inf:
            qps = min(qps, math.sqrt(best * failed)) if failed > STEP_UP * best else best
        if qps <= best * WORTH_IT:
            break
    return best


def _bracket(
    start: float, attempt: Attempt, least: float, tries: list[RateTrial], effort: Effort
) -> bool:
    """Try rates until one is in time and one is not; False when none is in time."""
    qps, step = start, FIRST_STEP
    for _ in range(effort.bracket):
        tries.append(attempt(qps, BRACKET))
        passed = any(trial.passed for trial in tries)
        failed = any(not trial.passed for trial in tries)
        if passed and failed:
            return True
        qps = qps * step if passed else qps / step
        step = min(step * step, LARGEST_STEP)
        if qps < least:
            return False
    return passed


def _close_in(attempt: Attempt, tries: list[RateTrial], effort: Effort) -> None:
    """Try where the limit seems to be, until it settles."""
    if all(trial.passed for trial in tries):
        return
    guesses: list[float] = []
    for number in range(effort.closing):
        guess = _estimate(tries)
        if guess is None:
            low, high = _highest_in_time(tries), _lowest_too_late(tries)
            if high <= low * (1 + PRECISION):
                return
            guess = math.sqrt(low * high)
        else:
            guesses.append(guess)
            if number >= LEAST_CLOSING and _settled(guesses):
                return
        tries.append(attempt(guess, CLOSE))


def _settled(guesses: Sequence[float]) -> bool:
    last = guesses[-3:]
    return len(last) == 3 and max(last) <= min(last) * (1 + SETTLED)


def _highest_in_time(tries: Sequence[RateTrial]) -> float:
    return max(trial.qps for trial in tries if trial.passed)


def _lowest_too_late(tries: Sequence[RateTrial]) -> float:
    """Return the lowest rate that failed and does not contradict a higher one that passed."""
    floor = _highest_in_time(tries)
    failed = [trial.qps for trial in tries if not trial.passed]
    return min((qps for qps in failed if qps > floor), default=max(failed))


def _estimate(tries: Sequence[RateTrial]) -> float | None:
    """Where a line through the useful tries meets the allowed share; None without any.

    The others bound it: it is not far below a rate without late queries, nor far above one with
    far too many.
    """
    useful = [trial for trial in tries if trial.useful]
    if not useful:
        return None
    guess = _meeting(useful)
    clear = [trial.qps for trial in tries if trial.passed and not trial.useful]
    hopeless = [trial.qps for trial in tries if not trial.passed and not trial.useful]
    if hopeless:
        guess = min(guess, LUCK * min(hopeless))
    if clear:
        guess = max(guess, max(clear) / LUCK)
    return guess


def _meeting(useful: Sequence[RateTrial]) -> float:
    """Return the rate on a straight line through the logarithms, long runs counting more.

    The line gives the rate by the share, not the other way round: shares are spread over the same
    range however steeply they grow.
    """
    total = sum(each.queries for each in useful)
    weights = [each.queries / total for each in useful]
    x = [math.log(each.qps) for each in useful]
    mean_x = sum(w * each for w, each in zip(weights, x, strict=True))
    mean_y = sum(w * each.excess for w, each in zip(weights, useful, strict=True))
    spread, product = TRUST**2, TRUST**2 * USUAL
    for weight, place, each in zip(weights, x, useful, strict=True):
        spread += weight * (each.excess - mean_y) ** 2
        product += weight * (each.excess - mean_y) * (place - mean_x)
    return math.exp(mean_x - mean_y * min(max(product / spread, LEAST), LARGEST))
