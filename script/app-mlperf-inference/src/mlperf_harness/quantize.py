"""Post-training quantization of a model to 8-bit integers, with ranges from real samples."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import backends, benchmarks, lookups, memory, ranges, records
from .backends.base import Array, Feeds, Predictor, empty_batch
from .benchmarks.base import Benchmark
from .errors import HarnessError
from .host import usable_cores
from .progress import Progress
from .settings import FLOAT32, MAIN, GraphSpec, ModelSpec

# The layers that hold nearly all the work; what decides the answer (Softmax, ArgMax) stays float.
QUANTIZED = ("Conv", "Gemm", "MatMul", "Add", "GlobalAveragePool", "Relu", "Clip")
# Those of them that have weights. A Relu or Clip after them is taken into them, so that no step of
# their range is spent on what it cuts off.
LAYERS = ("Conv", "Gemm", "MatMul")
NOTE = "quantized to int8: weights by {weights}, activations by tensor, {told}"
GRAPH_KEYS = ("name", "sha256", "inputs", "outputs")
BLOCK = 1 << 24
# A graph with more weights than that cannot be one file of Protocol Buffers.
LARGE = 2_000_000_000
# How often quantizing has the weights in memory at the worst moment: the graph that is quantized,
# the copy and the session of the one that ranges are taken from, and what is computed. With one
# layer of GPT-J, 2.5 GB, it was 3.6 times.
COPIES = 4
# Of a sample that takes many calls, each fed with what the one before has answered.
CALLS, CALLS_BYTES = 8, 1 << 30
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
    model = _spec(facts, Path(request.facts).parent / facts["file"])
    folder = Path(request.folder)
    notes, written = [], []
    for graph, described in zip(model.graphs(), (facts, *facts.get("parts", ())), strict=True):
        feeds = Counted(calibration_feeds(request, model, graph.name))
        target = folder / f"{Path(graph.path).stem}_int8.onnx"
        notes.append(_quantize(Path(graph.path), target, feeds, described.get("keep_float", [])))
        written.append({**described, **_file(target)})
    whole, *parts = written
    whole["precision"] = "int8"
    whole["weight_transformations"] = "; ".join(dict.fromkeys(notes))
    whole |= {"parts": parts} if parts else {}
    whole.pop("data", None)
    data = [_file(folder / name) for name in _data_files(folder, written)]
    whole |= {"data": data} if data else {}
    (folder / "model.json").write_text(json.dumps(whole, indent=2) + "\n", "utf-8")
    after = sum(each["bytes"] for each in (*written, *data))
    print(f"{notes[0]}; {memory.model_bytes(model)} bytes became {after}", flush=True)
    return 0


def check_memory(source: Path, size: int) -> None:
    """Raise HarnessError where so many bytes of weights are too many for the memory that is free.

    Small models are not asked about.
    """
    free, whose = memory.available()
    if size > LARGE and free is not None and free < COPIES * size:
        raise HarnessError(
            f"too little memory to quantize {source}: about {memory.megabytes(COPIES * size)} are "
            f"needed, {COPIES} times its weights, and {memory.megabytes(free)} {whose}",
            "quantize it on a machine with more memory, or use --precision=float32 or bfloat16",
        )


def _data_files(folder: Path, written: Iterable[dict[str, Any]]) -> list[str]:
    """The files that weights of these graphs lie in, besides their own."""
    import onnx

    graphs = [onnx.load(folder / each["file"], load_external_data=False) for each in written]
    return sorted({name for graph in graphs for name in lookups.data_files(graph)})


def _file(path: Path) -> dict[str, Any]:
    """What model.json says of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return {"file": path.name, "sha256": digest.hexdigest(), "bytes": path.stat().st_size}


class Counted:
    """The calls of the model that its ranges are taken from, and how many there were.

    ``samples`` gives for each calibration sample what the model is fed in its calls.
    """

    def __init__(self, samples: Iterable[Sequence[dict[str, Array]]]) -> None:
        self._feeds = self._counted(samples)
        self._samples = self._calls = 0

    def _counted(self, samples: Iterable[Sequence[dict[str, Array]]]) -> Iterator[dict[str, Array]]:
        for calls in samples:
            self._samples += 1
            self._calls += len(calls)
            yield from calls

    def get_next(self) -> dict[str, Array] | None:
        """The next call; None at the end, as ONNX Runtime's calibration has it."""
        return next(self._feeds, None)

    def told(self) -> str:
        """The numbers in words; those of the calls where they are others."""
        samples = f"{self._samples} calibration samples"
        return samples if self._calls == self._samples else f"{self._calls} calls for {samples}"


def _spec(facts: dict[str, Any], source: Path) -> ModelSpec:
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy")
    described = {key: facts[key] for key in keys}
    described["options"] = facts.get("options", {})
    described["parts"] = [
        {**{key: part[key] for key in GRAPH_KEYS}, "path": str(source.parent / part["file"])}
        for part in facts.get("parts", ())
    ]
    data = facts.get("data", [])
    files = [data] if isinstance(data, dict) else data
    described["data_bytes"] = sum(file["bytes"] for file in files)
    spec: ModelSpec = records.decode(ModelSpec, {**described, "path": str(source)})
    return spec


def calibration_feeds(
    request: Request, model: ModelSpec, part: str = MAIN
) -> Iterator[Sequence[dict[str, Array]]]:
    """What the benchmark would feed a graph for each of the first samples, call by call.

    A sample may take hundreds of calls, such as windows of a large volume: there are no more calls
    in all than samples are asked for, evenly spread over the samples and the calls of each. Where
    what a graph answers is fed to it again, there are at most ``CALLS`` of each sample.
    """
    benchmark: Benchmark = benchmarks.create(request.benchmark, Path(request.dataset), model)
    ranges.check_room(int(getattr(benchmark, "work_bytes", 0)))
    count = min(request.samples, benchmark.sample_count)
    graphs = {graph.name: graph for graph in model.graphs()}
    # Such a call is a whole prompt where those after it are a letter each.
    first = bool(getattr(benchmark, "feeds_back", False))
    answering: Callable[[GraphSpec, Sequence[str]], Predictor] = _opened if first else _Zeros
    predictors = {name: answering(graph, benchmark.outputs[name]) for name, graph in graphs.items()}
    listener = _Listener(predictors[part], CALLS if first else request.samples // count, first)
    solver = benchmark.solver({**predictors, part: listener}, 1)
    results, sizes = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    progress = Progress()
    for index in range(count):
        # One at a time: a hundred large pictures are gigabytes.
        benchmark.load([index])
        solver.solve([index], results, sizes)
        benchmark.unload()
        progress.report("calibration", index, count, "samples")
        yield listener.taken()


def _opened(graph: GraphSpec, outputs: Sequence[str]) -> Predictor:
    """The float graph itself, for answers that decide what is fed next."""
    runtime = backends.create("onnxruntime", "cpu", FLOAT32)
    (predictor,) = runtime.open(graph, outputs, 1, usable_cores())
    return predictor


class _Zeros(Predictor):
    """Answers zeros, where no answer decides what is fed next."""

    def __init__(self, graph: GraphSpec, outputs: Sequence[str]) -> None:
        self._outputs = [t for name in outputs for t in graph.outputs if t.name == name]

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``backends.base.Predictor``."""
        count = len(next(iter(feeds.values())))
        return list(empty_batch(self._outputs, count).values())


class _Listener(Predictor):
    """Keeps calls that are evenly spread over those of a sample, and answers what another does.

    ``most`` calls are handed out, the ``first`` one among them where that is asked. Never more than
    twice as many are in memory, nor more than ``CALLS_BYTES`` of them but the first: when there
    are, every second one is forgotten, and from then on only every second one of before is kept.
    """

    def __init__(self, answers: Predictor, most: int, first: bool) -> None:
        self._answers = answers
        self._most = most
        self._first = first
        self._kept: list[dict[str, Array]] = []
        self._heard, self._step = 0, 1

    def taken(self) -> list[dict[str, Array]]:
        """Calls of the sample that has ended; the next one begins."""
        count = min(self._most, len(self._kept))
        # The middle of each of so many equal parts.
        found = [self._kept[(2 * k + 1) * len(self._kept) // (2 * count)] for k in range(count)]
        if self._first and found:
            found[0] = self._kept[0]
        self._kept = []
        self._heard, self._step = 0, 1
        return found

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``backends.base.Predictor``."""
        if self._heard % self._step == 0:
            self._kept.append({name: np.array(array) for name, array in feeds.items()})
        self._heard += 1
        while self._too_many():
            self._kept = self._kept[::2]
            self._step *= 2
        return self._answers.predict(feeds)

    def _too_many(self) -> bool:
        size = sum(array.nbytes for feeds in self._kept for array in feeds.values())
        return len(self._kept) > 2 * self._most or (len(self._kept) > 1 and size > CALLS_BYTES)


def _quantize(source: Path, target: Path, feeds: Counted, keep_float: Sequence[str]) -> str:
    """Quantize all but the nodes that ``left_float`` names; returns a note on what was done."""
    rest = target.with_suffix(".rest.onnx")
    coarse = target.with_suffix(".coarse.onnx")
    try:
        found = lookups.cut(source, LARGE)
        if found is None:
            by_channel = _quantize_graph(source, target, feeds, keep_float)
        else:
            found.write_rest(rest)
            calls = lookups.LookedUp(found, feeds)
            by_channel = _quantize_graph(rest, coarse, calls, keep_float)
            found.join(coarse, target)
    except HarnessError:
        raise
    except Exception as error:  # the library raises plain exceptions of many kinds
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise HarnessError(f"onnxruntime cannot quantize {source}: {reason[0]}") from error
    finally:
        for path in (rest, coarse, Path(f"{coarse}.data")):
            path.unlink(missing_ok=True)
    return NOTE.format(weights="channel" if by_channel else "tensor", told=feeds.told())


@ranges.lean()
def _quantize_graph(
    source: Path, target: Path, calls: lookups.Calls, keep_float: Sequence[str]
) -> bool:
    """Write ``source`` in int8, with ranges from ``calls``; whether by channel."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    recent = target.with_suffix(".recent.onnx")
    prepared = target.with_suffix(".prepared.onnx")
    size = _weight_bytes(source)
    check_memory(source, size)
    large = size > LARGE
    try:
        by_channel = _write_recent(source, recent)
        quant_pre_process(
            str(recent if recent.exists() else source),
            str(prepared),
            skip_symbolic_shape=True,
            save_as_external_data=large,
            all_tensors_to_one_file=large,
            external_data_location=f"{prepared.name}.data",
        )
        float_nodes = _name_nodes(prepared, keep_float)
        quantize_static(
            str(prepared),
            str(target),
            calls,
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=by_channel,
            op_types_to_quantize=list(QUANTIZED),
            nodes_to_exclude=float_nodes,
            use_external_data_format=large,
        )
    finally:
        for path in (recent, prepared, Path(f"{prepared}.data")):
            path.unlink(missing_ok=True)
    return by_channel


def _write_recent(source: Path, target: Path) -> bool:
    """Write the model in newer operators where its own are too old; are scales by channel possible?

    Raises HarnessError for one whose operators are too old even for scales by tensor.
    """
    import onnx
    from onnx import version_converter

    version = _version(onnx.load(source, load_external_data=False))
    if version >= OPSET:
        return True
    model = onnx.load(source)
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


def _weight_bytes(source: Path) -> int:
    """Bytes of the weights of a graph, in its own file and in those beside it."""
    import onnx

    weights = onnx.load(source, load_external_data=False).graph.initializer
    return sum(lookups.tensor_bytes(each) for each in weights)


def _version(model: Any) -> int:
    """The version of the standard operators that a model is written in."""
    return min(int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx"))


def _name_nodes(path: Path, keep_float: Sequence[str]) -> list[str]:
    """Name all nodes of the model in ``path``; the names of those that are to stay float."""
    import onnx

    model = onnx.load(path, load_external_data=False)
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
