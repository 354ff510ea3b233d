"""Post-training quantization of a model to 8-bit integers, with ranges from real samples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import benchmarks, records
from .backends.base import Array, Feeds, Predictor, empty_batch
from .benchmarks.base import Benchmark
from .errors import HarnessError
from .settings import MAIN, GraphSpec, ModelSpec

# The layers that hold nearly all the work; what decides the answer (Softmax, ArgMax) stays float.
QUANTIZED = ("Conv", "Gemm", "MatMul", "Add", "GlobalAveragePool")
NOTE = "quantized to int8: weights by channel, activations by tensor, {count} calibration samples"
# The first version of the operators that can describe a scale for each channel.
OPSET = 13


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
    feeds = list(calibration_feeds(request, _spec(facts, source)))
    name = f"{Path(facts['file']).stem}_int8.onnx"
    target = Path(request.folder) / name
    _quantize(source, target, feeds, facts.get("keep_float", []))
    data = target.read_bytes()
    written = {
        **facts,
        "file": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "precision": "int8",
        "weight_transformations": NOTE.format(count=len(feeds)),
    }
    (target.parent / "model.json").write_text(json.dumps(written, indent=2) + "\n", "utf-8")
    before = source.stat().st_size
    print(f"{len(feeds)} samples; {before} bytes became {len(data)}", flush=True)
    return 0


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
    benchmark.load(range(count))
    listener = _Listener(model.graphs()[0], benchmark.outputs[MAIN])
    solver = benchmark.solver({MAIN: listener}, 1)
    results, sizes = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    for index in range(count):
        solver.solve([index], results, sizes)
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


def _quantize(
    source: Path, target: Path, feeds: Sequence[dict[str, Array]], keep_float: Sequence[str]
) -> None:
    """Quantize all but the nodes of the names ``keep_float``."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = iter(feeds)

        def get_next(self) -> dict[str, Array] | None:
            return next(self._left, None)

    prepared = target.with_suffix(".prepared.onnx")
    try:
        quant_pre_process(_recent(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(target),
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=list(QUANTIZED),
            nodes_to_exclude=list(keep_float),
        )
    except Exception as error:  # the library raises plain exceptions of many kinds
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise HarnessError(f"onnxruntime cannot quantize {source}: {reason[0]}") from error
    finally:
        prepared.unlink(missing_ok=True)


def _recent(source: Path) -> Any:
    """The model or its path, in operators that quantization can use."""
    import onnx
    from onnx import version_converter

    model = onnx.load(source)
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if min(versions) >= OPSET:
        # A path, because a model in memory is stored in parts, which some operators cannot read.
        return str(source)
    return version_converter.convert_version(model, OPSET)
