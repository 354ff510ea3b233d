"""The stand-in for TensorRT without a GPU: an ONNX graph, marked as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..engines import generate, sidecar
from ..engines.sidecar import ONNX, STAND_IN
from ..settings import GraphSpec
from .base import Predictor
from .onnx_file import weight_files
from .onnx_runtime import OnnxRuntime


class StandIn(OnnxRuntime):
    """The ``stand-in`` backend: the flow of engines, without an engine."""

    def build(self, graph: GraphSpec, folder: Path) -> GraphSpec:
        """See ``base.Backend``. A graph that ``generate,engine,nvidia,_stand-in`` made is taken."""
        if sidecar.path_of(Path(graph.path)).is_file():
            return graph
        build_request = generate.EngineRequest(
            product=STAND_IN, folder=str(folder), benchmark="model", precision=self.setup.precision
        )
        source = Path(graph.path)
        target = folder / f"{source.stem}{ONNX}"
        link_beside(source, folder)
        generate.write_engine(build_request, source, {"sha256": graph.sha256}, target)
        return replace(graph, path=str(target))

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``; raises HarnessError for a file that is no stand-in."""
        wanted = {"builder": STAND_IN, "precision": self.setup.precision}
        sidecar.check(Path(graph.path), wanted)
        return super().open(graph, outputs, workers, threads)

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``: "stand-in" replaces the name of a runtime."""
        versions = super().versions()
        return {STAND_IN: versions["onnxruntime"], **versions}


def link_beside(graph: Path, folder: Path) -> None:
    """Let the files with weights that a graph names appear in ``folder`` too."""
    facts = {"data": [{"file": name} for name in weight_files(graph)]}
    generate.link_weights(facts, graph.parent, folder)
