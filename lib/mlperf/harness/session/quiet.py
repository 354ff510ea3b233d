"""Waiting for a moment in which nothing else uses the machine, within bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .. import host
from ..measuring import contention
from ..measuring.contention import CpuContention
from ..settings import ACCURACY, README
from ..wording import duration

# Nothing of ours runs while we look: above this share it is worth to wait.
QUIET_SHARE = 0.1
LOOK_S = 0.5
# Seconds before one measurement, and in all of a session, by the style of its runs.
BOUNDS = {"test": (15.0, 45.0), "fast": (60.0, 180.0), "valid": (120.0, 600.0)}

UNTIMED = frozenset((ACCURACY, README))


def look() -> CpuContention | None:
    """Return the CPU time that others take now; None where the system does not report it."""
    cores = contention.cores()
    beside = contention.beside()
    before = contention.read(beside)
    time.sleep(LOOK_S)
    after = contention.read(beside)
    if before is None or after is None:
        return None
    return contention.compared(before, after, cores, host.quota_cores())


@dataclass(slots=True)
class QuietWait:
    """How long a session still waits for others to end; ``look`` takes about half a second."""

    once_s: float
    left_s: float
    say: Callable[[str], None]
    show: Callable[[str, float, float], None]
    look: Callable[[], CpuContention | None]
    clock: Callable[[], float] = time.monotonic
    seen: CpuContention | None = field(default=None, init=False)

    def wait(self) -> bool:
        """Wait until others take little, within the bounds; whether they do."""
        began, most = self.clock(), min(self.once_s, self.left_s)
        waited, announced = 0.0, False
        while True:
            self.seen = taken = self.look()
            waited = self.clock() - began
            if taken is None or taken.share <= QUIET_SHARE or waited >= most:
                break
            if not announced:
                bound = f"waiting for at most {duration(most)}"
                self.say(f"the machine is busy: {taken.in_words()}; {bound}")
                announced = True
            self.show(f"waiting, others take {100 * taken.share:.0f} %", waited, most)
        quiet = taken is None or taken.share <= QUIET_SHARE
        if announced or not quiet:
            self.left_s = max(0.0, self.left_s - waited)
            self.say(_conclusion(taken, quiet, waited))
        return quiet


def _conclusion(taken: CpuContention | None, quiet: bool, waited: float) -> str:
    if quiet:
        return f"quiet after {duration(waited)}"
    assert taken is not None
    return f"still busy: {taken.in_words()}; measuring all the same"


def of_style(
    style: str,
    modes: Collection[str],
    wait_s: float | None,
    say: Callable[[str], None],
    show: Callable[[str, float, float], None],
) -> QuietWait:
    """Return the wait of a session with runs of a style; ``wait_s`` is the user's bound, if any.

    A session of whose ``modes`` none is timed only looks: what it finds out is the same on a busy
    machine.
    """
    once, whole = BOUNDS[style]
    patience_s = 0.0 if UNTIMED.issuperset(modes) else wait_s
    return QuietWait(once, whole if patience_s is None else patience_s, say, show, look)
