"""Our own converters for onnx2torch, against ONNX Runtime on random small graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlperf.harness.backends.base import Array
from mlperf.harness.settings import GraphSpec, TensorSpec

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx2torch")

import onnx

from mlperf.harness.backends import registry as backends
from mlperf.harness.errors import HarnessError

TYPES = {"float32": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64}
quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def tensor(name: str, array: Array) -> Any:
    """An input of any size."""
    return onnx.helper.make_tensor_value_info(name, TYPES[str(array.dtype)], [None] * array.ndim)


def write(
    folder: Path,
    nodes: Sequence[Any],
    feeds: Mapping[str, Array],
    outputs: Mapping[str, tuple[str, int]],
    constants: Mapping[str, Array] | None = None,
    opset: int = 17,
) -> GraphSpec:
    """A graph in a file; ``outputs`` has the type and the rank of each."""
    graph = onnx.helper.make_graph(
        nodes,
        "small",
        [tensor(name, array) for name, array in feeds.items()],
        [
            onnx.helper.make_tensor_value_info(name, TYPES[kind], [None] * rank)
            for name, (kind, rank) in outputs.items()
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8
    )
    path = folder / "small.onnx"
    onnx.save(model, path)
    inputs = [TensorSpec(n, str(a.dtype), (-1,) * (a.ndim - 1)) for n, a in feeds.items()]
    made = [TensorSpec(n, kind, (-1,) * (rank - 1)) for n, (kind, rank) in outputs.items()]
    return GraphSpec("main", str(path), "", tuple(inputs), tuple(made))


def both(
    spec: GraphSpec, feeds: Mapping[str, Array], precision: str = "float32"
) -> list[tuple[Array, Array]]:
    """What ONNX Runtime and PyTorch answer, output by output."""
    names = [each.name for each in spec.outputs]
    (reference,) = backends.create("onnxruntime", "cpu", "float32").open(spec, names, 1, 1)
    (own,) = backends.create("pytorch", "cpu", precision).open(spec, names, 1, 1)
    return list(zip(reference.predict(feeds), own.predict(feeds), strict=True))


def agree(spec: GraphSpec, feeds: Mapping[str, Array]) -> None:
    for reference, own in both(spec, feeds):
        assert own.dtype == reference.dtype
        np.testing.assert_allclose(own, reference, atol=2e-5)


# ---------------------------------------------------------------- LSTM

PLACES = ("x", "w", "r", "b", "", "h", "c")
ANSWERS = ("y", "y_h", "y_c")


def lstm(
    folder: Path,
    random: np.random.Generator,
    sizes: tuple[int, int, int, int],
    both_ways: bool = False,
    left_out: str = "",
    answers: Sequence[str] = ANSWERS,
    **attributes: Any,
) -> tuple[GraphSpec, dict[str, Array]]:
    """An LSTM of ``sizes`` time, batch, width in and out; ``left_out`` are letters of PLACES."""
    time, batch, width, out = sizes
    ways = 2 if both_ways else 1

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    weights = {"w": normal(ways, 4 * out, width), "r": normal(ways, 4 * out, out)}
    weights["b"] = normal(ways, 8 * out)
    feeds = {"x": normal(time, batch, width), "h": normal(ways, batch, out)}
    feeds["c"] = normal(ways, batch, out)
    feeds = {name: array for name, array in feeds.items() if name not in left_out}
    if both_ways:
        attributes["direction"] = "bidirectional"
    names = ["" if name in left_out else name for name in PLACES]
    node = onnx.helper.make_node("LSTM", names, answers, hidden_size=out, **attributes)
    kinds = {name: ("float32", 4 if name == "y" else 3) for name in answers if name}
    return write(folder, [node], feeds, kinds, weights), feeds


@quick
@given(
    seed=seeds,
    sizes=st.tuples(*[st.integers(1, 5)] * 4),
    both_ways=st.booleans(),
    left_out=st.sets(st.sampled_from("bhc")),
    answers=st.sampled_from(
        [ANSWERS, ("y",), ("y", "y_h"), ("", "y_h"), ("y", "", "y_c"), ("", "", "y_c")]
    ),
)
def test_an_lstm_answers_like_onnx_runtime(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    sizes: tuple[int, int, int, int],
    both_ways: bool,
    left_out: set[str],
    answers: tuple[str, ...],
) -> None:
    folder = tmp_path_factory.mktemp("lstm")
    random = np.random.default_rng(seed)
    agree(*lstm(folder, random, sizes, both_ways, "".join(left_out), answers))


@pytest.mark.parametrize("opset", [7, 11, 14, 17, 22])
def test_every_version_of_the_operator_set_is_known(opset: int, tmp_path: Path) -> None:
    spec, feeds = lstm(tmp_path, np.random.default_rng(3), (4, 2, 3, 5))
    model = onnx.load(spec.path)
    model.opset_import[0].version = opset
    onnx.save(model, spec.path)
    agree(spec, feeds)


def test_an_lstm_in_bfloat16_is_nearly_the_same(tmp_path: Path) -> None:
    spec, feeds = lstm(tmp_path, np.random.default_rng(5), (9, 2, 16, 16))
    for reference, own in both(spec, feeds, "bfloat16"):
        assert own.dtype == np.float32
        np.testing.assert_allclose(own, reference, atol=0.05)
        assert not np.allclose(own, reference, atol=1e-6), "it was not computed in bfloat16"


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"direction": "reverse"}, "direction reverse"),
        ({"activations": ["Relu", "Tanh", "Tanh"]}, "activations"),
        ({"clip": 3.0}, "clip"),
        ({"input_forget": 1}, "input_forget"),
        ({"layout": 1}, "layout"),
    ],
)
def test_what_pytorchs_lstm_does_not_do_is_refused(
    attributes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    spec, _ = lstm(tmp_path, np.random.default_rng(1), (2, 1, 3, 4), **attributes)
    with pytest.raises(HarnessError, match=f"LSTM with {said}.* use --backend=onnxruntime"):
        backends.create("pytorch", "cpu", "float32").open(spec, ["y"], 1, 1)


def test_the_usual_activations_may_be_named(tmp_path: Path) -> None:
    usual = ["Sigmoid", "Tanh", "Tanh"] * 2
    agree(*lstm(tmp_path, np.random.default_rng(2), (3, 2, 2, 3), True, activations=usual))


def test_weights_that_are_computed_are_refused(tmp_path: Path) -> None:
    spec, _ = lstm(tmp_path, np.random.default_rng(1), (2, 1, 3, 4))
    model = onnx.load(spec.path)
    model.graph.node[0].input[1] = "made"
    model.graph.node.insert(0, onnx.helper.make_node("Neg", ["w"], ["made"]))
    onnx.save(model, spec.path)
    with pytest.raises(HarnessError, match="LSTM whose made is computed"):
        backends.create("pytorch", "cpu", "float32").open(spec, ["y"], 1, 1)


# ---------------------------------------------------------------- the other operators


@quick
@given(
    seed=seeds,
    batch=st.lists(st.integers(1, 3), max_size=2),
    places=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    own=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    data=st.data(),
)
def test_gather_nd(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    batch: list[int],
    places: list[int],
    own: list[int],
    data: st.DataObject,
) -> None:
    depth = data.draw(st.integers(1, len(own)))
    random = np.random.default_rng(seed)
    bounds = np.asarray(own[:depth])
    indices = random.integers(-bounds, bounds, (*batch, *places, depth))
    feeds = {"x": random.standard_normal((*batch, *own)).astype(np.float32), "at": indices}
    node = onnx.helper.make_node("GatherND", ["x", "at"], ["y"], batch_dims=len(batch))
    rank = len(batch) + len(places) + len(own) - depth
    agree(write(tmp_path_factory.mktemp("gather"), [node], feeds, {"y": ("float32", rank)}), feeds)


def test_scatter_nd(tmp_path: Path) -> None:
    feeds = {
        "x": np.zeros((2, 3, 2), dtype=np.float32),
        "at": np.asarray([[0, 2], [1, -1], [1, 0]], dtype=np.int64),
        "new": np.arange(1, 7, dtype=np.float32).reshape(3, 2),
    }
    node = onnx.helper.make_node("ScatterND", [*feeds], ["y"])
    agree(write(tmp_path, [node], feeds, {"y": ("float32", 3)}), feeds)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulated_sums(exclusive: int, reverse: int, tmp_path: Path) -> None:
    feeds = {"x": np.random.default_rng(1).integers(-9, 9, (3, 4, 2))}
    node = onnx.helper.make_node(
        "CumSum", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse
    )
    constants = {"axis": np.asarray(1, dtype=np.int64)}
    agree(write(tmp_path, [node], feeds, {"y": ("int64", 3)}, constants), feeds)


FAR = 2**63 - 1


@quick
@given(
    data=st.data(),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    known=st.sampled_from([3, 4, 5]),
)
def test_slices(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, sizes: list[int], known: int
) -> None:
    # What a far end is to a step backwards, ONNX Runtime and the standard tell differently.
    places = st.one_of(st.integers(-8, 8), st.sampled_from([-FAR, FAR if known < 5 else 9]))
    axes = data.draw(
        st.permutations(range(len(sizes))) if known > 3 else st.just(range(len(sizes)))
    )
    steps = st.sampled_from([1, 2, 3, -1, -2] if known > 4 else [1])
    told = {
        "starts": data.draw(st.lists(places, min_size=len(axes), max_size=len(axes))),
        "ends": data.draw(st.lists(places, min_size=len(axes), max_size=len(axes))),
        "axes": list(axes),
        "steps": data.draw(st.lists(steps, min_size=len(axes), max_size=len(axes))),
    }
    constants = {name: np.asarray(told[name], dtype=np.int64) for name in list(told)[: known - 1]}
    feeds = {"x": np.arange(np.prod(sizes), dtype=np.int64).reshape(sizes)}
    node = onnx.helper.make_node("Slice", ["x", *constants], ["y"])
    kinds = {"y": ("int64", len(sizes))}
    agree(write(tmp_path_factory.mktemp("slice"), [node], feeds, kinds, constants), feeds)


@pytest.mark.parametrize("bounds", [("low", "high"), ("low",), ("", "high"), ()])
def test_bounds_may_be_computed(bounds: tuple[str, ...], tmp_path: Path) -> None:
    feeds = {"x": np.linspace(-3, 3, 8, dtype=np.float32)[None]}
    nodes = [
        onnx.helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0, 1], keepdims=0),
        onnx.helper.make_node("Sub", ["mean", "one"], ["low"]),
        onnx.helper.make_node("Add", ["mean", "one"], ["high"]),
        onnx.helper.make_node("Clip", ["x", *bounds], ["y"]),
    ]
    constants = {"one": np.asarray(1, dtype=np.float32)}
    agree(write(tmp_path, nodes, feeds, {"y": ("float32", 2)}, constants), feeds)


def test_names_of_nodes_do_not_matter(tmp_path: Path) -> None:
    # onnx2torch calls the second unnamed Cast Cast_1 itself.
    feeds = {"x": np.asarray([1.5, -2.5], dtype=np.float32)}
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["a"], to=TYPES["int64"]),
        onnx.helper.make_node("Cast", ["a"], ["b"], to=TYPES["float32"]),
        onnx.helper.make_node("Neg", ["b"], ["y"], "Cast_1"),
    ]
    agree(write(tmp_path, nodes, feeds, {"y": ("float32", 1)}), feeds)


def test_shapes_are_known_beyond_an_operator_of_our_own(tmp_path: Path) -> None:
    feeds = {"x": np.random.default_rng(6).standard_normal((2, 3, 5, 4)).astype(np.float32)}
    constants: dict[str, Array] = {
        name: np.asarray([value], dtype=np.int64)
        for name, value in (("first", 1), ("end", 4), ("axis", 2))
    }
    nodes = [
        onnx.helper.make_node("Slice", ["x", "first", "end", "axis"], ["part"]),
        onnx.helper.make_node("MaxPool", ["part"], ["y"], kernel_shape=[2, 2]),
    ]
    agree(write(tmp_path, nodes, feeds, {"y": ("float32", 4)}, constants), feeds)


@pytest.mark.parametrize("axis", [-1, 1])
def test_layers_are_normalised(axis: int, tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    feeds = {"x": random.standard_normal((2, 5, 4)).astype(np.float32)}
    shape = (4,) if axis == -1 else (5, 4)
    constants = {
        name: random.standard_normal(shape).astype(np.float32) for name in ("scale", "bias")
    }
    node = onnx.helper.make_node("LayerNormalization", ["x", *constants], ["y"], axis=axis)
    agree(write(tmp_path, [node], feeds, {"y": ("float32", 3)}, constants), feeds)


@pytest.mark.parametrize("kind", ["LessOrEqual", "GreaterOrEqual"])
def test_comparisons(kind: str, tmp_path: Path) -> None:
    feeds = {"a": np.arange(6, dtype=np.int64)[:, None], "b": np.arange(4, dtype=np.int64)[None]}
    nodes = [
        onnx.helper.make_node(kind, ["a", "b"], ["met"]),
        onnx.helper.make_node("Cast", ["met"], ["y"], to=TYPES["int64"]),
    ]
    agree(write(tmp_path, nodes, feeds, {"y": ("int64", 2)}), feeds)


@quick
@given(
    seed=seeds,
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 12)),
    most=st.integers(0, 4),
    center=st.booleans(),
)
def test_non_max_suppression(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    sizes: tuple[int, int, int],
    most: int,
    center: bool,
) -> None:
    pictures, classes, count = sizes
    random = np.random.default_rng(seed)
    boxes = random.random((pictures, count, 4), dtype=np.float32)  # corners in any order
    feeds = {"boxes": boxes, "scores": random.random((pictures, classes, count), dtype=np.float32)}
    constants = {
        "most": np.asarray([most], dtype=np.int64),
        "overlap": np.asarray([0.3], dtype=np.float32),
        "least": np.asarray([0.25], dtype=np.float32),
    }
    names = ["boxes", "scores", *constants]
    node = onnx.helper.make_node(
        "NonMaxSuppression", names, ["y"], center_point_box=1 if center else 0
    )
    folder = tmp_path_factory.mktemp("nms")
    agree(write(folder, [node], feeds, {"y": ("int64", 2)}, constants), feeds)


def test_an_output_that_is_one_of_several_of_a_node(tmp_path: Path) -> None:
    feeds = {"x": np.asarray([[3.0, 1.0, 2.0]], dtype=np.float32)}
    node = onnx.helper.make_node("TopK", ["x", "k"], ["best", "places"], axis=1)
    kinds = {"places": ("int64", 2), "best": ("float32", 2)}
    constants = {"k": np.asarray([2], dtype=np.int64)}
    agree(write(tmp_path, [node], feeds, kinds, constants), feeds)


def test_the_converters_stay_out_of_the_way_of_those_of_onnx2torch() -> None:
    from onnx2torch.node_converters.registry import _CONVERTER_REGISTRY

    from mlperf.harness.backends import torch_operators

    for name in torch_operators.CONVERTERS:
        domains = {each.domain for each in _CONVERTER_REGISTRY if each.operation_type == name}
        assert torch_operators.DOMAIN in domains
    mine = [each for each in _CONVERTER_REGISTRY if each.domain == torch_operators.DOMAIN]
    assert {each.operation_type for each in mine} == set(torch_operators.CONVERTERS)
