"""Turn the ONNX graph of a model into TorchScript: ``python -m modelzoo.torchscript --out DIR``.

The folder is that of the model: its ``model.json`` names the graph, whose weights, inputs and
outputs the TorchScript file has. The graph is removed when that is written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mlperf.harness.backends.py_torch import from_onnx
from mlperf.harness.records import read_json
from mlperf.harness.settings import MAIN, GraphSpec, TensorSpec
from modelzoo import models, program

# A length for dimensions that requests choose, and a batch that is not taken for a constant 1.
LENGTH, BATCH = 384, 2


def graph_of(folder: Path, facts: Mapping[str, Any]) -> GraphSpec:
    """The ONNX graph that the facts of a model describe."""
    inputs, outputs = (
        tuple(TensorSpec(t["name"], t["dtype"], tuple(t["shape"])) for t in facts[kind])
        for kind in ("inputs", "outputs")
    )
    return GraphSpec(MAIN, str(folder / facts["file"]), facts["sha256"], inputs, outputs)


def example(tensor: TensorSpec) -> Tensor:
    """Something to trace with: a half of ones, which is a mask, a token and an image."""
    shape = (BATCH, *(LENGTH if size == -1 else size for size in tensor.shape))
    values = torch.zeros(shape, dtype=getattr(torch, tensor.dtype))
    values[..., : shape[-1] // 2] = 1
    return values


def traced(graph: GraphSpec) -> Any:
    """The TorchScript module; its arguments and results are in the order of ``graph``.

    Raises ProgramError when the inputs come in another order.
    """
    opened = from_onnx(graph, [tensor.name for tensor in graph.outputs])
    if opened.inputs != tuple(tensor.name for tensor in graph.inputs):
        raise program.ProgramError(f"{graph.path} takes {', '.join(opened.inputs)} in this order")
    examples = tuple(map(example, graph.inputs))
    with torch.inference_mode():
        return torch.jit.trace(  # type: ignore[no-untyped-call, unused-ignore]
            opened.module.eval(), examples
        )


def convert(folder: Path) -> str:
    """Replace the graph by a TorchScript file and its facts; return a line about it."""
    facts = read_json(folder / models.MODEL_FACTS)
    graph = graph_of(folder, facts)
    path = Path(graph.path).with_suffix(".pt")
    traced(graph).save(str(path))
    models.write_facts(folder, {**facts, **models.graph_facts(path)})
    Path(graph.path).unlink()
    return f"{path.name}: {path.stat().st_size} bytes of TorchScript"


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert the model of a folder."""
    options = program.parser(__doc__).parse_args(arguments)
    return program.run("torchscript", lambda: convert(options.out))


if __name__ == "__main__":
    sys.exit(main())
