"""What others took of the machine, from counters as kernels wrote them, and what follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlperf.harness.jobs import LateQueries
from mlperf.harness.measuring import contention, telemetry
from mlperf.harness.measuring.contention import ContentionWatch, CpuContention, CpuReading, compared
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.measuring.telemetry import Telemetry
from mlperf.harness.measuring.verdict import RuleViolation, bursts, laid_to
from mlperf.harness.pipeline import recorder
from mlperf.harness.pipeline.recorder import Latencies
from mlperf.harness.reporting import summary
from mlperf.harness.reporting.results import ResultProblem
from mlperf.harness.session import quiet
from mlperf.harness.session.quiet import QuietWait
from mlperf.harness.settings import Targets, WorkerShape
from mlperf.harness.tuning import targets
from mlperf.harness.tuning.profile import SpeedProfile, ThroughputPoint

# Two CPUs of a virtual machine, half a second between the readings: quiet, then in a burst.
FIRST = """cpu  0 0 0 0 0 0 0 0 0 0
cpu0 440675 226411 109226 435679 6836 0 423 858 0 0
cpu1 524127 250344 125878 303747 10734 0 6942 816 0 0
"""
QUIET = """cpu  0 0 0 0 0 0 0 0 0 0
cpu0 440676 226411 109226 435728 6836 0 423 858 0 0
cpu1 524127 250344 125879 303796 10734 0 6942 816 0 0
"""
BURST = """cpu  0 0 0 0 0 0 0 0 0 0
cpu0 440720 226411 109228 435730 6836 0 423 860 0 0
cpu1 524170 250344 125880 303800 10734 0 6942 818 0 0
"""
# Of a process whose name has a blank and a bracket: 250 ticks of user and 30 of system time.
STAT = "4242 (a (b) c) S 1 4242 4242 0 -1 4194304 9 0 0 0 250 30 11 4 20 0 7 0 1 2 3"


def reading(stat: str, ours_s: float = 0.0, waited_s: dict[int, float] | None = None) -> CpuReading:
    """Counters of both CPUs as the harness would have them."""
    times = contention.cpu_times(stat, {0, 1})
    assert times is not None
    busy, idle, steal = (each / 100 for each in times)
    return CpuReading(busy, idle, steal, ours_s, waited_s or {})


def test_counters_are_read_of_the_cpus_that_we_may_use() -> None:
    assert contention.cpu_times(FIRST, {1}) == (907291, 314481, 816)
    assert contention.cpu_times(FIRST, ()) == (1684026, 756996, 1674)
    assert contention.cpu_times("nothing of the kind", ()) is None
    assert contention.used_ticks(STAT) == 280
    assert contention.used_ticks(STAT, ended=True) == 295
    assert contention.used_ticks("") == 0


def test_waits_are_read_of_every_thread(tmp_path: Path) -> None:
    for thread, waited in ((7, 1_500_000_000), (8, 20_000_000)):
        (tmp_path / str(thread)).mkdir()
        (tmp_path / str(thread) / "schedstat").write_text(f"99 {waited} 3\n")
    assert contention.waits(tmp_path) == {7: 1.5, 8: 0.02}
    assert contention.waits(tmp_path / "none") == {}


def test_what_we_use_ourselves_is_not_taken_by_others() -> None:
    quiet = compared(reading(FIRST), reading(QUIET), 2)
    assert quiet is not None
    assert quiet.share == 0.02
    ours = compared(reading(FIRST), reading(QUIET, ours_s=0.02), 2)
    assert ours is not None
    assert (ours.share, ours.disturbs) == (0.0, False)
    burst = compared(reading(QUIET), reading(BURST, ours_s=0.2), 2)
    assert burst is not None
    assert (burst.others_share, burst.steal_share) == (0.7, 0.04)
    assert compared(reading(FIRST), reading(FIRST), 2) is None


def test_within_a_quota_only_what_we_went_short_of_was_taken() -> None:
    """Sixteen CPUs, of which our container may use two, over ten seconds."""
    start = CpuReading(0.0, 0.0, 0.0)
    # Neighbours keep eight CPUs busy, and the quota holds our own threads back.
    throttled = CpuReading(100.0, 60.0, 0.0, ours_s=20.0, waited_s={1: 30.0})
    seen = compared(start, throttled, 16, 2.0)
    assert seen is not None
    assert (seen.share, seen.cores, seen.seconds, seen.disturbs) == (0.0, 2, 10.0, False)
    # We use one core, and one of the others is idle all the time.
    spared = compared(start, CpuReading(150.0, 10.0, 0.0, ours_s=10.0), 16, 2.0)
    assert spared is not None
    assert spared.share == 0.0
    # All are busy, and we get half of what we may have; a quarter of that went to other machines.
    short = compared(start, CpuReading(115.0, 0.0, 45.0, ours_s=10.0), 16, 2.0)
    assert short is not None
    assert (short.others_share, short.steal_share) == (0.35, 0.15)
    assert "35 % of 2 cores" in short.in_words()
    # No quota, or one of all CPUs and more, changes nothing.
    plain = compared(start, throttled, 16)
    assert plain == compared(start, throttled, 16, 16.0) == compared(start, throttled, 16, 99.0)
    assert plain is not None
    assert plain.share == 0.5
    watch = ContentionWatch(16, start, 2.0)
    whole = watch.total(throttled)
    assert whole is not None
    assert (whole.worst_share, whole.disturbs) == (0.0, False)


def test_a_free_core_is_no_disturbance() -> None:
    busy = CpuContention(cores=64, seconds=10, others_share=0.3, steal_share=0.0, waited_s=0.01)
    assert not busy.disturbs
    assert replace(busy, waited_s=4.0).disturbs
    assert replace(busy, waited_s=None).disturbs
    assert replace(busy, others_share=0.0, steal_share=0.05).disturbs
    calm = CpuContention(cores=2, seconds=10, others_share=0.008, steal_share=0.001, waited_s=3.0)
    assert not calm.disturbs
    assert replace(calm, worst_share=0.6).disturbs


def test_a_watch_knows_the_worst_window_and_the_waits_of_ended_threads() -> None:
    watch = ContentionWatch(2, reading(FIRST))
    watch.add(reading(QUIET, waited_s={1: 0.5, 2: 0.1}))
    watch.add(reading(BURST, waited_s={2: 0.4}))
    seen = watch.total(reading(BURST))
    assert seen is not None
    assert (seen.waited_s, seen.worst_share) == (0.9, 0.94)
    assert 0.4 < seen.share < seen.worst_share
    assert "waited 0.9 s for a core" in seen.in_words()
    assert "waited 112 s for" in replace(seen, waited_s=112.3).in_words()
    assert ContentionWatch(2, None).total(reading(BURST)) is None


def test_a_family_is_all_that_came_from_a_process() -> None:
    parents = {10: 1, 11: 10, 12: 11, 20: 1, 1: 0}
    assert contention.family(10, parents) == {10, 11, 12}
    assert contention.waiting(12, parents) == {11, 10}


BUSY = CpuContention(2, 10.0, others_share=0.31, steal_share=0.02, worst_share=0.6, waited_s=4.1)


def test_only_faults_of_time_are_laid_to_the_host_and_only_with_figures() -> None:
    late = RuleViolation("p99 latency", "the 99th percentile was 40 ms", "set a lower rate")
    seeds = RuleViolation("seeds of the round", "another seed", "install another")
    hopeless = RuleViolation("latency limit", "one batch alone takes 80 ms", "use a faster machine")
    found = laid_to(BUSY, (late, seeds, hopeless))
    assert [bool(each.host) for each in found] == [True, False, False]
    assert "31 % of 2 cores" in found[0].host
    assert "nothing else runs" in found[0].advice
    for calm in (None, replace(BUSY, others_share=0.0, steal_share=0.0, worst_share=0.0)):
        assert laid_to(calm, (late,)) == (late,)


STALLED = LateQueries(queries=2519, moments=90, of=840, p90_s=0.0007)


def test_late_queries_in_few_moments_are_laid_to_what_stopped_the_run() -> None:
    late = RuleViolation("p99 latency", "the 99th percentile was 26 ms", "set a lower rate")
    stopped = bursts(STALLED, 0.015)
    assert stopped == (
        "the run stood still now and then: queries were late in 90 of 840 moments of 50 ms, and "
        "90 % of all took at most 0.7 ms"
    )
    (found,) = laid_to(None, (late,), stopped)
    assert found.host == stopped
    assert found.advice.endswith("if it stays so: set a lower rate")
    for other in (
        replace(STALLED, moments=700),  # samples that take long
        replace(STALLED, queries=95),  # the same at a low rate
        replace(STALLED, p90_s=0.008),  # a rate that is too high
        replace(STALLED, queries=12, moments=2),
        replace(STALLED, queries=0, moments=0),
    ):
        assert not bursts(other, 0.015)
    assert laid_to(None, (late,), "") == (late,)


@pytest.mark.parametrize("seconds", [10, 60])
@pytest.mark.parametrize("rate", [400, 5000])
def test_stalls_are_told_from_long_samples_at_any_rate_and_length(rate: int, seconds: int) -> None:
    chance = np.random.default_rng(5)
    came = np.sort(chance.random(rate * seconds) * seconds)
    stalls, long = Latencies(), Latencies()
    # For 50 ms of each second the run stands still; or one sample of sixty takes 30 ms.
    stood = np.where(came % 1 < 0.05, 0.05 - came % 1, 0.0)
    for record, extra in ((stalls, stood), (long, 0.03 * (chance.random(len(came)) < 1 / 60))):
        record.ended.extend(came + extra + 0.001)
        record.seconds.extend(extra + 0.001)
    found, other = recorder.late([stalls], 0.015), recorder.late([long], 0.015)
    assert found is not None
    assert other is not None
    assert found.queries > 0.01 * len(came) < other.queries
    assert bursts(found, 0.015)
    assert not bursts(other, 0.015)
    assert recorder.late([], 0.015) is None


def test_a_rate_after_a_disturbed_run_is_answered_in_what_others_left() -> None:
    late = {"result_overlatency_query_count": 90, "result_query_count": 1000}
    log = DetailLog({**late, "result_completed_samples_per_sec": 1000.0})
    old = Targets(qps=1000.0, min_duration_ms=10_000)
    for left, expected in ((1.0, 800.0), (0.4, 320.0)):
        better = targets.adjusted(old, log, targets.Scenario("Server"), left)
        assert better is not None
        assert better.qps == pytest.approx(expected)
    assert BUSY.left == pytest.approx(0.4)
    assert replace(BUSY, worst_share=1.0).left == 0.25


def test_a_rate_does_not_collapse_where_others_take_everything() -> None:
    point = ThroughputPoint(WorkerShape(1, 1, 8), 60.0, 0.001)
    profile = SpeedProfile(2, 540, point, point, {}, 0.015, {}, (point,), {}, 1.0)
    server = targets.Scenario("Server")
    aim = Targets(qps=30.0, min_duration_ms=10_000)
    for _ in range(4):
        late = {"result_overlatency_query_count": 900, "result_query_count": 1000}
        log = DetailLog({**late, "result_completed_samples_per_sec": aim.qps})
        least = targets.floor(profile, server, 0.25)
        better = targets.adjusted(aim, log, server, 0.25, least)
        assert better is not None
        aim = better
    assert aim.qps == pytest.approx(6.0), "a tenth of the 60 samples/s that it answers alone"
    lower = targets.adjusted(replace(aim, qps=2.0), log, server, 0.25, least)
    assert lower is not None
    assert lower.qps == 2.0, "it is not raised either"
    assert targets.floor(profile, server, 1.0) == 0, "on a quiet machine a lower rate is what helps"
    assert targets.floor(profile, targets.Scenario("Offline"), 0.25) == 0


class Clock:
    """Time that passes only while somebody looks."""

    def __init__(self, looks: Iterator[CpuContention | None]) -> None:
        self.now, self._looks = 0.0, looks

    def look(self) -> CpuContention | None:
        self.now += 0.5
        return next(self._looks)


def patience(looks: list[CpuContention | None], said: list[str], once_s: float = 5.0) -> QuietWait:
    clock = Clock(iter(looks))
    return QuietWait(once_s, 8.0, said.append, lambda *shown: None, clock.look, lambda: clock.now)


def test_waiting_ends_with_quiet_or_at_its_bound_and_says_both() -> None:
    calm = replace(BUSY, others_share=0.01, steal_share=0.0)
    said: list[str] = []
    assert patience([calm], said).wait()
    assert said == []
    assert patience([None], said).wait()
    assert said == []
    assert patience([BUSY, BUSY, calm], said).wait()
    assert "31 % of 2 cores" in said[0]
    assert "waiting for at most 5 s" in said[0]
    assert said[1] == "quiet after 2 s"
    said.clear()
    long = patience([BUSY] * 40, said)
    assert not long.wait()
    assert "still busy" in said[-1]
    assert not long.wait()
    assert long.left_s == 0.0
    said.clear()
    assert not long.wait()
    assert len(said) == 1


def test_the_table_tells_the_worst_of_what_others_took_once() -> None:
    def result(name: str, others: float) -> SimpleNamespace:
        taken = replace(BUSY, others_share=others)
        seen = Telemetry(taken=taken)
        told = replace(seen, warnings=tuple(telemetry.warnings(seen, 2)))
        return SimpleNamespace(scenario=name, telemetry=lambda: (("performance", told),))

    results: Any = SimpleNamespace(results=(result("Server", 0.31), result("Offline", 0.07)))
    told = " ".join(" ".join(summary._warnings(results, "performance")).split())
    assert told.startswith("warning (Server): the machine was busy with something else")
    assert "31 % of 2 cores" in told
    assert "7.0 %" not in told
    assert told.endswith("less in Offline")
    assert list(summary._warnings(results, "find-performance")) == []


def test_a_cause_that_faults_of_a_run_share_is_told_once() -> None:
    def problem(mode: str, rule: str, host: str = "others used 75 %") -> ResultProblem:
        return ResultProblem("Server", mode, RuleViolation(rule, "too late", "run it again", host))

    several = [problem("performance", "latency"), problem("performance", "early stopping")]
    shown = list(summary._problems([*several, problem("accuracy", "accuracy", "")]))
    assert shown == [
        "Server performance: latency: too late",
        "Server performance: early stopping: too late",
        "  the host was busy: others used 75 %",
        "  -> run it again",
        "Server accuracy: accuracy: too late",
        "  -> run it again",
    ]


@pytest.mark.parametrize(("wait_s", "left"), [(None, 600.0), (0.0, 0.0), (7.5, 7.5)])
def test_how_long_it_waits_is_the_users_choice(wait_s: float | None, left: float) -> None:
    found = quiet.of_style("valid", ["accuracy", "performance"], wait_s, print, lambda *shown: None)
    assert found.left_s == left
    busy = replace(found, look=lambda: BUSY, clock=lambda: 0.0, left_s=0.0)
    assert not busy.wait()


@pytest.mark.parametrize("modes", [("accuracy",), ("accuracy", "readme"), ("readme",)])
def test_a_session_that_times_nothing_waits_for_nobody(modes: tuple[str, ...]) -> None:
    assert quiet.of_style("valid", modes, 60.0, print, lambda *shown: None).left_s == 0.0


@pytest.mark.parametrize("mode", ["performance", "find-performance", "compliance"])
def test_a_session_that_times_something_waits(mode: str) -> None:
    assert quiet.of_style("test", (mode, "accuracy"), None, print, lambda *shown: None).left_s > 0
