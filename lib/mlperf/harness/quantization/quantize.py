"""Post-training quantization of a model to 8-bit integers, with ranges from real samples."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.files import sha256

from .. import records
from ..benchmarks import registry as benchmarks
from ..errors import HarnessError
from ..measuring import memory
from ..settings import ModelSpec
from ..wording import megabytes
from . import calibration_cache, embedding_split, ranges
from .calibration import CalibrationFeeds, calls_of
from .float_nodes import QUANTIZED, left_float
from .int8_symmetric import signed_symmetric, unsigned

NOTE = "quantized to int8: weights by {weights}, activations by tensor, {feeds}"
# What ranges of signed models are found by; the others take the least and the greatest value.
ENTROPY = ", signed and symmetric, ranges by entropy"
# A processor with AVX2 or AVX-512 and no VNNI adds products of two 8-bit integers in 16 bits, which
# overflows with weights of 8 bits. Source: ONNX Runtime's page on quantization, "reduce_range".
REDUCED_BITS = 7
REDUCED = ", weights of 7 bits"
GRAPH_KEYS = ("name", "sha256", "inputs", "outputs")
# A graph with more weights than that cannot be one file of Protocol Buffers.
LARGE = 2_000_000_000
# How often quantizing has the weights in memory at the worst moment: the graph that is quantized,
# the copy and the session of the one that ranges are taken from, and what is computed. With one
# layer of GPT-J, 2.5 GB, it was 3.6 times.
COPIES = 4
# The first versions of the operators that can describe a scale per channel, and one at all.
OPSET, LEAST_OPSET = 13, 10


@dataclass(frozen=True, slots=True)
class QuantizationRequest:
    """What to quantize: a model by its facts, and samples of a data set that it is not judged on.

    ``folder`` takes the new model and its facts. ``signed`` is for TensorRT: activations in signed
    integers around zero, and a calibration cache next to the model. ``weight_bits`` is 8, or 7 for
    processors that cannot add products of 8 bits.
    """

    benchmark: str
    facts: str
    dataset: str
    samples: int
    folder: str
    signed: bool = False
    weight_bits: int = 8


@dataclass(frozen=True, slots=True)
class QuantizationMethod:
    """How one graph is quantized: for TensorRT or not, which nodes stay float, bits of weights."""

    signed: bool = False
    keep_float: tuple[str, ...] = ()
    weight_bits: int = 8


def main(config: Path) -> int:
    """Quantize as ``config`` says; raises HarnessError when model or samples do not allow it."""
    request = records.read(QuantizationRequest, config)
    facts = records.read_json(Path(request.facts))
    model = _spec(facts, Path(request.facts).parent / facts["file"])
    benchmark = benchmarks.create(request.benchmark, Path(request.dataset), model)
    folder = Path(request.folder)
    notes, written = [], []
    for graph, described in zip(model.graphs(), (facts, *facts.get("parts", ())), strict=True):
        feeds = CalibrationFeeds(calls_of(benchmark, model, request.samples, graph.name))
        target = folder / f"{Path(graph.path).stem}_int8.onnx"
        kept = tuple(described.get("keep_float", ()))
        way = QuantizationMethod(request.signed, kept, request.weight_bits)
        notes.append(_quantize(Path(graph.path), target, feeds, way))
        if request.signed:
            calibration_cache.write_for(target)
        written.append({**described, **_file(target)})
    whole, *parts = written
    whole["precision"] = "int8"
    whole["weight_transformations"] = "; ".join(dict.fromkeys(notes))
    whole |= {"parts": parts} if parts else {}
    whole.pop("data", None)
    data = [_file(folder / name) for name in _data_files(folder, written)]
    whole |= {"data": data} if data else {}
    (folder / "model.json").write_text(json.dumps(whole, indent=2) + "\n", "utf-8")
    after = sum(entry["bytes"] for entry in (*written, *data))
    print(f"{notes[0]}; {model.stored_bytes()} bytes became {after}", flush=True)
    return 0


def check_memory(source: Path, size: int) -> None:
    """Raise HarnessError where so many bytes of weights are too many for the memory that is free.

    Small models are not checked.
    """
    free, whose = memory.available()
    if size > LARGE and free is not None and free < COPIES * size:
        raise HarnessError(
            f"too little memory to quantize {source}: about {megabytes(COPIES * size)} are "
            f"needed, {COPIES} times its weights, and {megabytes(free)} {whose}",
            "quantize it on a machine with more memory, or use --precision=float32 or bfloat16",
        )


def _data_files(folder: Path, written: Iterable[dict[str, Any]]) -> list[str]:
    """Return the files that weights of these graphs lie in, besides their own."""
    import onnx

    graphs = [onnx.load(folder / entry["file"], load_external_data=False) for entry in written]
    return sorted({name for graph in graphs for name in embedding_split.data_files(graph)})


def _file(path: Path) -> dict[str, Any]:
    """What model.json says of a file."""
    return {"file": path.name, "sha256": sha256(path), "bytes": path.stat().st_size}


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


def _quantize(source: Path, target: Path, feeds: CalibrationFeeds, way: QuantizationMethod) -> str:
    """Quantize all but the nodes that ``left_float`` names; returns a note on what was done."""
    rest = target.with_suffix(".rest.onnx")
    coarse = target.with_suffix(".coarse.onnx")
    try:
        graph_cut = embedding_split.cut(source, LARGE)
        if graph_cut is None:
            by_channel = _quantize_graph(source, target, feeds, way)
        else:
            graph_cut.write_rest(rest)
            calls = embedding_split.LookedUp(graph_cut, feeds)
            by_channel = _quantize_graph(rest, coarse, calls, way)
            graph_cut.join(coarse, target)
    except HarnessError:
        raise
    except Exception as error:  # the library raises plain exceptions of many kinds
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise HarnessError(f"onnxruntime cannot quantize {source}: {reason[0]}") from error
    finally:
        for path in (rest, coarse, Path(f"{coarse}.data")):
            path.unlink(missing_ok=True)
    note = NOTE.format(weights="channel" if by_channel else "tensor", feeds=feeds.describe())
    return note + ENTROPY * way.signed + REDUCED * (way.weight_bits == REDUCED_BITS)


@ranges.lean()
def _quantize_graph(
    source: Path, target: Path, calls: embedding_split.Calls, way: QuantizationMethod
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
        by_channel = _write_recent(source, recent, together=not large)
        quant_pre_process(
            str(recent if recent.exists() else source),
            str(prepared),
            skip_symbolic_shape=True,
            save_as_external_data=large,
            all_tensors_to_one_file=large,
            external_data_location=f"{prepared.name}.data",
        )
        graph = _name_nodes(prepared)
        float_nodes = [*way.keep_float, *left_float(graph)]
        quantize_static(
            str(prepared),
            str(target),
            calls,
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8 if way.signed else QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=by_channel,
            reduce_range=way.weight_bits == REDUCED_BITS,
            op_types_to_quantize=list(QUANTIZED),
            nodes_to_exclude=float_nodes,
            use_external_data_format=large,
            **(signed_symmetric() if way.signed else unsigned(graph, float_nodes)),
        )
    finally:
        for path in (recent, prepared, Path(f"{prepared}.data")):
            path.unlink(missing_ok=True)
    return by_channel


def _write_recent(source: Path, target: Path, together: bool) -> bool:
    """Write the model in newer operators where its own are too old; True: scales by channel fit.

    It is written too where its weights lie in files of their own and are to be ``together`` with
    it: ONNX Runtime looks for such files next to the optimized graph, where they are not.
    Raises HarnessError for one whose operators are too old even for scales by tensor.
    """
    import onnx
    from onnx import version_converter

    alone = onnx.load(source, load_external_data=False)
    version = _version(alone)
    if version >= OPSET:
        if together and embedding_split.data_files(alone):
            onnx.save(onnx.load(source), target)
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
    """Bytes of the weights of a graph, in its own file and in those next to it."""
    import onnx

    weights = onnx.load(source, load_external_data=False).graph.initializer
    return sum(embedding_split.tensor_bytes(weight) for weight in weights)


def _version(model: Any) -> int:
    """Return the version of the standard operators that a model is written in."""
    return min(int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx"))


def _name_nodes(path: Path) -> Any:
    """Name all nodes of the model in ``path``; returns its graph."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{number}"
    onnx.save(model, path)
    return model.graph
