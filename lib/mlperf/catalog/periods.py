"""Scenarios by rounds that several benchmarks have in common.

Source: the required and optional scenarios in the settings of every round's official checker. In
rounds 1.0 and 1.1 Server was optional in datacenter, and until 1.0 MultiStream was so in edge.
"""

from __future__ import annotations

from . import rounds
from .benchmark import Compliance, Period
from .scenario import INTERACTIVE, MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM

STREAM = (SINGLE_STREAM, OFFLINE)
STREAMS = (SINGLE_STREAM, MULTI_STREAM, OFFLINE)
QUERIES = (SERVER, OFFLINE)
TOKEN_QUERIES = (SERVER, INTERACTIVE)


def streams(first: str, last: str) -> tuple[Period, ...]:
    """Edge: SingleStream, MultiStream and Offline."""
    if rounds.since(first, "2.0"):
        return (Period(first, last, STREAMS),)
    return (
        Period(first, "1.0", STREAM, (MULTI_STREAM,)),
        Period("1.1", "1.1", STREAM),
        Period("2.0", last, STREAMS),
    )


def queries(first: str, last: str) -> tuple[Period, ...]:
    """Datacenter: Server and Offline."""
    if rounds.since(first, "2.0"):
        return (Period(first, last, QUERIES),)
    return (
        Period(first, "0.7", QUERIES),
        Period("1.0", "1.1", (OFFLINE,), (SERVER,)),
        Period("2.0", last, QUERIES),
    )


def choice(first: str, last: str) -> tuple[Period, ...]:
    """Datacenter: Offline, and one of Server and Interactive, which the checker calls optional."""
    return (Period(first, last, (OFFLINE,), TOKEN_QUERIES),)


def test(number: int, first: str, last: str) -> Compliance:
    """Return the rounds that ask for a compliance test."""
    return Compliance(f"TEST{number:02d}", first, last)
