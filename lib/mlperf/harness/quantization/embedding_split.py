"""Tables that rows are looked up in, set aside while the rest of a graph is quantized.

Nothing of a lookup is quantized, and the tables may be far larger than memory: those of the
recommendation benchmark have a hundred gigabytes. So the graph is cut where rows have been looked
up. Its front, which looks them up, runs with the tables mapped from their files. The rest has the
rows among its inputs and is quantized alone. Then both are put together again, and the tables are
in the file where they were.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..backends.base import Array

# Where the weights lie that a model in memory names.
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"


@dataclass(frozen=True, slots=True)
class Cut:
    """Two models: ``front`` gives the values ``rows``, which ``rest`` takes besides ``own``.

    ``whole`` is the graph that they are parts of, and ``folder`` has the files of its weights.
    """

    whole: Any
    front: Any
    rest: Any
    rows: tuple[str, ...]
    own: tuple[str, ...]
    folder: Path

    def write_rest(self, path: Path) -> None:
        """Write the rest with all of its weights in one file."""
        import onnx

        onnx.external_data_helper.load_external_data_for_model(self.rest, str(self.folder))
        onnx.save(self.rest, path)

    def join(self, rest: Path, target: Path) -> None:
        """Write the whole model with ``rest`` quantized; the tables' files appear next to it."""
        import onnx

        model = onnx.load(rest)
        graph = model.graph
        known = {tensor.name for tensor in graph.initializer}
        tensors = [t for t in self.front.graph.initializer if t.name not in known]
        nodes = [*self.front.graph.node, *graph.node]
        joined = onnx.helper.make_graph(
            nodes,
            graph.name,
            self.whole.graph.input,
            self.whole.graph.output,
            [*tensors, *graph.initializer],
        )
        model.graph.CopyFrom(joined)
        onnx.save(model, target)
        for name in data_files(model):
            _appear(self.folder / name, target.parent / name)


class Calls(Protocol):
    """What a model is fed, call by call, as ONNX Runtime's calibration takes it."""

    def get_next(self) -> dict[str, Array] | None:
        """The inputs of the next call by name, each with its batch first; None at the end."""


class LookedUp:
    """What the rest of a cut model is fed, for the ``calls`` of the whole one."""

    def __init__(self, graph_cut: Cut, calls: Calls) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.add_session_config_entry(WEIGHTS_FOLDER, str(graph_cut.folder))
        self._session = onnxruntime.InferenceSession(
            graph_cut.front.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._taken = [tensor.name for tensor in self._session.get_inputs()]
        self._cut, self._calls = graph_cut, calls

    def get_next(self) -> dict[str, Array] | None:
        """See ``Calls``."""
        feeds = self._calls.get_next()
        if feeds is None:
            return None
        rows = self._session.run(self._cut.rows, {name: feeds[name] for name in self._taken})
        rows_by_name = dict(zip(self._cut.rows, rows, strict=True))
        return rows_by_name | {name: feeds[name] for name in self._cut.own}


def cut(source: Path, least: int) -> Cut | None:
    """Cut the model in ``source``; None where the tables have fewer bytes than ``least``.

    Only weights in files of their own are set aside. A graph with further graphs in it (loops) is
    not cut, nor one in which the shapes of what was looked up are unknown.
    """
    import onnx

    whole = onnx.load(source, load_external_data=False)
    graph = whole.graph
    lookups = _lookups(graph)
    if _table_bytes(graph, lookups) < least or _has_graphs(graph):
        return None
    fronts = _with_what_they_need(graph, lookups)
    front: list[Any] = []
    rest: list[Any] = []
    for node in graph.node:
        (front if node.output[0] in fronts else rest).append(node)
    used = dict.fromkeys(name for node in rest for name in node.input)
    rows = _between(front, [*used, *(tensor.name for tensor in graph.output)])
    infos = {info.name: info for info in onnx.shape_inference.infer_shapes(whole).graph.value_info}
    if not infos.keys() >= set(rows):
        return None
    row_infos = [infos[name] for name in rows]
    own = [tensor for tensor in graph.input if tensor.name in used]
    return Cut(
        whole=whole,
        front=_part(whole, front, graph.input, row_infos),
        rest=_part(whole, rest, [*own, *row_infos], graph.output),
        rows=tuple(rows),
        own=tuple(tensor.name for tensor in own),
        folder=source.parent,
    )


def _lookups(graph: Any) -> list[Any]:
    """Return the nodes that look rows up in a table which lies in a file of its own."""
    beside = {tensor.name for tensor in graph.initializer if tensor.external_data}
    return [node for node in graph.node if node.op_type == "Gather" and node.input[0] in beside]


def _table_bytes(graph: Any, lookups: Iterable[Any]) -> int:
    """Bytes of all tables that rows are looked up in."""
    tables = {node.input[0] for node in lookups}
    return sum(tensor_bytes(tensor) for tensor in graph.initializer if tensor.name in tables)


def _has_graphs(graph: Any) -> bool:
    return any(part.HasField("g") for node in graph.node for part in node.attribute)


def _between(front: Iterable[Any], values: Iterable[str]) -> list[str]:
    """Return those of ``values`` that nodes of the front make, without duplicates."""
    made = {name for node in front for name in node.output}
    return [name for name in dict.fromkeys(values) if name in made]


def tensor_bytes(tensor: Any) -> int:
    """Bytes of a weight, wherever it lies."""
    import onnx

    each = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    return each * int(math.prod(tensor.dims))


def data_files(model: Any) -> list[str]:
    """Return the files that weights of a model lie in, besides its own."""
    entries = (entry for t in model.graph.initializer for entry in t.external_data)
    return sorted({entry.value for entry in entries if entry.key == "location"})


def _with_what_they_need(graph: Any, nodes: list[Any]) -> set[str]:
    """First outputs of these nodes and of all that come before them."""
    made = {name: node for node in graph.node for name in node.output}
    outputs: set[str] = set()
    while nodes:
        node = nodes.pop()
        if node.output[0] not in outputs:
            outputs.add(node.output[0])
            nodes += [made[name] for name in node.input if name in made]
    return outputs


def _part(whole: Any, nodes: list[Any], inputs: Iterable[Any], outputs: Iterable[Any]) -> Any:
    """Return a model of some nodes of another one, with the inputs and weights that they use."""
    import onnx

    used = {name for node in nodes for name in node.input}
    graph = onnx.helper.make_graph(
        nodes,
        whole.graph.name,
        [value_info for value_info in inputs if value_info.name in used],
        list(outputs),
        [tensor for tensor in whole.graph.initializer if tensor.name in used],
    )
    return onnx.helper.make_model(
        graph, opset_imports=whole.opset_import, ir_version=whole.ir_version
    )


def _appear(source: Path, target: Path) -> None:
    """Let a file be in a second place without a copy of it."""
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:  # another disk
        target.symlink_to(source)
