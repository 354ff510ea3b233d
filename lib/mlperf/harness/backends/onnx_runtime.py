"""ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from .base import Array, Backend, Feeds, Predictor, check_signature
from .onnx_file import ROOT, graph_alone

# Where the weights lie that a model in memory names.
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
DTYPES = {
    "tensor(float)": "float32",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(uint8)": "uint8",
}


class OnnxPredictor(Predictor):
    """Calls a session; sessions of one thread may be shared between workers."""

    def __init__(self, session: Any, outputs: Sequence[str]) -> None:
        self._run = session.run
        self._outputs = list(outputs)

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        results: Sequence[Array] = self._run(self._outputs, feeds)
        return results


class OnnxRuntime(Backend):
    """The ``onnxruntime`` backend; the graph defines the computation."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._provider = PROVIDERS[setup.device]
        available = onnxruntime.get_available_providers()
        if self._provider not in available:
            more = "; install onnxruntime-gpu in its place" if setup.device == "cuda" else ""
            raise HarnessError(
                f"this onnxruntime has no {self._provider}; it has {', '.join(available)}{more}"
            )

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. Workers with one thread share one session and its weights."""
        sessions = [
            self._session(graph.path, threads) for _ in range(workers if threads > 1 else 1)
        ]
        wanted = [t for t in graph.outputs if t.name in outputs]
        check_signature("input", graph.inputs, _tensors(sessions[0].get_inputs()))
        check_signature("output", wanted, _tensors(sessions[0].get_outputs()))
        return [OnnxPredictor(sessions[n % len(sessions)], outputs) for n in range(workers)]

    def _session(self, path: str, threads: int) -> Any:
        try:
            session = self._lean(path, threads)
        except Exception as error:  # onnxruntime raises its own C++ exceptions without a base
            reason = str(error).strip().splitlines()[0]
            text = f"onnxruntime cannot open {path}: {reason}"
            raise HarnessError(text, OTHER_MODEL) from error
        used = session.get_providers()
        if used[:1] != [self._provider]:
            # Without a driver, or with libraries missing, it goes on with the CPU and says nothing.
            raise HarnessError(
                f"asked for {self._provider}, but the session uses {', '.join(used)}: "
                "are the driver and the CUDA and cuDNN libraries of this onnxruntime installed?"
            )
        return session

    def _lean(self, path: str, threads: int) -> Any:
        """A session whose weights are mapped; by the whole file where that cannot be done."""
        try:
            graph = graph_alone(Path(path))
            options = _options(threads)
            options.add_session_config_entry(WEIGHTS_FOLDER, str(ROOT))
            return onnxruntime.InferenceSession(graph, options, providers=[self._provider])
        except Exception:  # no such model, or an onnxruntime before 1.23
            # Without the folder: with it, 1.29 looks for the weights of a link nowhere else.
            providers = [self._provider]
            return onnxruntime.InferenceSession(path, _options(threads), providers=providers)

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {"onnxruntime": str(onnxruntime.__version__)}


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


def _tensors(infos: Sequence[Any]) -> list[TensorSpec]:
    return [
        TensorSpec(
            info.name,
            DTYPES.get(info.type, info.type),
            tuple(size if isinstance(size, int) else -1 for size in info.shape[1:]),
        )
        for info in infos
    ]
