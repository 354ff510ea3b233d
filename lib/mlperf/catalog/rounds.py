"""The rounds of MLPerf inference in the order of time, and their fixed seeds.

Source: the seeds in the settings of every round's official submission checker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from .text_enums import CatalogError

ROUNDS = (
    *("0.5", "0.7", "1.0", "1.1", "2.0", "2.1", "3.0"),
    *("3.1", "4.0", "4.1", "5.0", "5.1", "6.0", "6.1"),
)
LATEST = ROUNDS[-1]
# From here on LoadGen can be had as a package, and so the harness can run it.
FIRST_RUNNABLE = "4.1"

# qsl, sample_index and schedule seeds by round; the first identifies a LoadGen.
_KINDS = ("qsl", "sample_index", "schedule")
_SEEDS: Mapping[str, tuple[int, int, int]] = {
    "0.7": (12786827339337101903, 12640797754436136668, 3135815929913719677),
    "1.0": (7322528924094909334, 1570999273408051088, 3507442325620259414),
    "1.1": (1624344308455410291, 517984244576520566, 10051496985653635065),
    "2.0": (6655344265603136530, 15863379492028895792, 12662793979680847247),
    "2.1": (14284205019438841327, 4163916728725999944, 299063814864929621),
    "3.0": (10003631887983097364, 17183018601990103738, 12134888396634371638),
    "3.1": (148687905518835231, 520418551913322573, 811580660758947900),
    "4.0": (13281865557512327830, 198141574272810017, 7575108116881280410),
    "4.1": (3066443479025735752, 10688027786191513374, 14962580496156340209),
    "5.0": (6023615788873153749, 15036839855038426416, 9933818062894767841),
    "5.1": (1780908523862526354, 14771362308971278857, 18209322760996052031),
    "6.0": (2465351861681999779, 14276810075590677512, 3936089224930324775),
    "6.1": (2085463073848966840, 2747215439041700203, 16159082839903944936),
}
_TEST05_SEEDS: Mapping[str, tuple[int, int, int]] = {
    "2.1": (313588358309856706, 471397156132239067, 413914573387865862),
    "3.0": (14646058500348515648, 1207248993894122914, 11879132697760422006),
    "3.1": (793197339507417767, 255610748586851044, 352213341366340113),
    "4.0": (2376919268182438552, 11176391829184272374, 3911940905271271337),
    "4.1": (16799458546791641818, 5453809927556429288, 5435552105434836064),
}


def parse(text: str) -> str:
    """Return the name of a round, such as ``6.1`` for ``v6.1`` or ``r6.1``; raises CatalogError."""
    name = text.strip().lower().lstrip("vr")
    if name not in ROUNDS:
        raise CatalogError(f"no round {text}; there are: {', '.join(ROUNDS)}")
    return name


def position(benchmark_round: str) -> int:
    """Return the index of a round in the order of time; raises CatalogError for an unknown one."""
    return ROUNDS.index(parse(benchmark_round))


def within(benchmark_round: str, first: str, last: str) -> bool:
    """Return whether a round lies between two others, both included."""
    return position(first) <= position(benchmark_round) <= position(last)


def since(benchmark_round: str, first: str) -> bool:
    """Return whether a round is ``first`` or a later one."""
    return position(benchmark_round) >= position(first)


def qsl_seeds() -> dict[str, int]:
    """Return the seed that identifies a LoadGen, by round that can be run here."""
    return {name: seeds[0] for name, seeds in _SEEDS.items() if since(name, FIRST_RUNNABLE)}


def own_seeds(seed: int) -> dict[str, int]:
    """Three seeds that follow from one: of a measurement that is of no round, by the same names."""
    return {kind: _derived(f"{kind} {seed}") for kind in _KINDS}


def _derived(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def seeds(benchmark_round: str, test: str = "") -> dict[str, int]:
    """The seeds of a round's LoadGen: qsl, sample_index, schedule; empty where none are known.

    The compliance test TEST05 has seeds of its own.
    """
    table = _TEST05_SEEDS if test == "TEST05" else _SEEDS
    values = table.get(benchmark_round)
    return dict(zip(_KINDS, values, strict=True)) if values else {}
