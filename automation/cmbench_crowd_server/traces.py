"""What of a detailed log a copy of it has, also where its figures were changed.

A trace is text of 64 characters: 16 of a digest of the times that the run took, and 12 groups of 4
of the gaps between its lines, to 2 %. Two runs of one machine, at one moment too, have a third of
these gaps in common at most; whoever changes figures leaves them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from cmbench_crowd import manifest as m
from cmbench_crowd_server.ledger import REFUSED, Ledger, Row
from cmbench_results.schema import crowd_run
from cmbench_results.sql import sa

LENGTH = 64
_EXACT, _GROUP = 16, 4
_MOST, _LEAST = 12, 6
"""Gaps of a log that count, and without so many none do."""
_ALIKE = 0.75
_STEP = math.log(1.02)
_LONGEST_MS = 100.0
"""A longer gap is the run itself, which is as long as the rules say."""
_TIME = re.compile(r'"time_ms": (\d{1,15}\.?\d{0,9})\b')


def of_log(log: Path, values: Callable[[Path], Mapping[str, object]]) -> str:
    """Return the trace of a detailed log; ``values`` reads its values by key."""
    figures = values(log)
    times = [str(figures.get(f"result_{name}_latency_ns")) for name in ("min", "max", "mean")]
    exact = m.digest(" ".join(times).encode("utf-8", "surrogatepass"))
    groups = (m.digest(str(gap).encode())[:_GROUP] for gap in _gaps(log))
    return f"{exact[:_EXACT]}{''.join(groups)}"


def _gaps(log: Path) -> list[int]:
    """Return the first gaps between lines of different times, as powers of 1.02."""
    gaps: list[int] = []
    last = math.inf
    with open(log, encoding="utf-8", errors="replace") as stream:
        for match in filter(None, map(_TIME.search, stream)):
            now = float(match[1])
            if 0 < now - last < _LONGEST_MS:
                gaps.append(round(math.log(now - last) / _STEP))
            last = now
            if len(gaps) == _MOST:
                break
    return gaps


def sent_before(ledger: Ledger, row: Row) -> list[str]:
    """Return the traces of all logs that were sent before an upload, and not refused."""
    earlier = sa.or_(
        crowd_run.c.at < row["at"], sa.and_(crowd_run.c.at == row["at"], crowd_run.c.id < row["id"])
    )
    fits = (crowd_run.c.log_digest != "", crowd_run.c.state != REFUSED, earlier)
    with ledger.store.reading() as connection:
        return list(connection.execute(sa.select(crowd_run.c.log_digest).where(*fits)).scalars())


def are_of_one_log(one: str, other: str) -> bool:
    """Return whether two traces are of one log, with other figures or not."""
    if not one or not other:
        return False
    if one[:_EXACT] == other[:_EXACT]:
        return True
    pairs = list(zip(_groups(one), _groups(other), strict=False))
    alike = sum(group == beside for group, beside in pairs)
    return len(pairs) >= _LEAST and alike >= _ALIKE * len(pairs)


def _groups(trace: str) -> list[str]:
    return [trace[at : at + _GROUP] for at in range(_EXACT, len(trace), _GROUP)]
