"""Words of NVIDIA's guides and what they mean here, by round."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache

from common.problems import Problem
from mlperf import catalog
from mlperf.catalog import BenchmarkSpec, Scenario
from nvidia_mlperf.flow.errors import nearest

VENDOR_ROUNDS = ("v0.7", "v2.0", "v3.1")
SCENARIOS = (Scenario.OFFLINE, Scenario.SERVER, Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)
_EXACT = "high_accuracy"
_PLACEHOLDER = re.compile(
    r"<[^<>]*>|\[[^][]*[A-Za-z][^][]*\]|\.{3,}|…|(?<![^\s=:])(?:DIR|/?path/to\b[^\s:]*)(?![^\s:])"
)
"""What guides write where a user has to choose."""


def placeholders(text: str) -> list[str]:
    """Return the placeholders left in a guide's line; the path of an existing file has none."""
    return [] if os.path.exists(text) else list(dict.fromkeys(_PLACEHOLDER.findall(text)))


def of_rounds(rounds: Iterable[str]) -> str:
    """Return which rounds have what this one lacks, and how to choose one."""
    names = list(rounds)
    return f"it is one of {' and '.join(names)}: --vendor_round={names[-1]}"


def benchmark(vendor_round: str, word: str) -> str:
    """NVIDIA's own word for a benchmark in that round.

    Raises Problem with the rounds that have the word, or else with the nearest one.
    """
    known = rounds(vendor_round)
    if word.lower() not in known:
        others = [each for each in VENDOR_ROUNDS if word.lower() in rounds(each)]
        hint = of_rounds(others) if others else nearest(word, known)
        raise Problem("bad-value", f"{vendor_round} has no benchmark {word}", hint)
    return word.lower()


def our_benchmark(vendor_round: str, word: str, config_ver: str) -> str:
    """Return our name of a benchmark; ``high_accuracy`` is 99.9 % where there are two targets."""
    name = rounds(vendor_round)[benchmark(vendor_round, word)].name
    return name + ".9" if name.endswith("-99") and _EXACT in config_ver else name


def scenario(word: str) -> Scenario:
    """The scenario: SingleStream, singlestream, single_stream, single-stream; raises Problem."""
    match = Scenario.of_folder(re.sub("[-_]", "", word))
    if match not in SCENARIOS:
        raise Problem("bad-value", f"there is no scenario {word}", nearest(word, SCENARIOS))
    return match


@cache
def rounds(vendor_round: str) -> Mapping[str, BenchmarkSpec]:
    """Return the words of a round, and our benchmark of the lower accuracy target for each.

    They are the families of the benchmarks that the round asks for and that can be run. Raises
    Problem for a round that is not known.
    """
    if vendor_round not in VENDOR_ROUNDS:
        raise Problem(
            "bad-value",
            f"--vendor_round={vendor_round} is not known",
            nearest(vendor_round, VENDOR_ROUNDS),
        )
    number = vendor_round.removeprefix("v")
    specs: dict[str, BenchmarkSpec] = {}
    for spec in catalog.benchmarks("").values():
        if spec.scratch and spec.allowed(number, "edge,datacenter"):
            specs.setdefault(spec.family, spec)
    return specs
