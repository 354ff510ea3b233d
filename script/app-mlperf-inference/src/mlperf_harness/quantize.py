"""Post-training quantization of a model to 8-bit integers, with ranges from real samples."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import benchmarks, records
from .backends.base import Array, Feeds, Predictor, empty_batch
from .benchmarks.base import Benchmark
from .errors import HarnessError
from .progress import Progress
from .settings import MAIN, GraphSpec, ModelSpec

# The layers that hold nearly all the work; what decides the answer (Softmax, ArgMax) stays float.
QUANTIZED = ("Conv", "Gemm", "MatMul", "Add", "GlobalAveragePool", "Relu", "Clip")
# Those of them that have weights. A Relu or Clip after them is taken into them, so that no step of
# their range is spent on what it cuts off.
LAYERS = ("Conv", "Gemm", "MatMul")
NOTE = "quantized to int8: weights by {weights}, activations by tensor, {count} calibration samples"
# The first versions of the operators that can describe a scale for each channel, and one at all.
OPSET, LEAST_OPSET = 13, 10
# Heads of a detector have so many times as many channels for classes as for boxes, at least.
APART = 4


@dataclass(frozen=True, slots=True)
class Request:
    """What to quantize: a model by its facts, and samples of a data set that it is not judged on.

    ``folder`` takes the new model and its facts.
    """

    benchmark: str
    facts: str
    dataset: str
    samples: int
    folder: str


def main(config: Path) -> int:
    """Quantize as ``config`` says; raises HarnessError when model or samples do not allow it."""
    request = records.read(Request, config)
    facts = records.read_json(Path(request.facts))
    source = Path(request.facts).parent / facts["file"]
    if facts.get("parts"):
        raise HarnessError(f"{source} has several graphs; only models of one graph are quantized")
    feeds = Counted(calibration_feeds(request, _spec(facts, source)))
    name = f"{Path(facts['file']).stem}_int8.onnx"
    target = Path(request.folder) / name
    note = _quantize(source, target, feeds, facts.get("keep_float", []))
    data = target.read_bytes()
    written = {
        **facts,
        "file": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "precision": "int8",
        "weight_transformations": note,
    }
    (target.parent / "model.json").write_text(json.dumps(written, indent=2) + "\n", "utf-8")
    before = source.stat().st_size
    print(f"{feeds.count} samples; {before} bytes became {len(data)}", flush=True)
    return 0


class Counted:
    """What is fed to the model, one sample at a time, and how many there were."""

    def __init__(self, feeds: Iterator[dict[str, Array]]) -> None:
        self._feeds = feeds
        self.count = 0

    def get_next(self) -> dict[str, Array] | None:
        """The next sample; None at the end, as ONNX Runtime's calibration has it."""
        found = next(self._feeds, None)
        self.count += found is not None
        return found


def _spec(facts: dict[str, Any], source: Path) -> ModelSpec:
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy")
    described = {key: facts[key] for key in keys}
    described["options"] = facts.get("options", {})
    spec: ModelSpec = records.decode(ModelSpec, {**described, "path": str(source)})
    return spec


def calibration_feeds(request: Request, model: ModelSpec) -> Iterator[dict[str, Array]]:
    """What the benchmark would feed the model for each of the first samples, one at a time."""
    benchmark: Benchmark = benchmarks.create(request.benchmark, Path(request.dataset), model)
    count = min(request.samples, benchmark.sample_count)
    listener = _Listener(model.graphs()[0], benchmark.outputs[MAIN])
    solver = benchmark.solver({MAIN: listener}, 1)
    results, sizes = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    progress = Progress()
    for index in range(count):
        # One at a time: a hundred large pictures are gigabytes.
        benchmark.load([index])
        solver.solve([index], results, sizes)
        benchmark.unload()
        progress.report("calibration", index, count, "samples")
        yield from listener.heard
        listener.heard.clear()


class _Listener(Predictor):
    """Keeps what it is fed and answers zeros."""

    def __init__(self, graph: GraphSpec, outputs: Sequence[str]) -> None:
        self._outputs = [t for name in outputs for t in graph.outputs if t.name == name]
        self.heard: list[dict[str, Array]] = []

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``backends.base.Predictor``."""
        self.heard.append({name: np.array(array) for name, array in feeds.items()})
        count = len(next(iter(feeds.values())))
        return list(empty_batch(self._outputs, count).values())


def _quantize(source: Path, target: Path, feeds: Counted, keep_float: Sequence[str]) -> str:
    """Quantize all but the nodes that ``left_float`` names; returns a note on what was done."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    recent = target.with_suffix(".recent.onnx")
    prepared = target.with_suffix(".prepared.onnx")
    try:
        by_channel = _write_recent(source, recent)
        quant_pre_process(str(recent), str(prepared), skip_symbolic_shape=True)
        float_nodes = _name_nodes(prepared, keep_float)
        quantize_static(
            str(prepared),
            str(target),
            feeds,
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=by_channel,
            op_types_to_quantize=list(QUANTIZED),
            nodes_to_exclude=float_nodes,
        )
    except HarnessError:
        raise
    except Exception as error:  # the library raises plain exceptions of many kinds
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise HarnessError(f"onnxruntime cannot quantize {source}: {reason[0]}") from error
    finally:
        recent.unlink(missing_ok=True)
        prepared.unlink(missing_ok=True)
    return NOTE.format(weights="channel" if by_channel else "tensor", count=feeds.count)


def _write_recent(source: Path, target: Path) -> bool:
    """Write the model in operators that quantization can use; whether by channel.

    Raises HarnessError for one whose operators are too old even for scales by tensor.
    """
    import onnx
    from onnx import version_converter

    model = onnx.load(source)
    version = _version(model)
    if version < OPSET:
        try:
            model = version_converter.convert_version(model, OPSET)
        except Exception as error:  # the converter raises plain RuntimeErrors
            if version < LEAST_OPSET:
                reason = str(error).strip().splitlines()[0]
                raise HarnessError(
                    f"{source} has operators of version {version}, quantization needs "
                    f"{LEAST_OPSET}, and they cannot be converted: {reason}"
                ) from error
    onnx.save(model, target)
    return _version(model) >= OPSET


def _version(model: Any) -> int:
    """The version of the standard operators that a model is written in."""
    return min(int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx"))


def _name_nodes(path: Path, keep_float: Sequence[str]) -> list[str]:
    """Name all nodes of the model in ``path``; the names of those that are to stay float."""
    import onnx

    model = onnx.load(path)
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{number}"
    onnx.save(model, path)
    return [*keep_float, *left_float(model.graph)]


def left_float(graph: Any) -> list[str]:
    """The nodes of a graph for whose values 256 steps are too coarse.

    After the last convolutions or products of matrices only the answer is worked out: where boxes
    are, which are kept. That costs little, as do the last convolutions that place boxes.
    """
    seen: set[str] = set()
    last, after = [], []
    for node in reversed(graph.node):
        counts = bool(seen.intersection(node.output))
        if node.op_type in LAYERS and not counts:
            last.append(node)
        if node.op_type in LAYERS or counts:
            seen.update(node.input)
        elif node.op_type in QUANTIZED:
            after.append(node.name)
    if any(node.op_type == "Conv" for node in graph.node):
        return [*after, *_placing(graph, last)]
    return sorted({*after, *_of_attention(graph), *(node.name for node in last)})


def _of_attention(graph: Any) -> Iterator[str]:
    """In a transformer, sums (masks of -10000 and more are among them) and attention itself.

    What attention multiplies are no weights.
    """
    weights = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        attends = node.op_type == "MatMul" and not weights.intersection(node.input)
        if attends or node.op_type == "Add":
            yield node.name


def _placing(graph: Any, last: Sequence[Any]) -> list[str]:
    """The convolutions among the last layers that tell of boxes, not of classes.

    A detector has both for each level. Boxes take four channels where classes take dozens, so that
    the convolutions lie on two sides of the middle between fewest and most channels.
    """
    sizes = {tensor.name: tensor.dims for tensor in graph.initializer}
    channels = {
        node.name: sizes[node.input[1]][0]
        for node in last
        if node.op_type == "Conv" and node.input[1] in sizes
    }
    if not channels or max(channels.values()) < APART * min(channels.values()):
        return []
    middle = math.sqrt(min(channels.values()) * max(channels.values()))
    return [name for name, count in channels.items() if count < middle]
