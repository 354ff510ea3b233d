"""One round of all loaded samples, where LoadGen requests each of them equally often.

With ``sample_concatenate_permutation`` LoadGen fills up every performance run to whole rounds, in
all scenarios, whatever the duration that is requested (loadgen.cc, ``GenerateQueries``). A slow
machine answers one round of GPT-J's 13368 articles in hours: a run that is no result anyway keeps
fewer of them loaded.
"""

from __future__ import annotations

from dataclasses import replace

from mlperf import catalog
from mlperf.catalog import Scenario

from ..settings import Overrides, SessionSettings, Targets
from .profile import SpeedProfile

# A round of a test run takes so many seconds at most, and has at least so many samples.
LONGEST_S = 40.0
LEAST = 100


def size(benchmark: str, overrides: Overrides, profile: SpeedProfile) -> int:
    """Return how many loaded samples must be issued equally often, 0 without that rule."""
    spec = catalog.benchmarks().get(benchmark)
    if spec is None or not spec.equal_issue:
        return 0
    loaded = overrides.performance_sample_count or spec.loaded_samples
    return min(profile.sample_count, loaded)


def shortened(
    settings: SessionSettings,
    profile: SpeedProfile,
    scenario: Scenario,
    aim: Targets,
    longest_s: float = LONGEST_S,
) -> Overrides:
    """The overrides of a test run: with fewer loaded samples where a round would take too long.

    What the user has requested stays.
    """
    overrides = settings.overrides
    whole = size(settings.benchmark, overrides, profile)
    if overrides.performance_sample_count or not whole:
        return overrides
    rate = 1 / profile.query_s(scenario)
    if scenario.online:
        rate = min(rate, aim.qps or rate)
    fitting = max(LEAST, int(longest_s * rate))
    return replace(overrides, performance_sample_count=fitting) if fitting < whole else overrides
