"""Tuning for models that take seconds for a sample: few calls, honest means, an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import benchmark_lab as lab
from mlperf import catalog
from mlperf.catalog import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlperf.harness import host, records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks.base import Result
from mlperf.harness.benchmarks.repeated import RepeatedBenchmark
from mlperf.harness.errors import HarnessError
from mlperf.harness.jobs import Probe, ProbeRequest
from mlperf.harness.measuring import loadgen_run
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.measuring.verdict import judge
from mlperf.harness.pipeline import workers
from mlperf.harness.session import estimate, find, launch, precheck
from mlperf.harness.settings import Overrides, SessionSettings, Targets, WorkerShape
from mlperf.harness.tuning import layout_probe, slow_models, targets, tune
from mlperf.harness.tuning.profile import SpeedProfile, StreamLatency, ThroughputPoint


class Clock:
    """Time that passes only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[int, list[int]]] = []

    def perf_counter(self) -> float:
        """As ``time.perf_counter``."""
        return self.now


class Work:
    """A benchmark whose samples take seconds by their costs, less on more threads."""

    def __init__(self, clock: Clock, costs: Sequence[float], gain: float = 1.0) -> None:
        self.clock = clock
        self.costs = np.asarray(costs)
        self.sample_count = len(costs)
        self.result = Result(np.dtype(np.uint8), (1,))
        self.gain = gain

    def load(self, indices: Any) -> None:
        """Nothing to load."""

    def seconds(self, indices: Sequence[int], threads: int) -> float:
        """What a batch takes; in a batch each further sample costs ``gain`` of its own."""
        each = self.costs[np.asarray(indices)]
        return float(each[0] + self.gain * each[1:].sum()) / threads


def made(
    monkeypatch: pytest.MonkeyPatch, work: Work, given: Overrides, cores: int = 2
) -> tuple[tune.TuningResult, list[float]]:
    """What is measured of ``work``; callers of one layout take their turns."""
    clock = work.clock
    told: list[float] = []

    def solvers(*arguments: Any) -> list[Any]:
        shape: WorkerShape = arguments[3]

        def solve(indices: Sequence[int], *_: Any) -> None:
            clock.calls.append((shape.threads, list(indices)))
            clock.now += work.seconds(indices, shape.threads)

        return [SimpleNamespace(solve=solve) for _ in range(shape.workers)]

    def together(callers: Any, size: int, *_: Any, **__: Any) -> tuple[float, float]:
        seconds = [caller.batch(size) for caller in callers]
        return sum(size / each for each in seconds), seconds[0]

    for module in (layout_probe, slow_models):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(layout_probe, "solvers", solvers)
    monkeypatch.setattr(slow_models, "measure_together", together)
    monkeypatch.setattr(tune, "measure_together", together)
    request: Any = SimpleNamespace(overrides=given, model=SimpleNamespace(stored_bytes=lambda: 0))
    stand: Any = layout_probe.LayoutProbe(request, work, backends.create("null", "cpu", "float32"))  # type: ignore[arg-type]
    streams = (SINGLE_STREAM, MULTI_STREAM)
    return tune._measure(stand, cores, streams, told.append), told


def test_a_sample_of_minutes_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(Clock(), [600.0] * 5)
    measured, told = made(monkeypatch, work, Overrides())
    assert work.clock.calls == [(2, [0])]
    assert measured.offline == ThroughputPoint(WorkerShape(1, 2, 1), 1 / 300, 300.0)
    assert measured.streams[SINGLE_STREAM].median_s == 300.0
    assert measured.streams[MULTI_STREAM].median_s == 8 * 300.0
    assert told
    assert told[-1] >= 300.0


def test_the_cheapest_sample_predicts_the_mean_one(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(Clock(), [800.0, 40.0, 360.0])
    measured, _ = made(monkeypatch, work, Overrides())
    assert {tuple(indices) for _, indices in work.clock.calls} == {(1,)}
    assert measured.offline.samples_per_s == pytest.approx(1 / 200)
    assert measured.streams[SINGLE_STREAM].about_s == pytest.approx(200)
    assert measured.streams[SINGLE_STREAM].median_s == pytest.approx(180)


def test_of_samples_of_seconds_one_like_the_mean_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(Clock(), [2.0, 30.0, 9.0, 11.0])
    measured, told = made(monkeypatch, work, Overrides())
    assert work.clock.calls[0] == (2, [0])
    assert work.clock.calls[1] == (2, [3])
    assert measured.offline.samples_per_s == pytest.approx(2 / 13, rel=0.01)
    assert work.clock.now <= 1.5 * max(told)
    assert work.clock.now < 90


def test_a_layout_too_slow_for_that_sample_is_tried_with_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(Clock(), [40.0, 150.0, 110.0])
    measured, _ = made(monkeypatch, work, Overrides(), cores=16)
    by_threads = dict(work.clock.calls)
    assert by_threads[16] == [2]
    assert by_threads[2] == [2]
    assert by_threads[1] == [0]
    assert len(measured.points) == 4
    assert {round(point.samples_per_s, 9) for point in measured.points} == {0.16}


def test_batches_grow_while_they_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(Clock(), [4.0] * 100, gain=0.25)
    measured, _ = made(monkeypatch, work, Overrides())
    assert measured.offline.shape.batch == 32
    assert max(work.seconds(i, t) for t, i in work.clock.calls) <= slow_models.CALL_S
    plain = Work(Clock(), [4.0] * 100)
    made(monkeypatch, plain, Overrides())
    assert max(len(indices) for _, indices in plain.clock.calls) == 2, "no gain, no further batch"


def test_the_users_batch_is_taken_even_if_it_takes_too_long_to_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seconds, tried in ((4.0, 8), (40.0, 1)):
        work = Work(Clock(), [seconds] * 20)
        measured, _ = made(monkeypatch, work, Overrides(batch_size=8, threads=1, num_workers=1))
        assert max(len(indices) for _, indices in work.clock.calls) == tried
        assert measured.offline.shape == WorkerShape(1, 1, 8)
        assert measured.offline.samples_per_s == pytest.approx(1 / seconds)
        assert measured.streams[MULTI_STREAM].shape.batch == 8


def test_what_the_user_fixed_is_the_only_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(Clock(), [100.0] * 3)
    measured, _ = made(monkeypatch, work, Overrides(num_workers=3, threads=1))
    assert measured.offline.shape == WorkerShape(3, 1, 1)
    assert measured.offline.samples_per_s == pytest.approx(3 / 100)
    assert len(work.clock.calls) == 4


def test_a_slow_start_makes_no_model_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(Clock(), [0.0001] * 20)
    plain = work.seconds
    started: list[int] = []

    def seconds(indices: Sequence[int], threads: int) -> float:
        late = 0.0 if started else 5.0
        started.append(1)
        return late + plain(indices, threads)

    monkeypatch.setattr(work, "seconds", seconds)
    measured, told = made(monkeypatch, work, Overrides())
    assert not told
    assert measured.streams[SINGLE_STREAM].median_s == pytest.approx(0.00005)
    assert measured.streams[SINGLE_STREAM].shape.threads == 2
    assert {point.shape.batch for point in measured.points} == {1, 2, 4, 8, 16, 32, 64}


@pytest.mark.parametrize(("every", "threads"), [(25, 2), (5, 1)])
def test_threads_are_judged_by_the_tail_that_the_scenario_is_judged_by(
    every: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(Clock(), [0.01] * 20)
    plain = work.seconds
    asked: list[int] = []

    def seconds(indices: Sequence[int], threads: int) -> float:
        """Two threads now and then wait for each other."""
        asked.append(threads)
        late = 3.0 if threads == 2 and len(asked) % every == 0 else 1.0
        return late * plain(indices, threads)

    monkeypatch.setattr(work, "seconds", seconds)
    measured, _ = made(monkeypatch, work, Overrides())
    assert measured.streams[SINGLE_STREAM].shape.threads == threads


@pytest.mark.parametrize(("again", "chosen"), [(1.0, 2), (3.0, 1)])
def test_one_late_query_of_a_few_is_looked_at_again(
    again: float, chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_bench: Any, _scenario: str, threads: int, seconds: float) -> StreamLatency:
        late = 3.0 if seconds == tune.LATENCY_S else again
        tail = (late if threads == 2 else 1.0) / threads
        return StreamLatency(WorkerShape(1, threads, 1), 1 / threads, tail)

    monkeypatch.setattr(tune, "_opened_latency", opened)
    bench: Any = SimpleNamespace(stream_threads=lambda _cores: (2, 1))
    found = tune._stream_latency(bench, MULTI_STREAM, 2)
    assert found.shape.threads == chosen


def test_queries_of_long_batches_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(Clock(), [1.8] * 20)
    measured, _ = made(monkeypatch, work, Overrides())
    eights = [threads for threads, indices in work.clock.calls if len(indices) == 8]
    assert eights.count(2) <= 2, "one of the throughput, one of the stream"
    assert measured.streams[MULTI_STREAM].median_s == pytest.approx(7.2)
    assert measured.streams[MULTI_STREAM].shape.threads == 2


@pytest.mark.parametrize(("seconds", "batches"), [(5.0, 2), (0.5, 4)])
def test_a_long_first_batch_is_the_measurement(seconds: float, batches: int) -> None:
    made: list[int] = []

    def batch(size: int) -> float:
        made.append(size)
        return seconds

    def batch_times(size: int, _seconds: float) -> list[float]:
        return [batch(size)]

    one = SimpleNamespace(prepare=batch, batch_times=batch_times)
    callers: Any = [one, one]
    rate, batch_s = layout_probe.measure_together(callers, 3, 0.0)
    assert (rate, batch_s) == (6 / seconds, seconds)
    assert made == [3] * batches


def test_what_a_heavy_model_packs_in_its_first_batch_is_no_part_of_its_speed() -> None:
    times = iter([2.5, 1.0])
    caller = SimpleNamespace(prepare=lambda _: next(times), batch_times=lambda *_: [next(times)])
    work = Work(Clock(), [1.0] * 4)
    stand: Any = SimpleNamespace(benchmark=work, count=4, open=lambda *_: [caller])
    seen = slow_models.SampleTiming(threads=2, sample=0, seconds=1.2, mean_s=1.2)
    few = slow_models.SlowModel(stand, slow_models.SampleCosts(stand), seen, lambda _: None)
    assert few._point(1, 1, 1, 1.2) == ThroughputPoint(WorkerShape(1, 1, 1), 1.0, 1.0)


def test_the_shipped_model_measured_as_if_it_were_heavy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = records.decode(SessionSettings, lab.settings(tmp_path))
    monkeypatch.setattr(slow_models, "HEAVY_S", 0.0)
    monkeypatch.setattr(host, "usable_cores", lambda: 2)
    told: list[float] = []
    found = tune.tune(
        ProbeRequest(
            settings.benchmark,
            settings.backend,
            settings.device,
            settings.model,
            settings.dataset,
            Overrides(),
        ),
        told.append,
    )
    layouts = {(point.shape.workers, point.shape.threads) for point in found.points}
    assert layouts == {(2, 1), (1, 2)}
    assert found.offline in found.points
    assert found.streams[MULTI_STREAM].shape == WorkerShape(1, 2, 8)
    assert found.seconds < 60
    assert told
    assert all(seconds > 0 for seconds in told)


def test_a_benchmark_without_multi_stream_is_not_measured_for_it() -> None:
    assert tune.streams_of("gptj-99") == (SINGLE_STREAM,)
    assert tune.streams_of("resnet50") == (SINGLE_STREAM, MULTI_STREAM)
    assert tune.streams_of("no rules") == (SINGLE_STREAM, MULTI_STREAM)


def test_a_scenario_that_the_rules_never_had_is_refused(tmp_path: Path) -> None:
    asked = lab.settings(tmp_path, benchmark="gptj-99", scenarios=["MultiStream", "Offline"])
    settings = records.decode(SessionSettings, asked)
    probe = Probe({"loadgen": "6.0.17"}, catalog.rounds.qsl_seeds()["6.1"], 10, 300_000_000)
    with pytest.raises(HarnessError, match="gptj-99 has no MultiStream") as caught:
        precheck.check(settings, catalog.benchmark("gptj-99"), probe, tmp_path)
    assert "SingleStream, Server, Offline" in caught.value.hint


def test_a_repeated_benchmark_reports_how_much_memory_it_takes() -> None:
    work: Any = Work(Clock(), [1.0])
    work.outputs, work.rules, work.work_bytes = {}, None, 77
    assert RepeatedBenchmark(work, 3).work_bytes == 77


def calibration(seconds: float) -> SpeedProfile:
    """Of a model that takes so many seconds for a sample, whatever the scenario."""
    point = ThroughputPoint(WorkerShape(1, 2, 1), 1 / seconds, seconds)
    one = StreamLatency(WorkerShape(1, 2, 1), 0.9 * seconds, 2 * seconds, seconds)
    eight = StreamLatency(WorkerShape(1, 2, 8), 7.2 * seconds, 16 * seconds, 8 * seconds)
    streams = {SINGLE_STREAM: one, MULTI_STREAM: eight}
    return SpeedProfile(2, 43, point, point, streams, 0.015, {}, (point,), {}, 1.0)


@pytest.mark.parametrize(
    ("benchmark", "changes", "run", "expected"),
    [
        ("3d-unet-99", {}, (OFFLINE, "performance"), 44 * 100),
        ("3d-unet-99", {"performance_sample_count": 2}, (OFFLINE, "performance"), 3 * 100),
        ("3d-unet-99", {}, (SINGLE_STREAM, "performance"), 101 * 100),
        ("3d-unet-99", {"max_query_count": 5}, (SINGLE_STREAM, "performance"), 6 * 100),
        ("3d-unet-99", {}, (OFFLINE, "find-performance"), 44 * 100),
        ("3d-unet-99", {}, (SINGLE_STREAM, "accuracy"), 43 * 100),
        ("ssd-resnet34", {}, (OFFLINE, "performance"), 2 * 100),
        ("ssd-resnet34", {}, (SINGLE_STREAM, "find-performance"), 3 * 100),
        ("ssd-resnet34", {}, (MULTI_STREAM, "find-performance"), 3 * 800),
        ("ssd-resnet34", {"style": "valid"}, (OFFLINE, "performance"), 24577 * 100),
        ("ssd-resnet34", {}, (SERVER, "find-performance"), 0),
        ("ssd-resnet34", {"server_target_qps": 0.001}, (SERVER, "performance"), 1001 * 100),
        ("ssd-resnet34", {"server_target_qps": 50.0}, (SERVER, "performance"), 501 * 100),
    ],
)
def test_long_runs_are_forecast(
    benchmark: str, changes: dict[str, Any], run: tuple[str, str], expected: float
) -> None:
    given = Overrides(**{key: changes[key] for key in changes if key != "style"})
    style = changes.get("style", "test")
    settings: Any = SimpleNamespace(benchmark=benchmark, form="full", overrides=given, style=style)
    found = estimate.seconds(settings, calibration(100.0), *run)
    assert found == pytest.approx(expected, abs=estimate.START_S)


def test_callers_warm_up_one_after_the_other() -> None:
    settings: Any = SimpleNamespace(benchmark="ssd-resnet34", overrides=Overrides(), style="test")
    four = ThroughputPoint(WorkerShape(4, 1, 1), 0.1, 40.0)
    measured = replace(calibration(10.0), offline=four)
    found = estimate.seconds(settings, measured, OFFLINE, "performance")
    alone = estimate.seconds(settings, calibration(10.0), OFFLINE, "performance")
    assert found - alone == pytest.approx(4 * 40 - 10)


@pytest.mark.parametrize(
    ("costs", "orders"),
    [(None, [[2, 0, 1]]), ([5, 5, 5], [[2, 0, 1]]), ([7, 5, 9], [[2, 0, 1], [1, 0, 2]])],
)
def test_a_run_warms_up_twice_only_where_samples_differ(
    costs: list[int] | None, orders: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loadgen_run.footprint, "settle", lambda _graphs: None)
    taken: list[list[int]] = []
    caller: Any = SimpleNamespace(warm_up=taken.append)
    work: Any = Work(Clock(), [1.0] * 3)
    work.costs = None if costs is None else np.asarray(costs)
    team = workers.DirectPipeline(caller)
    warmed = loadgen_run._Warmed(
        work, performance(OFFLINE, 3), team, backends.create("null", "cpu", "float32")
    )
    warmed.load([2, 0, 1])
    warmed.load([2, 0, 1])
    assert taken == orders


def performance(scenario: str, batch: int) -> Any:
    """The part of a run's settings that warming up looks at."""
    shape, model = WorkerShape(1, 1, batch), SimpleNamespace(graphs=tuple)
    return SimpleNamespace(mode="performance", scenario=scenario, shape=shape, model=model)


def test_a_gpu_warms_up_with_batches_of_all_lengths() -> None:
    costs = np.asarray([7, 5, 9, 7])
    assert list(loadgen_run._by_length([0, 1, 2, 3], costs, 3)) == [[2, 0, 3], [0, 3, 1], [1, 1, 1]]
    many = np.arange(1000)
    batches = list(loadgen_run._by_length(range(1000), many, 4))
    assert len(batches) <= loadgen_run.LENGTHS
    assert batches[0] == [999, 998, 997, 996]


def test_a_gpu_warms_up_with_the_sizes_that_others_are_padded_to() -> None:
    null = backends.create("null", "cpu", "float32")
    assert loadgen_run._server_sizes(6, null) == [1, 2, 3, 4, 5]
    null.prepares = True
    assert loadgen_run._server_sizes(64, null) == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize(("side", "most"), [(224, 512), (800, 69), (2000, 64)])
def test_large_batches_have_a_limit_in_bytes(side: int, most: int) -> None:
    null = backends.create("null", "cpu", "float32")
    null.largest_batch = 512
    image = SimpleNamespace(dtype="float32", shape=(3, side, side))
    graph = SimpleNamespace(inputs=[image])
    stand: Any = layout_probe.LayoutProbe.__new__(layout_probe.LayoutProbe)
    stand._backend, stand._free, stand._work_bytes = null, None, 0
    stand._request = SimpleNamespace(model=SimpleNamespace(graphs=lambda: [graph]))
    assert stand.most(1, 1) == most


def test_larger_batches_are_tried_while_a_device_has_room_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tune, "measure_together", lambda team, size, seconds: (size, 0.01))
    rooms = iter([True, True, False])
    stand: Any = SimpleNamespace(
        batch_sizes=lambda *_: [1, 2, 4, 8, 16],
        open=lambda *_: [],
        arrange=lambda *_: None,
        has_room=lambda: next(rooms),
    )
    points = list(tune._throughputs(stand, 1, 1))
    assert [point.shape.batch for point in points] == [1, 2, 4]


@pytest.mark.parametrize(("limit_s", "sizes"), [(5.0, [3, 1, 2]), (1.5, [3, 1])])
def test_server_warms_up_with_batches_of_all_sizes_while_that_is_quick(
    limit_s: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(loadgen_run, "time", clock)
    monkeypatch.setattr(loadgen_run, "SIZES_S", limit_s)
    monkeypatch.setattr(loadgen_run.footprint, "settle", lambda _graphs: None)
    taken: list[int] = []

    def warm_up(indices: Sequence[int]) -> None:
        taken.append(len(indices))
        clock.now += 2.0

    work: Any = Work(clock, [1.0] * 3)
    work.costs = None
    caller: Any = SimpleNamespace(warm_up=warm_up)
    team = workers.DirectPipeline(caller)
    loadgen_run._Warmed(
        work, performance(SERVER, 3), team, backends.create("null", "cpu", "float32")
    ).load([2, 0, 1])
    assert taken == sizes


def test_a_slow_model_comes_with_advice_how_to_try_less() -> None:
    settings: Any = SimpleNamespace(
        benchmark="3d-unet-99", overrides=Overrides(), style="test", attempts=1
    )
    run = (OFFLINE, "performance")
    seconds, text = estimate.in_words(settings, lambda _: calibration(100.0), [run])
    assert seconds == pytest.approx(4400, abs=2)
    assert text.startswith("1 run to make, about 73 min; shorter: --performance_sample_count=N")
    assert "shorter" not in estimate.in_words(settings, lambda _: calibration(10.0), [run, run])[1]
    accuracy = (OFFLINE, "accuracy")
    assert "shorter" not in estimate.in_words(settings, lambda _: calibration(100.0), [accuracy])[1]


def test_a_server_run_that_cannot_be_in_time_is_not_made_longer() -> None:
    def milliseconds(seconds: float) -> int | None:
        measured = calibration(seconds)
        aim = targets.initial(measured, Overrides(), SERVER, "performance", "test")
        return aim.min_duration_ms

    assert milliseconds(0.014) == pytest.approx(1400 * 2 * 14, rel=0.01), "enough queries"
    assert milliseconds(0.016) == 10_000


def test_a_run_that_the_user_cut_short_is_not_made_again() -> None:
    values = {"result_validity": "INVALID", "result_mean_latency_ns": 9e10}
    told = "error_runtime: IssueQueryThread 0 Ending early: Max query count reached."
    for errors, again in (((told,), False), (("error_runtime: ran out",), True)):
        log = DetailLog(values, errors)
        aim = targets.adjusted(Targets(latency_ms=80_000), log, SINGLE_STREAM)
        assert (aim is not None) == again
        advice = [fault.advice for fault in judge(log, SINGLE_STREAM, "6.1").faults]
        assert any("--max_query_count" in each for each in advice) != again


def test_finding_takes_few_queries_of_a_heavy_model() -> None:
    assert find.least_queries(calibration(0.001), OFFLINE) == find.BATCHES
    assert find.least_queries(calibration(10.0), OFFLINE) == 6
    assert find.least_queries(calibration(100.0), OFFLINE) == 1
    assert find.least_queries(calibration(0.001), SINGLE_STREAM) == 20
    assert find.least_queries(calibration(0.001), MULTI_STREAM) == 5
    assert find.least_queries(calibration(6.0), SINGLE_STREAM) == 10


def test_the_forecast_reaches_whoever_watches(tmp_path: Path) -> None:
    assert launch.foretold(tmp_path) == 0
    launch.foretell(tmp_path, 90.0)
    assert launch.foretold(tmp_path) == 90
    (tmp_path / launch.FORETOLD).write_text("{", encoding="utf-8")
    assert launch.foretold(tmp_path) == 0
