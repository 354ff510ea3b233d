"""Quantizing the tiny model for real, and what it costs in accuracy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.measuring import memory
from mlperf.harness.quantization import calibration, embedding_split, float_nodes, quantize
from mlperf.harness.settings import MAIN

onnx = pytest.importorskip("onnx")
customize = lab.module_of(lab.SCRIPT / "quantize-ml-model" / "customize.py")


def request(folder: Path, **changes: Any) -> Path:
    words = {
        "benchmark": "resnet50",
        "facts": str(lab.MODEL / "model.json"),
        "dataset": str(lab.arrays("train")),
        "samples": 64,
        "folder": str(folder),
        # Right on every processor that runs the tests.
        "weight_bits": 7,
    }
    config = folder / "quantize.json"
    config.write_text(json.dumps(words | changes), encoding="utf-8")
    return config


def test_a_quantized_model_is_smaller_and_nearly_as_good(tmp_path: Path) -> None:
    assert quantize.main(request(tmp_path)) == 0
    facts = records.read_json(tmp_path / "model.json")
    whole = records.read_json(lab.MODEL / "model.json")
    assert facts["bytes"] < whole["bytes"] / 2
    assert facts["precision"] == "int8"
    assert facts["accuracy"] == whole["accuracy"], "the target stays that of the float model"
    assert "64 calibration samples" in facts["weight_transformations"]
    graph = quantize._spec(facts, tmp_path / facts["file"]).graphs()[0]
    (predictor,) = backends.create("onnxruntime", "cpu", "int8").open(graph, ["ArgMax:0"], 1, 1)
    (found,) = predictor.predict({"input_tensor:0": np.load(lab.arrays() / "samples.npy")})
    right = (found - 1 == np.load(lab.arrays() / "labels.npy")).mean()
    assert 100 * right >= facts["accuracy"]["target"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.json",
        "quantize.json",
        facts["file"],
    }


def test_a_quantized_bert_reaches_its_target(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-bert-large-squad" / "tiny"
    changes = {"benchmark": "bert-99", "facts": str(folder / "model.json")}
    config = request(tmp_path, dataset=str(forms.features("train")), **changes)
    assert quantize.main(config) == 0
    facts = records.read_json(tmp_path / "model.json")
    model = quantize._spec(facts, tmp_path / facts["file"])
    benchmark = benchmarks.create("bert-99", forms.features(), model)
    opened = backends.create("onnxruntime", "cpu", "int8").open(
        model.graphs()[0], benchmark.outputs[MAIN], 1, 1
    )
    answers = forms.answers(benchmark, benchmark.solver({MAIN: opened[0]}, 8), 8)
    figure = benchmark.accuracy(answers, np.arange(benchmark.sample_count))
    assert figure.value >= facts["accuracy"]["target"]
    graph = onnx.load(tmp_path / facts["file"]).graph
    made = {name: node.op_type for node in graph.node for name in node.output}
    products = [node for node in graph.node if node.op_type == "MatMul"]
    whole = [n.name for n in products if "DequantizeLinear" not in [made.get(x) for x in n.input]]
    assert len(products) == 13
    attention = [f"/layers.{k}/attention/MatMul{part}" for k in (0, 1) for part in ("", "_1")]
    assert sorted(whole) == [*attention, "/spans/MatMul"]


def reached(folder: Path, name: str, data: Path, batch: int) -> tuple[dict[str, Any], float]:
    """The facts of the quantized model in ``folder``, and how exact it is on all of ``data``."""
    facts = records.read_json(folder / "model.json")
    model = quantize._spec(facts, folder / facts["file"])
    benchmark = benchmarks.create(name, data, model)
    runtime = backends.create("onnxruntime", "cpu", "int8")
    opened = {g.name: runtime.open(g, benchmark.outputs[g.name], 1, 1)[0] for g in model.graphs()}
    answers = forms.answers(benchmark, benchmark.solver(opened, batch), batch)
    return facts, benchmark.accuracy(answers, np.arange(benchmark.sample_count)).value


@pytest.mark.parametrize(("version", "name"), [("v1", "dlrm-99.9"), ("v2", "dlrm-v2-99.9")])
def test_a_quantized_dlrm_reaches_its_stricter_target(
    version: str, name: str, tmp_path: Path
) -> None:
    folder = lab.SCRIPT / "get-ml-model-dlrm-terabyte" / "tiny" / version
    changes = {"benchmark": name, "facts": str(folder / "model.json"), "samples": 128}
    data = forms.clicks(version, "calibration")
    assert quantize.main(request(tmp_path, dataset=str(data), **changes)) == 0
    facts, auc = reached(tmp_path, name, forms.clicks(version), 64)
    assert auc >= 0.999 * facts["accuracy"]["reference"]
    assert "128 calibration samples" in facts["weight_transformations"]
    graph = onnx.load(tmp_path / facts["file"]).graph
    made = {name: node.op_type for node in graph.node for name in node.output}
    layers = [node for node in graph.node if node.op_type == "Gemm"]
    weights = [made.get(node.input[1]) for node in layers]
    assert weights == ["DequantizeLinear"] * 3 + [None], "only the last layer stays float"


def test_a_quantized_gptj_reaches_its_target(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-gptj" / "tiny"
    changes = {"benchmark": "gptj-99", "facts": str(folder / "model.json"), "samples": 16}
    data = forms.calibration_articles()
    assert quantize.main(request(tmp_path, dataset=str(data), **changes)) == 0
    articles = forms.articles(64)
    facts, rouge = reached(tmp_path, "gptj-99", articles, 64)
    _, exact = reached(folder, "gptj-99", articles, 64)
    assert rouge >= 0.99 * exact
    assert "128 calls for 16 calibration samples" in facts["weight_transformations"]


# ---------------------------------------------------------------- models that are fed their answers


def test_a_decoder_is_fed_what_the_float_model_answered(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-gptj" / "tiny"
    data = forms.calibration_articles()
    facts = records.read_json(folder / "model.json")
    model = quantize._spec(facts, folder / facts["file"])
    benchmark = benchmarks.create("gptj-99", data, model)
    samples = list(calibration.calls_of(benchmark, model, 2))
    assert [len(calls) for calls in samples] == [calibration.CALLS] * 2
    prompts, offsets = np.load(data / "prompts.npy"), np.load(data / "offsets.npy")
    first, *later = samples[1]
    np.testing.assert_array_equal(first["input_ids"], [prompts[offsets[1] : offsets[2]]])
    assert first["past"].size == 0
    for calls in later:
        assert calls["input_ids"].shape == (4, 1)
        assert calls["past"].shape[3] + 1 == calls["attention_mask"].shape[1]
        assert np.abs(calls["past"]).max() > 0
    assert len({calls["past"].shape[3] for calls in later}) == len(later)


def test_every_graph_of_a_model_is_quantized(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-rnnt" / "tiny"
    changes = {"benchmark": "rnnt", "facts": str(folder / "model.json"), "samples": 4}
    # For ranges only: nothing is judged here.
    assert quantize.main(request(tmp_path, dataset=str(forms.speech_arrays()), **changes)) == 0
    facts = records.read_json(tmp_path / "model.json")
    assert facts["weight_transformations"].count("calibration samples") == 2
    for each in (facts, *facts["parts"]):
        assert each["file"].endswith("_int8.onnx")
        data = (tmp_path / each["file"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (each["sha256"], each["bytes"])
        kinds = {node.op_type for node in onnx.load_from_string(data).graph.node}
        assert {"LSTM", "DequantizeLinear"} <= kinds
    model = quantize._spec(facts, tmp_path / facts["file"])
    assert [graph.name for graph in model.graphs()] == [MAIN, "step"]


class Echo:
    """Answers what it is fed."""

    def predict(self, feeds: Any) -> Any:
        return list(feeds.values())


@pytest.mark.parametrize("count", [1, 5, 16, 17, 128, 1000])
def test_calls_are_spread_evenly_and_few_are_kept(count: int) -> None:
    listener = calibration.Listener(Echo(), 8, first=True)
    for number in range(count):
        listener.predict({"x": np.full(1, number)})
        assert len(listener._kept) <= 16
    taken = [int(feeds["x"][0]) for feeds in listener.taken()]
    assert len(taken) == min(8, count)
    assert taken[0] == 0
    assert max(np.diff([*taken, count])) <= max(1, count / 4)
    assert listener.taken() == []


def test_of_calls_that_are_too_large_only_the_first_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibration, "CALLS_BYTES", 100)
    listener = calibration.Listener(Echo(), 8, first=True)
    for number in range(40):
        listener.predict({"x": np.full(99, number, dtype=np.uint8)})
        assert len(listener._kept) == 1
    (only,) = listener.taken()
    assert only["x"][0] == 0


def test_the_model_is_fed_as_the_benchmark_feeds_it(tmp_path: Path) -> None:
    facts = records.read_json(lab.MODEL / "model.json")
    model = quantize._spec(facts, lab.MODEL / facts["file"])
    benchmark = benchmarks.create("resnet50", lab.arrays("train"), model)
    found = calibration.calls_of(benchmark, model, 5)
    feeds = [calls[0]["input_tensor:0"] for calls in found]
    expected = np.load(lab.arrays("train") / "samples.npy")[:5]
    np.testing.assert_array_equal(np.concatenate(feeds), expected)


def test_a_broken_model_is_one_clear_error(tmp_path: Path) -> None:
    facts = records.read_json(lab.MODEL / "model.json")
    (tmp_path / "model.json").write_text(json.dumps(facts), encoding="utf-8")
    (tmp_path / facts["file"]).write_bytes(b"not a model")
    with pytest.raises(HarnessError, match="onnxruntime cannot quantize"):
        quantize.main(request(tmp_path, facts=str(tmp_path / "model.json")))


def test_a_detector_keeps_what_places_its_boxes_in_float(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-ssd-mobilenet" / "tiny"
    whole = records.read_json(folder / "model.json")
    changes = {"benchmark": "ssd-mobilenet", "facts": str(folder / "model.json"), "samples": 32}
    pictures = forms.pictures("ssd-mobilenet")  # for ranges only: nothing is judged here
    assert quantize.main(request(tmp_path, dataset=str(pictures), **changes)) == 0
    facts = records.read_json(tmp_path / "model.json")
    assert facts["bytes"] < whole["bytes"] / 2
    model = onnx.load(tmp_path / facts["file"])
    made = {name: node for node in model.graph.node for name in node.output}
    before = {
        node.name: [made[name].op_type for name in node.input if name in made]
        for node in model.graph.node
    }
    assert "DequantizeLinear" in before["layer1/conv"]
    for name in whole["keep_float"]:
        assert "DequantizeLinear" not in before[name][1:], name


# ---------------------------------------------------------------- which nodes stay float


def small_detector(opset: int = 13, tail: Sequence[Any] = ()) -> Any:
    """Two levels whose heads share weights and biases, boxes worked out, the best ones taken."""
    random = np.random.default_rng(2)

    def noise(name: str, *shape: int) -> Any:
        values = random.standard_normal(shape) * 0.3
        return onnx.numpy_helper.from_array(values.astype(np.float32), name)

    weights = [noise("w", 8, 3, 3, 3), noise("v", 8, 8, 1, 1), noise("b", 8)]
    weights += [noise("wb", 4, 8, 1, 1), noise("bb", 4), noise("wc", 32, 8, 1, 1), noise("bc", 32)]
    weights.append(noise("start", 1, 4, 1, 1))
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["image", "w", "b"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], ["l0"]),
        node("Conv", ["l0", "v", "b"], ["c"]),
        node("Add", ["c", "l0"], ["l1"]),
    ]
    for level in ("l0", "l1"):
        nodes += [
            node("Conv", [level, "wb", "bb"], [f"{level}m"], f"{level}/boxes"),
            node("Conv", [level, "wc", "bc"], [f"{level}s"], f"{level}/classes"),
            node("Add", [f"{level}m", "start"], [f"{level}b"], f"{level}/decode"),
        ]
    nodes += [
        node("Concat", ["l0b", "l1b"], ["boxes"], axis=2),
        node("Concat", ["l0s", "l1s"], ["logits"], axis=2),
        node("Sigmoid", ["logits"], ["scores"]),
        *tail,
    ]
    info = onnx.helper.make_tensor_value_info
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "detector",
        [info("image", floats, [1, 3, 16, 16])],
        [info("boxes", floats, [1, 4, 16, 8]), info("scores", floats, [1, 32, 16, 8])],
        weights,
    )
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=7)


def quantized(folder: Path, model: Any) -> tuple[Any, str]:
    """The model in int8, and the note about it."""
    random = np.random.default_rng(3)
    feeds = [[{"image": random.standard_normal((1, 3, 16, 16), np.float32)}] for _ in range(6)]
    onnx.save(model, folder / "float.onnx")
    counted = calibration.CalibrationFeeds(feeds)
    way = quantize.QuantizationMethod(weight_bits=7)
    note = quantize._quantize(folder / "float.onnx", folder / "int8.onnx", counted, way)
    assert sorted(path.name for path in folder.iterdir()) == ["float.onnx", "int8.onnx"]
    return onnx.load(folder / "int8.onnx"), note


def test_what_places_boxes_and_what_follows_the_last_layers_stays_float() -> None:
    graph = small_detector().graph
    stays = {"l0/decode", "l1/decode", "l0/boxes", "l1/boxes"}
    assert set(float_nodes.left_float(graph)) == stays


def test_a_classifier_keeps_no_layer_float() -> None:
    pytest.importorskip("onnxruntime")
    model = onnx.load(lab.MODEL / records.read_json(lab.MODEL / "model.json")["file"])
    layers = {node.name for node in model.graph.node if node.op_type in float_nodes.LAYERS}
    assert not layers.intersection(float_nodes.left_float(model.graph))


def test_heads_with_shared_weights_answer_nearly_as_in_float(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model, note = quantized(tmp_path, small_detector())
    assert note == (
        "quantized to int8: weights by channel, activations by tensor, 6 calibration samples, "
        "weights of 7 bits"
    )
    made = {name: node for node in model.graph.node for name in node.output}
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    whole = {n.name for n in convs if n.input[1] not in made}
    assert whole == {"l0/boxes", "l1/boxes"}
    feeds = {"image": np.random.default_rng(4).standard_normal((1, 3, 16, 16), np.float32)}
    answers = [
        runtime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"]).run(
            None, feeds
        )
        for name in ("float.onnx", "int8.onnx")
    ]
    for exact, coarse in zip(*answers, strict=True):
        assert np.abs(exact - coarse).max() < 0.06 * np.ptp(exact)


def test_operators_of_an_old_version_are_converted(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, note = quantized(tmp_path, small_detector(11))
    assert model.opset_import[0].version == quantize.OPSET
    assert "by channel" in note


@pytest.mark.parametrize(("opset", "works"), [(11, True), (9, False)])
def test_where_they_cannot_be_converted_there_is_a_scale_for_each_tensor_or_a_refusal(
    opset: int, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")

    def fail(*_: Any) -> None:
        raise RuntimeError("no adapter for Loop")

    monkeypatch.setattr("onnx.version_converter.convert_version", fail)
    if works:
        model, note = quantized(tmp_path, small_detector(opset))
        assert (model.opset_import[0].version, "by tensor" in note) == (opset, True)
        return
    with pytest.raises(HarnessError, match=r"operators of version 9.*10.*no adapter for Loop"):
        quantized(tmp_path, small_detector(opset))


def test_called_alone_it_says_what_it_is_a_part_of() -> None:
    with pytest.raises(Error, match="there is nothing to quantize") as caught:
        customize.preprocess({"env": {"CM_QUANTIZE_SAMPLES": "8"}})
    assert "--precision=int8" in caught.value.hint


@pytest.mark.parametrize(
    ("facts", "bits"),
    [
        ({"CM_HOST_CPU_ARCHITECTURE": "x86_64", "CM_HOST_CPU_INT8": "yes"}, 8),
        ({"CM_HOST_CPU_ARCHITECTURE": "x86_64"}, 7),
        ({"CM_HOST_CPU_ARCHITECTURE": "aarch64"}, 8),
    ],
)
def test_weights_have_as_many_bits_as_the_processor_can_add(
    tmp_path: Path, facts: dict[str, str], bits: int
) -> None:
    env = {**dict.fromkeys(customize.NEEDED, str(tmp_path)), **facts, "CM_MLPERF_MODEL": "resnet50"}
    env |= {"CM_TMP_RUN_DIR": str(tmp_path), "CM_QUANTIZE_SAMPLES": "8"}
    env["CM_TMP_CURRENT_SCRIPT_PATH"] = str(lab.SCRIPT / "quantize-ml-model")
    customize.preprocess({"env": env})
    assert records.read_json(tmp_path / "quantize.json")["weight_bits"] == bits


def test_an_edit_of_what_a_benchmark_is_makes_its_quantized_model_stale(tmp_path: Path) -> None:
    def relied_on(model: str, plugins: str = "") -> list[str]:
        given = dict.fromkeys(customize.NEEDED, str(tmp_path))
        given |= {"CM_MLPERF_MODEL": model, "CM_MLPERF_PLUGINS": plugins}
        given |= {"CM_TMP_RUN_DIR": str(tmp_path), "CM_QUANTIZE_SAMPLES": "8"}
        given["CM_TMP_CURRENT_SCRIPT_PATH"] = str(lab.SCRIPT / "quantize-ml-model")
        answer = customize.preprocess({"env": given})
        assert isinstance(answer["relies_on"], list)
        return answer["relies_on"]

    said = lab.LIB / "mlperf/catalog/benchmark_specs/bert.py"
    assert relied_on("bert-99") == [str(tmp_path / "dataset.json"), str(said)]
    (tmp_path / "mine_spec.py").write_text(
        "from dataclasses import replace\nfrom mlperf import catalog\n"
        "SPECS = [replace(catalog.benchmark('resnet50', ''), name='mine')]\n"
    )
    (tmp_path / "metric.py").write_text("")
    own = [str(tmp_path / name) for name in ("metric.py", "mine_spec.py")]
    assert relied_on("mine", str(tmp_path))[1:] == own


# ---------------------------------------------------------------- models that are large


def recommender(folder: Path, beside: bool = True) -> Any:
    """Rows of two tables, summed or as they are, beside counts, through two layers."""
    random = np.random.default_rng(5)

    def noise(name: str, *shape: int) -> Any:
        values = random.standard_normal(shape) * 0.3
        return onnx.numpy_helper.from_array(values.astype(np.float32), name)

    def places(name: str, *values: int) -> Any:
        return onnx.numpy_helper.from_array(np.asarray(values, dtype=np.int64), name)

    weights = [noise("t0", 900, 8), noise("t1", 700, 8), noise("w", 20, 16), noise("v", 16, 1)]
    weights += [places("k0", 0), places("k1", 1), places("k3", 3), places("flat", 0, 8)]
    node = onnx.helper.make_node
    nodes = [
        node("Slice", ["indices", "k0", "k1", "k1"], ["i0"]),
        node("Gather", ["t0", "i0"], ["r0"], axis=0),
        node("Slice", ["indices", "k1", "k3", "k1"], ["i1"]),
        node("Gather", ["t1", "i1"], ["r1"], axis=0),
        node("ReduceSum", ["r1", "k1"], ["s1"], keepdims=0),
        node("Reshape", ["r0", "flat"], ["s0"]),
        node("Concat", ["counts", "s0", "s1"], ["x"], axis=1),
        node("Gemm", ["x", "w"], ["y"]),
        node("Relu", ["y"], ["z"]),
        node("Gemm", ["z", "v"], ["odds"]),
        node("Sigmoid", ["odds"], ["pred"]),
    ]
    info = onnx.helper.make_tensor_value_info
    floats, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    inputs = [info("counts", floats, ["N", 4]), info("indices", whole, ["N", 3])]
    outputs = [info("pred", floats, ["N", 1])]
    graph = onnx.helper.make_graph(nodes, "recommender", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 13)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(
        model,
        folder / "float.onnx",
        save_as_external_data=beside,
        location="float.onnx.data",
        size_threshold=1000,
    )
    return model


def clicks(seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    counts = random.standard_normal((50, 4), np.float32)
    return {"counts": counts, "indices": random.integers(0, 700, (50, 3))}


def session(path: Path) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_tables_larger_than_memory_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recommender(tmp_path)
    monkeypatch.setattr(quantize, "LARGE", 40_000)  # between the layers and the tables
    monkeypatch.setattr(quantize, "check_memory", lambda _, size: sizes.append(size))
    sizes: list[int] = []
    out = tmp_path / "out"
    out.mkdir()
    counted = calibration.CalibrationFeeds([[clicks(seed)] for seed in range(4)])
    note = quantize._quantize(
        tmp_path / "float.onnx", out / "int8.onnx", counted, quantize.QuantizationMethod()
    )
    assert note.endswith("4 calibration samples")
    assert sum(sizes) < 2000, "memory is needed for the layers alone"
    assert sorted(path.name for path in out.iterdir()) == ["float.onnx.data", "int8.onnx"]
    tables = out / "float.onnx.data"
    assert tables.samefile(tmp_path / tables.name), "the tables are not copied"
    assert (out / "int8.onnx").stat().st_size < 20_000
    graph = onnx.load(out / "int8.onnx", load_external_data=False).graph
    assert {t.name for t in graph.initializer if t.external_data} == {"t0", "t1"}
    made = {name: node.op_type for node in graph.node for name in node.output}
    layers = [node for node in graph.node if node.op_type == "Gemm"]
    assert [made.get(node.input[1]) for node in layers] == ["DequantizeLinear", None]
    feeds = clicks(9)
    exact, coarse = (
        session(path).run(None, feeds)[0] for path in (tmp_path / "float.onnx", out / "int8.onnx")
    )
    assert np.abs(exact - coarse).max() < 0.02


def test_a_small_model_with_its_weights_beside_it_becomes_one_file(tmp_path: Path) -> None:
    recommender(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    counted = calibration.CalibrationFeeds([[clicks(seed)] for seed in range(4)])
    quantize._quantize(
        tmp_path / "float.onnx", out / "int8.onnx", counted, quantize.QuantizationMethod()
    )
    assert [path.name for path in out.iterdir()] == ["int8.onnx"]
    feeds = clicks(9)
    exact, coarse = (
        session(path).run(None, feeds)[0] for path in (tmp_path / "float.onnx", out / "int8.onnx")
    )
    assert np.abs(exact - coarse).max() < 0.02


def test_small_tables_and_those_within_the_graph_are_not_set_aside(tmp_path: Path) -> None:
    recommender(tmp_path)
    assert embedding_split.cut(tmp_path / "float.onnx", 60_000) is None
    assert embedding_split.cut(tmp_path / "float.onnx", 50_000) is not None
    recommender(tmp_path, beside=False)
    assert embedding_split.cut(tmp_path / "float.onnx", 1) is None


def test_weights_that_one_file_cannot_hold_lie_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "LARGE", 1000)
    folder = lab.SCRIPT / "get-ml-model-rnnt" / "tiny"
    changes = {"benchmark": "rnnt", "facts": str(folder / "model.json"), "samples": 1}
    assert quantize.main(request(tmp_path, dataset=str(forms.speech_arrays()), **changes)) == 0
    facts = records.read_json(tmp_path / "model.json")
    names = ["rnnt_tiny_encoder_int8.onnx.data", "rnnt_tiny_step_int8.onnx.data"]
    assert [each["file"] for each in facts["data"]] == names
    for each in facts["data"]:
        data = (tmp_path / each["file"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (each["sha256"], each["bytes"])
    model = quantize._spec(facts, tmp_path / facts["file"])
    assert model.data_bytes == sum(each["bytes"] for each in facts["data"])
    runtime = backends.create("onnxruntime", "cpu", "int8")
    for graph in model.graphs():
        runtime.open(graph, [graph.outputs[0].name], 1, 1)


def test_a_model_that_does_not_fit_into_memory_is_refused_in_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available", lambda: (30_000_000_000, "are free on this machine"))
    quantize.check_memory(Path("model.onnx"), 7_000_000_000)
    said = (
        r"quantize gptj.onnx: about 96.0 GB are needed, 4 times its weights, and 30.0 GB are free"
    )
    with pytest.raises(HarnessError, match=said) as caught:
        quantize.check_memory(Path("gptj.onnx"), 24_000_000_000)
    assert "--precision=float32" in caught.value.hint
