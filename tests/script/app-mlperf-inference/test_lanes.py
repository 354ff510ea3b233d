"""Lanes on a recording stand-in for CUDA's calls: order and lifetimes, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes_lab import Recorder
from mlperf.harness.backends import lanes
from mlperf.harness.backends.lanes import Lane, LaneTensor, Shapes

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

        self._device.put(stream, do)


def view(tensor: LaneTensor) -> Array:
    count = int(np.prod(tensor.shape)) * tensor.dtype.itemsize
    found: Array = tensor.memory[:count].view(tensor.dtype).reshape(tensor.shape)
    return found


def lane(device: Recorder, graphs: bool = True) -> Lane:
    return Lane(device, Doubling(device), ["sum", "twice"], graphs)


def check(answers: Sequence[Array], given_: Array) -> None:
    np.testing.assert_array_equal(answers[0], given_.astype(np.float64).sum(axis=1))
    np.testing.assert_array_equal(answers[1], 2 * given_ + 1)


CALLS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(1, 4), st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(CALLS, st.integers(0, 2**16), st.booleans())
def test_answers_are_right_in_whatever_order_streams_get_on(
    calls: list[tuple[int, int, int, bool]], seed: int, graphs: bool
) -> None:
    device = Recorder(seed)
    team = [lane(device, graphs) for _ in range(3)]
    values = np.random.default_rng(seed)
    buffers: dict[tuple[int, int, int], Array] = {}
    for who, batch, width, gathered in calls:
        given_ = values.integers(-9, 9, (batch, width)).astype(np.float32)
        fed = given_.copy()
        if gathered:
            place = (who, batch, width)
            if place not in buffers:
                buffers[place] = team[who].buffer((batch, width), np.float32)
            fed = buffers[place]
            fed[...] = given_
        answers = team[who].predict({"x": fed})
        # From here on the caller may write: nothing is copied any more.
        fed[...] = -77
        check(answers, given_)


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


def test_work_is_captured_when_a_shape_comes_again_and_kept() -> None:
    device = Recorder(1)
    mine = lane(device)
    for _ in range(4):
        check(mine.predict({"x": np.ones((2, 3), np.float32)}), np.ones((2, 3), np.float32))
    assert device.calls.count("capture") == 1
    assert device.calls.count("launch") == 3
    # Once at first, once to capture.
    assert device.calls.count("enqueue") == 2


def test_graphs_are_forgotten_when_memory_has_moved() -> None:
    device = Recorder(2)
    mine = lane(device)
    small, large = np.ones((1, 3), np.float32), np.full((9, 3), 5, np.float32)
    for given_ in (small, small, large, small, small, large, large):
        check(mine.predict({"x": given_}), given_)
    assert device.calls.count("capture") == 3, "small ones, and both again in the larger memory"


def test_memory_is_kept_and_graphs_are_few() -> None:
    device = Recorder(3)
    mine = lane(device)
    widths = range(lanes.MOST_GRAPHS + 20, 0, -1)
    for _ in range(3):
        for width in widths:
            given_ = np.full((1, width), 2, np.float32)
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
