"""Lanes on a recording stand-in for CUDA's calls: order and lifetimes, and nothing more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes_lab import Recorder
from mlperf.harness.backends import lanes
from mlperf.harness.backends.lanes import CaptureGate, Lane, LaneTensor, Shapes
from mlperf.harness.pipeline.batcher import SampleBatch
from mlperf.harness.pipeline.queue import CutQueue
from mlperf.harness.pipeline.workers import PooledPipeline, Tally

Array = npt.NDArray[Any]


class Doubling:
    """Answers twice the input plus one, and the sums of its rows."""

    def __init__(self, device: Recorder) -> None:
        self._device = device

    def outputs(self, shapes: Shapes) -> Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]]:
        return {"twice": (np.float32, shapes["x"]), "sum": (np.float64, shapes["x"][:1])}

    def enqueue(
        self, inputs: Mapping[str, LaneTensor], outputs: Mapping[str, LaneTensor], stream: Any
    ) -> None:
        self._device.calls.append("enqueue")

        def do() -> None:
            given = view(inputs["x"])
            view(outputs["twice"])[...] = 2 * given + 1
            view(outputs["sum"])[...] = given.sum(axis=1)

        self._device.compute(stream, do)


def view(tensor: LaneTensor) -> Array:
    count = int(np.prod(tensor.shape)) * tensor.dtype.itemsize
    found: Array = tensor.memory[:count].view(tensor.dtype).reshape(tensor.shape)
    return found


def lane(device: Recorder, gate: CaptureGate | None = None) -> Lane:
    return Lane(device, Doubling(device), ["sum", "twice"], gate)


def ones(batch: int, width: int = 3) -> Array:
    return np.ones((batch, width), np.float32)


def check(answers: Sequence[Array], given_: Array) -> None:
    np.testing.assert_array_equal(answers[0], given_.astype(np.float64).sum(axis=1))
    np.testing.assert_array_equal(answers[1], 2 * given_ + 1)


CALLS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(1, 4), st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(CALLS, st.integers(0, 2**16), st.integers(0, 25))
def test_answers_are_right_in_whatever_order_streams_get_on(
    calls: list[tuple[int, int, int, bool]], seed: int, captured: int
) -> None:
    device, gate = Recorder(seed), CaptureGate()
    team = [lane(device, gate) for _ in range(3)]
    values = np.random.default_rng(seed)
    buffers: dict[tuple[int, int, int], Array] = {}
    for number, (who, batch, width, gathered) in enumerate(calls):
        given_ = values.integers(-9, 9, (batch, width)).astype(np.float32)
        fed = given_.copy()
        if gathered:
            place = (who, batch, width)
            if place not in buffers:
                buffers[place] = team[who].buffer((batch, width), np.float32)
            fed = buffers[place]
            fed[...] = given_
        with gate.opened() if number < captured else contextlib.nullcontext():
            answers = team[who].predict({"x": fed})
        # From here on the caller may write: nothing is copied any more.
        fed[...] = -77
        check(answers, given_)


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_in_eight_is_timed_outside_of_preparations(seed: int) -> None:
    device, gate = Recorder(seed), CaptureGate()
    one = lane(device, gate)
    with gate.opened():
        for _ in range(20):
            one.predict({"x": ones(4)})
    assert one.device_time() is None
    for _ in range(2 * lanes.TIMED_EVERY + 1):
        one.predict({"x": ones(4)})
    timed = one.device_time()
    assert timed is not None
    assert (timed.calls, timed.copied_s, timed.computed_s) == (2, 0.004, 0.002)
    assert timed.called_s > 0


def test_a_device_that_is_not_waited_for_gives_wrong_answers() -> None:
    """The stand-in notices what it is there for."""

    class Hasty(Recorder):
        def synchronize(self, event: Any) -> None:
            pass

    wrong = 0
    for seed in range(20):
        device = Hasty(seed)
        given_ = np.ones((4, 4), np.float32)
        wrong += not np.array_equal(lane(device).predict({"x": given_})[1], 2 * given_ + 1)
    assert wrong


@pytest.mark.parametrize("call", ["wait", "record"])
def test_streams_that_do_not_wait_for_each_other_are_noticed(call: str) -> None:
    wrong = 0
    for seed in range(30):
        device = Recorder(seed)
        if call == "wait":
            device.wait = lambda stream, event: None  # type: ignore[method-assign]
        else:
            late = device.record

            def record(event: Any, stream: Any, late: Any = late, device: Any = device) -> None:
                # The mark of the work is put into the stream of the copies.
                late(event, device._streams[0])

            device.record = record  # type: ignore[method-assign]
        given_ = np.ones((4, 4), np.float32)
        wrong += not np.array_equal(lane(device).predict({"x": given_})[1], 2 * given_ + 1)
    assert wrong


def in_thread(action: Callable[[], None]) -> None:
    """Do something in a thread of its own; raises what it raises."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def prepare(mine: Lane, gate: CaptureGate, *batches: int) -> None:
    for batch in batches:
        with gate.opened():
            check(mine.predict({"x": ones(batch)}), ones(batch))


def test_shapes_are_captured_before_the_run_and_never_in_it() -> None:
    device, gate = Recorder(1), CaptureGate()
    mine = lane(device, gate)
    prepare(mine, gate, 2)
    assert device.calls.count("enqueue") == lanes.WARM_UPS + 1, "to warm up, and to capture"
    for _ in range(3):
        check(mine.predict({"x": ones(2)}), ones(2))
    assert (device.calls.count("capture"), device.calls.count("launch")) == (1, 4)
    for _ in range(3):
        check(mine.predict({"x": ones(5)}), ones(5))
    assert (device.calls.count("capture"), device.calls.count("launch")) == (1, 4)


def test_a_thread_that_meets_a_shape_again_computes_it_without_a_graph() -> None:
    """What ended runs: warmed up in LoadGen's thread, captured in a worker's, without handles."""
    device, gate = Recorder(2), CaptureGate()
    mine = lane(device, gate)
    check(mine.predict({"x": ones(2)}), ones(2))
    for _ in range(3):
        in_thread(lambda: check(mine.predict({"x": ones(2)}), ones(2)))
    assert "capture" not in device.calls


def test_the_thread_that_launches_has_captured_while_nobody_else_works() -> None:
    device, gate = Recorder(3, mode="global"), CaptureGate()
    team = [lane(device, gate) for _ in range(3)]
    start = threading.Barrier(len(team))

    def work(mine: Lane) -> None:
        start.wait()
        prepare(mine, gate, 4)
        start.wait()
        check(mine.predict({"x": ones(4)}), ones(4))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in team]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gate.failure == ""
    assert len(set(device.capturing)) == 3
    assert sorted(device.capturing * 2) == sorted(device.launching)


class LaneWorker:
    """A worker of a pipeline that computes in its lane."""

    capacity = 4

    def __init__(self, mine: Lane) -> None:
        self._lane = mine
        self.tally = Tally()

    def warm_up(self, indices: Sequence[int]) -> None:
        check(self._lane.predict({"x": ones(len(indices))}), ones(len(indices)))

    def serve(self, batch: SampleBatch) -> None:
        self.warm_up(batch.ids)
        self.tally.batches += 1


@pytest.mark.parametrize("count", [1, 2])
def test_a_pipeline_prepares_each_worker_in_the_thread_that_serves(count: int) -> None:
    device, gate = Recorder(10, mode="global"), CaptureGate()
    team: Any = [LaneWorker(lane(device, gate)) for _ in range(count)]
    pipeline = PooledPipeline(CutQueue(4), team)

    def warm_up(worker: Any) -> None:
        with gate.opened():
            worker.warm_up([0, 1, 2, 3])

    pipeline.prepare(warm_up)
    assert len(set(device.capturing)) == count
    assert threading.get_ident() not in device.capturing
    numbers = list(range(400))
    pipeline.issue(numbers, numbers)
    assert pipeline.close().batches == 100
    assert set(device.launching) <= set(device.capturing)
    assert (device.calls.count("capture"), device.calls.count("launch")) == (count, count + 100)


@pytest.mark.parametrize("what", ["pinned", "memory"])
@pytest.mark.parametrize("mode", ["global", "thread_local"])
def test_others_that_allocate_end_a_capture_in_the_global_mode_only(what: str, mode: str) -> None:
    device, gate = Recorder(4, mode), CaptureGate()
    mine = lane(device, gate)
    enqueue = mine._work.enqueue

    def beside(*given: Any) -> None:
        enqueue(*given)
        if device._capture:
            in_thread(lambda: getattr(device, what)(8))

    mine._work.enqueue = beside  # type: ignore[method-assign]
    prepare(mine, gate, 2, 3)
    assert bool(gate.failure) == (mode == "global")
    # A failed capture is a note, and no end.
    assert gate.facts() == ({"without graphs": gate.failure} if gate.failure else {})
    assert device.calls.count("capture") == (1 if gate.failure else 2)
    check(mine.predict({"x": ones(2)}), ones(2))


def test_work_that_allocates_is_computed_without_a_graph() -> None:
    device, gate = Recorder(5), CaptureGate()
    mine = lane(device, gate)
    enqueue = mine._work.enqueue

    def allocating(*given: Any) -> None:
        device.memory(8)
        enqueue(*given)

    mine._work.enqueue = allocating  # type: ignore[method-assign]
    prepare(mine, gate, 2, 2, 3)
    assert gate.failure.startswith("CUDA error: operation not permitted")
    assert device.calls.count("capture") == 1
    assert "launch" not in device.calls


class Compiled(Doubling):
    """The same answers, for as many shapes as there is time for."""

    def __init__(self, device: Recorder, shapes: int = 1, error: str = "") -> None:
        super().__init__(device)
        self.left, self.error, self.done = shapes, error, 0

    def may_compile(self) -> bool:
        return self.left > 0

    def enqueue(self, *arguments: Any) -> None:
        self.left, self.done = 0, self.done + 1
        if self.error:
            raise AttributeError(self.error)
        super().enqueue(*arguments)


@pytest.mark.parametrize("speed", [0.5, 1.0])
def test_compiled_work_is_used_where_it_is_faster(
    speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, gate = Recorder(11), CaptureGate()
    work = Compiled(device)
    mine = Lane(device, Doubling(device), ["sum", "twice"], gate, work)
    times = iter([speed, 1.0])
    monkeypatch.setattr(Lane, "_seconds", lambda self, graph: next(times))
    prepare(mine, gate, 4, 2)
    count = "1 of 1 shapes" if speed < 1 else "0 of 1 shapes"
    assert gate.facts() == {"compiled": count}
    assert work.done == lanes.WARM_UPS + 1, "there was time for the first shape alone"
    for batch in (4, 2, 3):
        check(mine.predict({"x": ones(batch)}), ones(batch))


def test_work_that_cannot_be_compiled_is_a_note() -> None:
    device, gate = Recorder(12), CaptureGate()
    mine = Lane(
        device, Doubling(device), ["sum", "twice"], gate, Compiled(device, error="no to\nx")
    )
    prepare(mine, gate, 4, 2)
    assert gate.facts() == {"not compiled": "AttributeError: no to"}
    assert device.calls.count("capture") == 2
    check(mine.predict({"x": ones(4)}), ones(4))


def test_a_graph_is_timed_until_the_device_is_done() -> None:
    device, gate = Recorder(13), CaptureGate()
    mine = Lane(device, Doubling(device), ["sum", "twice"], gate, Compiled(device))
    prepare(mine, gate, 4)
    assert gate.facts()["compiled"].endswith(" of 1 shapes")
    assert device.calls.count("launch") == 2 * lanes.LAUNCHES + 1


def test_captures_end_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with loops meets new shapes all the time."""
    monkeypatch.setattr(lanes, "CAPTURE_S", 0.0)
    device, gate = Recorder(14), CaptureGate()
    mine = lane(device, gate)
    prepare(mine, gate, 4, 2, 9)
    assert device.calls.count("capture") == 1
    assert gate.facts() == {}


def test_graphs_hold_when_others_need_more_memory() -> None:
    device, gate = Recorder(6), CaptureGate()
    mine = lane(device, gate)
    prepare(mine, gate, 1, 9, 1, 9)
    for batch in (1, 9, 20, 1, 9):
        given_ = np.full((batch, 3), batch, np.float32)
        check(mine.predict({"x": given_}), given_)
    assert device.calls.count("capture") == 2


def test_a_batch_that_is_not_full_is_padded_to_a_captured_one() -> None:
    device, gate = Recorder(7), CaptureGate()
    mine = lane(device, gate)
    prepare(mine, gate, 16, 4)
    before = device.calls.count("enqueue")
    for batch in (16, 9, 8, 3, 2):
        given_ = np.full((batch, 3), batch, np.float32)
        check(mine.predict({"x": given_}), given_)
    assert device.calls.count("enqueue") == before
    # None of a captured batch that is more than twice as large, nor of other samples.
    for given_ in (ones(7), ones(1), ones(16, 2)):
        check(mine.predict({"x": given_}), given_)
    assert device.calls.count("enqueue") == before + 3


def test_batches_whose_answers_are_no_rows_are_not_padded() -> None:
    device, gate = Recorder(8), CaptureGate()
    mine = lane(device, gate)
    mine._work.outputs = lambda shapes: {  # type: ignore[method-assign]
        "twice": (np.float32, shapes["x"]),
        "sum": (np.float64, (40,)),
    }
    mine._work.enqueue = lambda *given: device.calls.append("enqueue")  # type: ignore[method-assign]
    with gate.opened():
        assert mine.predict({"x": ones(4)})[0].shape == (40,)
    launched = device.calls.count("launch")
    mine.predict({"x": ones(3)})
    assert device.calls.count("launch") == launched


def test_memory_is_kept_and_graphs_are_few() -> None:
    device, gate = Recorder(9), CaptureGate()
    mine = lane(device, gate)
    widths = range(lanes.MOST_GRAPHS + 20, 0, -1)
    for _ in range(3):
        for width in widths:
            given_ = np.full((1, width), 2, np.float32)
            with gate.opened():
                check(mine.predict({"x": given_}), given_)
    assert device.calls.count("capture") == lanes.MOST_GRAPHS
    assert device.calls.count("memory") == 3, "an input and two outputs, for the largest"


def test_a_gathered_batch_is_not_copied_once_more() -> None:
    device = Recorder(4)
    mine = lane(device)
    held = mine.buffer((2, 2), np.float32)
    held[...] = 3
    before = device.calls.count("pinned")
    check(mine.predict({"x": held}), np.full((2, 2), 3, np.float32))
    assert device.calls.count("pinned") == before + 2, "for the answers only"
    check(mine.predict({"x": held[:1]}), np.full((1, 2), 3, np.float32))


def test_inputs_that_do_not_lie_in_one_piece_are_taken() -> None:
    device = Recorder(5)
    given_ = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::2]
    check(lane(device).predict({"x": given_}), given_)
