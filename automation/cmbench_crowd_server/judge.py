"""Trust in results by comparison: hosts that agree, and figures far from all.

Both compare one class of hardware at one kind of work. A host is one contributor with at least
``RUNS`` checked runs; two are independent where their keys differ, and their networks do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from cmbench_results.values import CHECKED, REPRODUCED

RUNS = 3
"""Runs of a host that agreement needs."""
CLOSE, LOOSE = math.log(1.05), math.log(1.25)
"""Logarithms of ratios: within the first hosts always agree, beyond the second never."""
HOSTS, FAR = 5, 3.5
"""So many hosts tell what is usual, and so many robust deviations away is an outlier."""
_SCALE = 1.4826
"""From a median of deviations to a standard deviation."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MeasuredHost:
    """The checked runs of one contributor: logarithms of their figures, by the ids of the runs."""

    sender: str
    networks: frozenset[str]
    logs: Mapping[str, float]

    @property
    def middle(self) -> float:
        """The median of the logarithms of its figures, without a unit."""
        return median(self.logs.values())


def hosts(rows: Sequence[Row]) -> list[MeasuredHost]:
    """Return the hosts of checked runs of one class."""
    senders: dict[str, list[Row]] = {}
    for row in rows:
        if row["value"] and row["value"] > 0:
            senders.setdefault(row["sender"], []).append(row)
    return [
        MeasuredHost(
            sender,
            frozenset(row["network"] for row in own),
            {row["id"]: math.log(row["value"]) for row in own},
        )
        for sender, own in senders.items()
    ]


def tiers(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Return the tiers of the checked runs of one class, with their reasons."""
    machines = hosts(rows)
    able = [host for host in machines if len(host.logs) >= RUNS]
    bound = allowed(able)
    judged = {}
    for host in machines:
        peers = [p for p in able if host in able and _independent(host, p)]
        close = [p for p in peers if abs(host.middle - p.middle) <= bound]
        words = _words(host, host in able, len(peers), len(close), bound)
        for run in host.logs:
            judged[run] = (REPRODUCED if close else CHECKED, words)
    return judged


def allowed(machines: Sequence[MeasuredHost]) -> float:
    """Return how far hosts may be apart, as the logarithm of a ratio.

    It is 5 %, or three median deviations of the runs of a host, but 25 % at most.
    """
    spread = [abs(value - host.middle) for host in machines for value in host.logs.values()]
    return min(LOOSE, max(CLOSE, 3 * median(spread))) if spread else CLOSE


def _independent(one: MeasuredHost, other: MeasuredHost) -> bool:
    if one.sender == other.sender:
        return False
    # Of this machine's own addresses there is only one network, which proves nothing.
    return not (one.networks & other.networks) - {""}


def _words(host: MeasuredHost, able: bool, peers: int, close: int, bound: float) -> str:
    percent = f"{100 * (math.exp(bound) - 1):.0f} %"
    if not able:
        return f"{len(host.logs)} of the {RUNS} runs that a comparison with others needs"
    if not peers:
        return "no independent host with this hardware has measured the same yet"
    return f"{close} of {peers} independent hosts with this hardware agree within {percent}"


def outlier(row: Row, rows: Sequence[Row]) -> str:
    """Return why a figure is far from those of other hosts of its class; empty where it is not."""
    others = [host for host in hosts(rows) if host.sender != row["sender"]]
    if len(others) < HOSTS or not row["value"]:
        return ""
    middles = [host.middle for host in others]
    usual = median(middles)
    deviation = max(_SCALE * median([abs(middle - usual) for middle in middles]), CLOSE / FAR)
    away = (math.log(row["value"]) - usual) / deviation
    if abs(away) <= FAR:
        return ""
    ratio = math.exp(math.log(row["value"]) - usual)
    return f"it is {ratio:.2f} times the median of {len(others)} other hosts with this hardware"
